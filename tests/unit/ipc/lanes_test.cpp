// The two ends of a lane in one thread: what a well-behaved pair does, and what each refuses.
#include <doctest/doctest.h>

#include <vector>

#include "tests/unit/ipc/shared_lane.h"

namespace lanes_test {

using namespace simm::ipc;
using shared_lane::completion;
using shared_lane::is_whole;
using shared_lane::SharedSession;
using shared_lane::submission;
using simm::Status;

TEST_CASE("a trace context is that of its submission, across the end of the ring") {
  SharedSession memory;
  DaemonLane daemon(memory.lane());
  ClientLane client(memory.lane());
  for (std::uint64_t i = 0; i < 3 * kSubmissionSlots; i += 2) {
    for (std::uint64_t token : {i, i + 1}) {
      client.write_trace({token, token + 1, token + 2, 0});
      REQUIRE(client.push(submission(token)) == Status::ok);
    }
    for (std::uint64_t token : {i, i + 1}) {
      Submission taken{};
      REQUIRE(daemon.poll_submission(taken) == Poll::taken);
      const TraceContext trace = daemon.copy_trace();
      CHECK(trace.trace_high == token);
      CHECK(trace.trace_low == token + 1);
      CHECK(trace.parent == token + 2);
      REQUIRE(daemon.publish_completion(completion(token)) == Wake::none);
      Completion done{};
      REQUIRE(client.poll_completion(done) == Poll::taken);
    }
  }
}

TEST_CASE("submissions and completions arrive whole, in order, across the end of the rings") {
  SharedSession memory;
  DaemonLane daemon(memory.lane());
  ClientLane client(memory.lane());
  std::uint64_t pushed = 0;
  std::uint64_t finished = 0;
  for (int round = 0; round < 50; ++round) {
    const auto burst = static_cast<std::uint64_t>(round % 64 + 1);
    for (std::uint64_t i = 0; i < burst; ++i) {
      REQUIRE(client.push(submission(pushed++)) == Status::ok);
    }
    Submission taken{};
    for (std::uint64_t i = 0; i < burst; ++i) {
      REQUIRE(daemon.poll_submission(taken) == Poll::taken);
      REQUIRE(is_whole(taken));
      REQUIRE(taken.token == finished + i);
    }
    REQUIRE(daemon.poll_submission(taken) == Poll::empty);
    REQUIRE(daemon.outstanding() == burst);
    for (std::uint64_t i = 0; i < burst; ++i) {
      REQUIRE(daemon.publish_completion(completion(finished + i)) == Wake::none);
    }
    Completion done{};
    for (std::uint64_t i = 0; i < burst; ++i) {
      REQUIRE(client.has_completion());
      REQUIRE(client.poll_completion(done) == Poll::taken);
      REQUIRE(is_whole(done));
      REQUIRE(done.token == finished++);
    }
    REQUIRE(client.poll_completion(done) == Poll::empty);
    REQUIRE(client.unfinished() == 0);
  }
}

TEST_CASE("a client that keeps to the protocol fills every slot and is never poisoned") {
  SharedSession memory;
  DaemonLane daemon(memory.lane());
  ClientLane client(memory.lane());
  std::uint64_t token = 0;
  std::uint64_t answered = 0;
  while (client.push(submission(token)) == Status::ok) ++token;
  CHECK(token == kCompletionSlots);
  Submission taken{};
  Completion done{};
  for (int round = 0; round < 300; ++round) {
    while (daemon.poll_submission(taken) == Poll::taken) {
      REQUIRE(daemon.publish_completion(completion(answered++)) == Wake::none);
    }
    REQUIRE(daemon.reason() == PoisonReason::none);
    REQUIRE(client.push(submission(token)) == Status::out_of_memory);
    for (int i = 0; i <= round % 7; ++i) {
      REQUIRE(client.poll_completion(done) == Poll::taken);
      REQUIRE(client.push(submission(token++)) == Status::ok);
    }
  }
}

TEST_CASE("pages, keys and results go through the lane, and nothing outside of it does") {
  SharedSession memory(2);
  DaemonLane daemon(memory.lane());
  ClientLane client(memory.lane());
  PageDescriptor page{};
  page.offset = 77;
  page.key_bytes = 3;
  REQUIRE(client.write_page(kPageSlots - 1, page) == Status::ok);
  CHECK(client.write_page(kPageSlots, page) == Status::invalid_argument);
  REQUIRE(client.write_key(kKeyArenaBytes - 3, "abc", 3) == Status::ok);
  CHECK(client.write_key(kKeyArenaBytes - 2, "abc", 3) == Status::invalid_argument);

  std::vector<PageDescriptor> pages(kPageSlots);
  REQUIRE(daemon.copy_pages(kPageSlots - 1, 1, pages.data()) == Status::ok);
  CHECK(pages[0].offset == 77);
  CHECK(daemon.copy_pages(0, kPageSlots, pages.data()) == Status::ok);
  CHECK(daemon.copy_pages(1, kPageSlots, pages.data()) == Status::invalid_argument);
  CHECK(daemon.copy_pages(~0u, 1, pages.data()) == Status::invalid_argument);
  CHECK(daemon.copy_pages(1, ~0u, pages.data()) == Status::invalid_argument);
  CHECK(daemon.copy_pages(kPageSlots, 0, pages.data()) == Status::ok);
  CHECK(daemon.copy_pages(kPageSlots + 1, 0, pages.data()) == Status::invalid_argument);

  std::byte key[3] = {};
  REQUIRE(daemon.copy_keys(kKeyArenaBytes - 3, 3, key) == Status::ok);
  CHECK(std::memcmp(key, "abc", 3) == 0);
  CHECK(daemon.copy_keys(kKeyArenaBytes - 2, 3, key) == Status::invalid_argument);
  CHECK(daemon.copy_keys(~0u, 3, key) == Status::invalid_argument);

  const PageResult result{static_cast<std::int32_t>(Status::not_found), 0, 12};
  daemon.write_result(kPageSlots - 1, result);
  PageResult seen{};
  REQUIRE(client.read_result(kPageSlots - 1, seen) == Status::ok);
  CHECK(seen.bytes == 12);
  CHECK(seen.status == result.status);
  CHECK(client.read_result(kPageSlots, seen) == Status::invalid_argument);
}

TEST_CASE("a client gets one wake for one announced sleep, the way it asked for") {
  SharedSession memory;
  DaemonLane daemon(memory.lane());
  ClientLane client(memory.lane());
  Submission taken{};
  for (std::uint64_t token = 0; token < 6; ++token) {
    REQUIRE(client.push(submission(token)) == Status::ok);
    REQUIRE(daemon.poll_submission(taken) == Poll::taken);
  }
  REQUIRE(client.announce_sleep(ClientWait::bell));
  CHECK(daemon.publish_completion(completion(0)) == Wake::bell);
  CHECK(daemon.publish_completion(completion(1)) == Wake::none);
  CHECK_FALSE(client.announce_sleep(ClientWait::bell));  // something is there already
  CHECK(daemon.publish_completion(completion(2)) == Wake::none);
  Completion done{};
  while (client.poll_completion(done) == Poll::taken) {
  }
  REQUIRE(client.announce_sleep(ClientWait::futex));
  CHECK(daemon.publish_completion(completion(3)) == Wake::done);
  CHECK(daemon.publish_completion(completion(4)) == Wake::none);
  memory.control()->client_waiting.word = 0xdeadbeef;  // nonsense is no wake, and is cleared
  CHECK(daemon.publish_completion(completion(5)) == Wake::none);
  CHECK(memory.control()->client_waiting.word == 0);
}

TEST_CASE("a client reports an impossible completion_tail and stays broken") {
  for (const std::uint32_t lie : {2u, 65u, 0x80000000u, ~0u}) {
    SharedSession memory;
    ClientLane client(memory.lane());
    REQUIRE(client.push(submission(1)) == Status::ok);
    memory.control()->completion_tail.word = lie;
    Completion done{};
    CHECK(client.poll_completion(done) == Poll::broken);
    memory.control()->completion_tail.word = 0;
    CHECK(client.poll_completion(done) == Poll::broken);
    CHECK(client.push(submission(2)) == Status::invalid_state);
  }
}

}  // namespace lanes_test
