// Attacks through the shared rings, against a daemon that serves somebody else at the same time.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "tests/siege/two_tenant_daemon.h"
#include "tests/siege/victim.h"
#include "tests/support/eventually.h"
#include "tests/support/raw_client.h"

namespace simm::siege {
namespace ring_attacks {

using test_support::RawClient;

using ipc::PoisonReason;

void check_unharmed(const TwoTenantDaemon& daemon, Victim& victim) {
  CHECK(victim.does_rounds(3));
  victim.stop();
  CHECK(daemon.alive());
  CHECK(victim.wrong() == 0);
  CHECK(victim.failed() == 0);
  CHECK(daemon.sessions_settled_to(0) == 0);
}

// A valid put of one page whose fields a test then spoils.
struct Shot {
  ipc::Submission submission{};
  ipc::PageDescriptor page{};
};

Shot valid_shot() {
  Shot shot;
  shot.submission.token = 1;
  shot.submission.timeout_ns = 1'000'000'000;
  shot.submission.page_count = 1;
  shot.submission.opcode = static_cast<std::uint8_t>(ipc::Opcode::exists);
  shot.page = RawClient::page(ipc::kNoRegion, 0, 0, 0, 8);
  return shot;
}

void fire(RawClient& client, const Shot& shot) {
  ipc::ClientLane lane(client.lane_memory(0));
  REQUIRE(lane.write_key(0, "8 bytes.", 8) == Status::ok);
  REQUIRE(lane.write_page(0, shot.page) == Status::ok);
  REQUIRE(lane.push(shot.submission) == Status::ok);
  client.ring();
}

TEST_CASE("a valid shot completes: the attacks below differ from it in one field only") {
  TwoTenantDaemon daemon;
  RawClient client = RawClient::attached(daemon.red_socket());
  fire(client, valid_shot());
  ipc::ClientLane lane(client.lane_memory(0));
  ipc::PageResult result{};
  auto* const control = client.lane_memory(0).control();
  CHECK(test_support::eventually(
      [&] { return __atomic_load_n(&control->completion_tail.word, __ATOMIC_SEQ_CST) == 1; }));
  CHECK(lane.read_result(0, result) == Status::ok);
  CHECK(result.status == static_cast<std::int32_t>(Status::not_found));
}

TEST_CASE("every malformed submission poisons its session, with its reason, and nobody else") {
  TwoTenantDaemon daemon;
  Victim victim(daemon.blue_socket());
  struct Case {
    const char* what;
    PoisonReason reason;
    void (*spoil)(Shot&);
  };
  const Case cases[] = {
      {"opcode", PoisonReason::bad_submission,
       [](Shot& s) { s.submission.opcode = ipc::kOpcodeCount; }},
      {"flag", PoisonReason::bad_submission, [](Shot& s) { s.submission.flags = 0x8000; }},
      {"put mode", PoisonReason::bad_submission,
       [](Shot& s) {
         s.submission.opcode = 1;
         s.submission.put_mode = 9;
       }},
      {"reserved0", PoisonReason::bad_submission, [](Shot& s) { s.submission.reserved0 = 1; }},
      {"reserved", PoisonReason::bad_submission, [](Shot& s) { s.submission.reserved[1] = 1; }},
      {"no page", PoisonReason::bad_submission, [](Shot& s) { s.submission.page_count = 0; }},
      {"pages", PoisonReason::bad_submission, [](Shot& s) { s.submission.page_count = 1025; }},
      {"page range", PoisonReason::bad_submission,
       [](Shot& s) { s.submission.page_first = 0xffffffff; }},
      {"name space", PoisonReason::bad_submission,
       [](Shot& s) { s.submission.name_space = 0xffff; }},
      {"key offset", PoisonReason::bad_descriptor, [](Shot& s) { s.page.key_offset = 0xfffffff0; }},
      {"empty key", PoisonReason::bad_descriptor, [](Shot& s) { s.page.key_bytes = 0; }},
      {"long key", PoisonReason::bad_descriptor, [](Shot& s) { s.page.key_bytes = 1025; }},
      {"region", PoisonReason::bad_descriptor,
       [](Shot& s) {
         s.submission.opcode = 2;
         s.page.region = 0x00010000;
         s.page.length = 4096;
       }},
      {"descriptor reserved", PoisonReason::bad_descriptor,
       [](Shot& s) { s.page.reserved[1] = 1; }},
  };
  for (const Case& attack : cases) {
    INFO(attack.what);
    RawClient client = RawClient::attached(daemon.red_socket());
    Shot shot = valid_shot();
    attack.spoil(shot);
    fire(client, shot);
    CHECK(client.wait_for_poison() == attack.reason);
  }
  check_unharmed(daemon, victim);
}

TEST_CASE("cursor lies poison, whatever the number") {
  TwoTenantDaemon daemon;
  Victim victim(daemon.blue_socket());
  for (const std::uint32_t lie : {65u, 66u, 1000u, 0x7fffffffu, 0x80000000u, 0xffffffffu}) {
    INFO(lie);
    RawClient client = RawClient::attached(daemon.red_socket());
    __atomic_store_n(&client.lane_memory(3).control()->submission_tail.word, lie, __ATOMIC_SEQ_CST);
    client.ring();
    CHECK(client.wait_for_poison() == PoisonReason::ring_cursor);
  }
  check_unharmed(daemon, victim);
}

TEST_CASE("completions that are never read poison the session") {
  TwoTenantDaemon daemon;
  Victim victim(daemon.blue_socket());
  RawClient client = RawClient::attached(daemon.red_socket());
  ipc::ClientSessionWords words(client.header());
  auto* control = client.lane_memory(0).control();
  // SAFETY: slot 0..63 of a mapped lane.
  std::memset(client.lane_memory(0).submission(0), 0,
              ipc::kSubmissionSlots * sizeof(ipc::Submission));
  for (std::uint32_t tail = 16; tail <= 160; tail += 16) {
    __atomic_store_n(&control->submission_tail.word, tail, __ATOMIC_SEQ_CST);
    client.ring();
    CHECK(test_support::eventually([&] {
      return __atomic_load_n(&control->submission_head.word, __ATOMIC_SEQ_CST) == tail ||
             words.state() == ipc::SessionState::poisoned;
    }));
  }
  CHECK(client.wait_for_poison() == PoisonReason::completion_overflow);
  check_unharmed(daemon, victim);
}

TEST_CASE("the ring's memory can not be shrunk, punched or written around") {
  TwoTenantDaemon daemon;
  Victim victim(daemon.blue_socket());
  {
    RawClient client = RawClient::attached(daemon.red_socket());
    CHECK(::ftruncate(client.memory_fd(), 0) == -1);
    CHECK(errno == EPERM);
    CHECK(::fallocate(client.memory_fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) ==
          -1);
    CHECK(errno == EPERM);
    char byte = 0;
    CHECK(::pwrite(client.memory_fd(), &byte, 1, 0) == -1);
    CHECK(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, client.memory_fd(), 0) ==
          MAP_FAILED);
    // Unmapping it here is this process's own loss.
    CHECK(::munmap(client.bytes() + sizeof(ipc::SessionHeader), ipc::kLaneBytes / 4096 * 4096) ==
          0);
    client.ring();
    CHECK(victim.does_rounds(2));
  }
  check_unharmed(daemon, victim);
}

// Row 1 of every list of shared-memory attacks: time of check to time of use.
TEST_CASE("fields flipped at full speed under valid traffic harm only their own session") {
  const char* seconds_text = std::getenv("SIMM_SIEGE_SECONDS");
  const int seconds = seconds_text != nullptr ? std::atoi(seconds_text) : 6;
  const char* seed_text = std::getenv("SIMM_SEED");
  const auto seed =
      seed_text != nullptr ? std::strtoull(seed_text, nullptr, 10) : std::random_device{}();
  MESSAGE("SIMM_SEED=" << seed << " SIMM_SIEGE_SECONDS=" << seconds << " siege -tc='fields flip*'");
  TwoTenantDaemon daemon;
  Victim victim(daemon.blue_socket());
  std::mt19937_64 random(seed);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  int sessions = 0;
  while (std::chrono::steady_clock::now() < end) {
    RawClient client = RawClient::attached(daemon.red_socket());
    ++sessions;
    const auto memory = client.lane_memory(0);
    ipc::ClientLane lane(memory);
    ipc::ClientSessionWords words(client.header());
    std::atomic<bool> over{false};
    std::thread flipper([&, flips = std::mt19937_64(random())]() mutable {
      // Entries, descriptors, keys and results; now and then the cursors themselves.
      const std::size_t first = ipc::kLaneSubmissionsOffset;
      auto* base = reinterpret_cast<std::uint8_t*>(memory.control());
      while (!over) {
        const std::size_t span = ipc::kLanePagesOffset + 64 * 16 - first;
        __atomic_fetch_xor(base + first + flips() % span,
                           static_cast<std::uint8_t>(1u << (flips() % 8)), __ATOMIC_RELAXED);
        if (flips() % 200'000 == 0) {
          __atomic_fetch_add(&memory.control()->submission_tail.word, flips() % 100,
                             __ATOMIC_RELAXED);
        }
      }
    });
    for (int shots = 0; shots < 2000 && words.state() == ipc::SessionState::open; ++shots) {
      Shot shot = valid_shot();
      if (lane.write_page(0, shot.page) != Status::ok) break;
      if (lane.push(shot.submission) == Status::ok) client.ring();
      ipc::Completion completion{};
      while (lane.poll_completion(completion) == ipc::Poll::taken) {
      }
    }
    over = true;
    flipper.join();
  }
  MESSAGE(sessions << " sessions");
  CHECK(sessions > 1);
  check_unharmed(daemon, victim);
}

}  // namespace ring_attacks
}  // namespace simm::siege
