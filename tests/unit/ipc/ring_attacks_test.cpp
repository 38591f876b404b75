// A hostile client against the daemon's end of a lane: lies in cursors, completions never read,
// entries that change while they are read, a client that unmaps its memory.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/ipc/shared_lane.h"

namespace ring_attacks_test {

using namespace simm::ipc;
using shared_lane::completion;
using shared_lane::SharedSession;
using shared_lane::submission;
using simm::Status;

TEST_CASE("a submission tail that claims more than the ring holds breaks the lane for good") {
  for (const std::uint32_t lie : {kSubmissionSlots + 1, 1000u, 0x80000000u, ~0u}) {
    SharedSession memory;
    DaemonLane daemon(memory.lane());
    Submission taken{};
    memory.control()->submission_tail.word = lie;
    CHECK(daemon.poll_submission(taken) == Poll::broken);
    CHECK(daemon.reason() == PoisonReason::ring_cursor);
    memory.control()->submission_tail.word = 1;
    CHECK(daemon.poll_submission(taken) == Poll::broken);
    CHECK_FALSE(daemon.has_submissions());
  }
}

TEST_CASE("a client that never reads its completions is stopped when the ring is full") {
  SharedSession memory;
  DaemonLane daemon(memory.lane());
  Submission taken{};
  for (std::uint32_t i = 0; i < kCompletionSlots; ++i) {
    memory.control()->submission_tail.word = i + 1;
    REQUIRE(daemon.poll_submission(taken) == Poll::taken);
    REQUIRE(daemon.publish_completion(completion(i)) == Wake::none);
  }
  memory.control()->submission_tail.word = kCompletionSlots + 1;
  CHECK(daemon.poll_submission(taken) == Poll::broken);
  CHECK(daemon.reason() == PoisonReason::completion_overflow);
}

TEST_CASE("a completion head that runs ahead or goes back buys no completion slot") {
  for (const std::uint32_t lie : {kCompletionSlots + 1, 0x80000000u, ~0u, 40u}) {
    SharedSession memory;
    DaemonLane daemon(memory.lane());
    Submission taken{};
    std::uint32_t tail = 0;
    const auto serve = [&] {
      memory.control()->submission_tail.word = ++tail;
      const Poll poll = daemon.poll_submission(taken);
      if (poll == Poll::taken) CHECK(daemon.publish_completion(completion(tail)) == Wake::none);
      return poll;
    };
    for (std::uint32_t i = 0; i < kCompletionSlots; ++i) REQUIRE(serve() == Poll::taken);
    memory.control()->completion_head.word = 50;
    for (std::uint32_t i = 0; i < 50; ++i) REQUIRE(serve() == Poll::taken);
    memory.control()->completion_head.word = lie == kCompletionSlots + 1 ? tail + 1 : lie;
    CHECK(serve() == Poll::broken);
    CHECK(daemon.reason() == PoisonReason::completion_overflow);
  }
}

TEST_CASE("a completion head can not claim what is taken but not yet published") {
  SharedSession memory;
  DaemonLane daemon(memory.lane());
  Submission taken{};
  for (std::uint32_t i = 0; i < kCompletionSlots; ++i) {
    memory.control()->submission_tail.word = i + 1;
    REQUIRE(daemon.poll_submission(taken) == Poll::taken);
  }
  REQUIRE(daemon.publish_completion(completion(0)) == Wake::none);
  memory.control()->completion_head.word = 2;
  memory.control()->submission_tail.word = kCompletionSlots + 1;
  CHECK(daemon.poll_submission(taken) == Poll::broken);
  CHECK(daemon.reason() == PoisonReason::completion_overflow);
}

TEST_CASE("a tail that oscillates costs at most one entry for each poll") {
  SharedSession memory;
  DaemonLane daemon(memory.lane());
  Submission taken{};
  std::uint32_t polls = 0;
  for (; polls < kCompletionSlots; ++polls) {
    memory.control()->submission_tail.word = daemon.outstanding() + 1;
    REQUIRE(daemon.poll_submission(taken) == Poll::taken);
    memory.control()->submission_tail.word = daemon.outstanding();
    REQUIRE(daemon.poll_submission(taken) == Poll::empty);
  }
  CHECK(daemon.outstanding() == polls);
}

TEST_CASE("random cursors: no sequence makes the daemon leave its counts or its memory") {
  const std::uint64_t seed = shared_lane::seed(
      "random cursors: no sequence makes the daemon leave its counts or its memory");
  std::mt19937_64 random(seed);
  // A lane with a neighbour on either side: their bytes must not change.
  SharedSession memory(3);
  const std::uint64_t sequences = shared_lane::scaled(2000);
  for (std::uint64_t sequence = 0; sequence < sequences; ++sequence) {
    std::memset(static_cast<void*>(memory.control(1)), 0, sizeof(LaneControl));
    DaemonLane daemon(memory.lane(1));
    LaneControl* const control = memory.control(1);
    const bool small_steps = random() % 2 == 0;
    std::uint32_t taken_count = 0;
    std::uint32_t published = 0;
    for (int step = 0; step < 200; ++step) {
      const auto word = static_cast<std::uint32_t>(random());
      const std::uint32_t jump = small_steps ? word % 4 : word;
      switch (random() % 5) {
        case 0:
          control->submission_tail.word += jump;
          break;
        case 1:
          control->completion_head.word += jump;
          break;
        case 2:
          control->client_waiting.word = word % 2;
          break;
        case 3: {
          Submission out{};
          const std::uint32_t tail = control->submission_tail.word;
          const Poll poll = daemon.poll_submission(out);
          if (poll == Poll::taken) {
            REQUIRE(tail - taken_count <= kSubmissionSlots);
            ++taken_count;
          } else if (poll == Poll::empty) {
            REQUIRE(tail == taken_count);
          } else {
            REQUIRE(daemon.reason() != PoisonReason::none);
          }
          break;
        }
        default:
          if (daemon.outstanding() > 0) {
            const Wake wake = daemon.publish_completion(completion(published++));
            REQUIRE(wake != Wake::bell);
          }
      }
      REQUIRE(daemon.outstanding() == taken_count - published);
      REQUIRE(daemon.outstanding() <= kCompletionSlots);
    }
  }
  for (const std::uint32_t neighbour : {0u, 2u}) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(memory.control(neighbour));
    REQUIRE(std::all_of(bytes, bytes + kLaneBytes, [](std::byte b) { return b == std::byte{0}; }));
  }
}

TEST_CASE("an entry that changes while it is taken is read once") {
  SharedSession memory;
  DaemonLane daemon(memory.lane());
  std::atomic<bool> stop{false};
  // The writer keeps opcode and put_mode, which share a word, equal; both flip together.
  std::thread hostile([&] {
    for (std::uint8_t value = 0; !stop.load(std::memory_order_relaxed); ++value) {
      Submission s{};
      s.opcode = value;
      s.put_mode = value;
      for (std::uint32_t i = 0; i < kSubmissionSlots; ++i) {
        copy_out(memory.lane().submission(i), &s, sizeof s);
      }
    }
  });
  const std::uint64_t rounds = shared_lane::scaled(200'000);
  UntrustedWord tail(&memory.control()->submission_tail.word);
  UntrustedWord head(&memory.control()->completion_head.word);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    tail.store_release(static_cast<std::uint32_t>(i + 1));
    Submission s{};
    REQUIRE(daemon.poll_submission(s) == Poll::taken);
    // A copy by words sees the two bytes as one; a field read twice would see them differ.
    REQUIRE(s.opcode == s.put_mode);
    REQUIRE(daemon.publish_completion(Completion{}) == Wake::none);
    head.store_release(static_cast<std::uint32_t>(i + 1));
  }
  stop = true;
  hostile.join();
}

TEST_CASE("a client that unmaps its lane does not disturb the daemon") {
  const int fd = ::memfd_create("simm-test-two-mappings", MFD_CLOEXEC);
  REQUIRE(fd >= 0);
  const std::size_t bytes = session_bytes(1);
  REQUIRE(::ftruncate(fd, static_cast<off_t>(bytes)) == 0);
  void* const ours = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  void* const theirs = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  REQUIRE(ours != MAP_FAILED);
  REQUIRE(theirs != MAP_FAILED);
  DaemonLane daemon(LaneMemory(lane_base(static_cast<std::byte*>(ours), 0)));
  ClientLane client(LaneMemory(lane_base(static_cast<std::byte*>(theirs), 0)));
  REQUIRE(client.push(submission(5)) == Status::ok);
  REQUIRE(client.announce_sleep(ClientWait::futex));
  REQUIRE(::munmap(theirs, bytes) == 0);
  ::close(fd);
  Submission s{};
  REQUIRE(daemon.poll_submission(s) == Poll::taken);
  CHECK(s.token == 5);
  CHECK(daemon.publish_completion(completion(5)) == Wake::done);
  ::munmap(ours, bytes);
}

}  // namespace ring_attacks_test
