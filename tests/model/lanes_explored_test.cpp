// The production code of both ends of a lane under every interleaving of its accesses, with the
// store buffers of x86. Scenarios start near the end of the rings, so that slots are used again.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "ipc/client_lane.h"
#include "ipc/daemon_lane.h"
#include "ipc/session_words.h"
#include "tests/model/explorer.h"

namespace lanes_explored {

using namespace simm::ipc;
using explorer::ExploredAccess;
using explorer::Explorer;
using simm::Status;
using Client = BasicClientLane<ExploredAccess>;
using Daemon = BasicDaemonLane<ExploredAccess>;
using ClientWords = BasicClientSessionWords<ExploredAccess>;
using DaemonWords = BasicDaemonSessionWords<ExploredAccess>;

Submission submission(std::uint64_t token) {
  Submission s{};
  s.token = token;
  s.timeout_ns = token + 1;
  s.reserved[1] = ~token;
  return s;
}
bool is_whole(const Submission& s) {
  return s.timeout_ns == s.token + 1 && s.reserved[1] == ~s.token;
}
Completion completion(std::uint64_t token) {
  return {token, 0, 1, token * 3, ~token};
}
bool is_whole(const Completion& c) {
  return c.pages_ok == 1 && c.bytes_moved == c.token * 3 && c.reserved == ~c.token;
}

// One lane and both its ends. The objects are placed into storage of the rig and never on a fiber.
struct Rig {
  Rig() : memory(std::make_unique<Memory>()) {}

  // Rings that have carried `rounds` entries already; they are served and read.
  void reset(std::uint32_t rounds) {
    std::memset(static_cast<void*>(memory.get()), 0, sizeof *memory);
    const LaneMemory lane(memory->lane);
    client = std::make_unique<Client>(lane);
    daemon = std::make_unique<Daemon>(lane);
    client_words = std::make_unique<ClientWords>(&memory->header);
    daemon_words = std::make_unique<DaemonWords>(&memory->header);
    Submission s{};
    Completion c{};
    for (std::uint32_t i = 0; i < rounds; ++i) {
      CHECK(client->push(submission(1000 + i)) == Status::ok);
      CHECK(daemon->poll_submission(s) == Poll::taken);
      CHECK(daemon->publish_completion(completion(1000 + i)) == Wake::none);
      CHECK(client->poll_completion(c) == Poll::taken);
    }
    taken = finished = messages = 0;
  }

  // A polling daemon: serves `count` submissions, looking also when there is none.
  void serve(std::uint64_t count) {
    Submission s;
    while (taken < count) {
      const Poll poll = daemon->poll_submission(s);
      if (poll == Poll::broken) return Explorer::current()->fail("the daemon's end broke");
      if (poll == Poll::empty) {
        Explorer::current()->await(&control().submission_tail, [this] {
          return control().submission_tail.word != base + taken;
        });
        continue;
      }
      answer(s);
    }
  }
  void answer(const Submission& s) {
    if (!is_whole(s)) return Explorer::current()->fail("a torn submission");
    if (s.token != taken) return Explorer::current()->fail("a lost or doubled submission");
    ++taken;
    static_cast<void>(daemon->publish_completion(completion(s.token)));
  }

  // Reads one completion if there is one; false: there is none.
  bool read() {
    Completion c;
    const Poll poll = client->poll_completion(c);
    if (poll == Poll::broken) Explorer::current()->fail("the client's end broke");
    if (poll != Poll::taken) return false;
    if (!is_whole(c)) Explorer::current()->fail("a torn completion");
    if (c.token != finished) Explorer::current()->fail("a lost or doubled completion");
    ++finished;
    return true;
  }
  void push(std::uint64_t token) {
    if (client->push(submission(token)) != Status::ok) Explorer::current()->fail("no room to push");
  }
  LaneControl& control() { return *LaneMemory(memory->lane).control(); }

  struct Memory {
    alignas(4096) SessionHeader header;
    alignas(4096) std::byte lane[kLaneBytes];
  };
  std::unique_ptr<Memory> memory;
  std::unique_ptr<Client> client;
  std::unique_ptr<Daemon> daemon;
  std::unique_ptr<ClientWords> client_words;
  std::unique_ptr<DaemonWords> daemon_words;
  std::uint32_t base = 0;  // cursors at the start
  std::uint64_t taken = 0;
  std::uint64_t finished = 0;
  std::uint64_t messages = 0;  // waiting on the bell; one address for its accesses
};

void report(const char* what, const Explorer::Outcome& outcome) {
  std::printf("%s: %llu executions, %llu cut short as redundant\n", what,
              static_cast<unsigned long long>(outcome.executions),
              static_cast<unsigned long long>(outcome.redundant));
}

// The client sleeps on its futex for every completion; the daemon polls.
Explorer::Scenario sleeping_client(Rig& rig, std::uint64_t count, std::uint32_t rounds) {
  return {[&rig, rounds] {
            rig.reset(rounds);
            rig.base = rounds;
          },
          {[&rig, count] {
             for (std::uint64_t token = 0; token < count; ++token) {
               rig.push(token);
               while (!rig.read()) {
                 if (rig.client->announce_sleep(ClientWait::futex)) {
                   rig.client->sleep_on_futex(kNoDeadlineNs);
                 }
               }
             }
           },
           [&rig, count] { rig.serve(count); }},
          [&rig, count] { return rig.finished == count ? "" : "not all completions were read"; }};
}

// The daemon sleeps on the bell; the client polls.
Explorer::Scenario sleeping_daemon(Rig& rig, std::uint64_t count, std::uint32_t rounds) {
  const auto poll_one = [&rig] {
    while (!rig.read()) {
      Explorer::current()->await(&rig.control().completion_tail, [&rig] {
        return rig.control().completion_tail.word != rig.base + rig.finished;
      });
    }
  };
  return {[&rig, rounds] {
            rig.reset(rounds);
            rig.base = rounds;
          },
          {[&rig, count, poll_one] {
             for (std::uint64_t token = 0; token < count; ++token) {
               rig.push(token);
               if (rig.client_words->take_sleep()) {
                 Explorer::current()->exchange(&rig.messages, 1, sizeof rig.messages);
               }
               poll_one();
             }
           },
           [&rig, count] {
             Submission s;
             while (rig.taken < count) {
               if (rig.daemon->poll_submission(s) == Poll::taken) {
                 rig.answer(s);
                 continue;
               }
               rig.daemon_words->announce_sleep();
               if (!rig.daemon->has_submissions()) {
                 Explorer::current()->await(&rig.messages, [&rig] { return rig.messages != 0; });
               }
               rig.daemon_words->withdraw_sleep();
               Explorer::current()->exchange(&rig.messages, 0, sizeof rig.messages);
             }
           }},
          [&rig, count] { return rig.taken == count ? "" : "not all submissions were taken"; }};
}

TEST_CASE("explored: entries pass whole and in order, also across the end of the rings") {
  for (const std::uint32_t rounds : {0u, 63u}) {
    Rig rig;
    const Explorer::Scenario scenario{
        [&] {
          rig.reset(rounds);
          rig.base = rounds;
        },
        {[&rig] {
           rig.push(0);
           rig.push(1);
           rig.read();
           rig.push(2);
           rig.read();
         },
         [&rig] { rig.serve(3); }},
        [&rig] { return rig.taken == 3 ? "" : "not all submissions were taken"; }};
    Explorer explorer({});
    const Explorer::Outcome outcome = explorer.explore(scenario);
    report("pass", outcome);
    CHECK(outcome.failure == "");
    CHECK(outcome.executions > 10);
  }
}

TEST_CASE("explored: a full ring is refilled while it is emptied and nothing is overwritten") {
  Rig rig;
  const Explorer::Scenario scenario{
      [&rig] {
        rig.reset(0);
        rig.base = 0;
        for (std::uint64_t i = 0; i < kCompletionSlots; ++i) {
          CHECK(rig.client->push(submission(i)) == Status::ok);
        }
        Submission s{};
        for (std::uint64_t i = 0; i + 1 < kCompletionSlots; ++i) {
          CHECK(rig.daemon->poll_submission(s) == Poll::taken);
          CHECK(rig.daemon->publish_completion(completion(i)) == Wake::none);
          ++rig.taken;
        }
      },
      {[&rig] {
         for (std::uint64_t token = kCompletionSlots; token < kCompletionSlots + 2; ++token) {
           if (!rig.read()) Explorer::current()->fail("completions that were there are gone");
           rig.push(token);
         }
       },
       [&rig] { rig.serve(kCompletionSlots + 2); }},
      [&rig] { return rig.taken == kCompletionSlots + 2 ? "" : "not all submissions were taken"; }};
  Explorer explorer({});
  const Explorer::Outcome outcome = explorer.explore(scenario);
  report("refill", outcome);
  CHECK(outcome.failure == "");
}

TEST_CASE("explored: a client that sleeps for each completion is always woken") {
  Rig rig;
  Explorer explorer({});
  const Explorer::Outcome outcome = explorer.explore(sleeping_client(rig, 2, 63));
  report("sleeping client", outcome);
  CHECK(outcome.failure == "");
  CHECK(outcome.executions > 50);
}

TEST_CASE("explored: a daemon that sleeps whenever it can is always woken") {
  Rig rig;
  Explorer explorer({});
  const Explorer::Outcome outcome = explorer.explore(sleeping_daemon(rig, 2, 63));
  report("sleeping daemon", outcome);
  CHECK(outcome.failure == "");
  CHECK(outcome.executions > 50);
}

TEST_CASE("explored: weaker stores lose a wake-up, and the explorer finds it") {
  Explorer::Options weak;
  weak.weaken_seq_cst_stores = true;
  Rig rig;
  const Explorer::Outcome client = Explorer(weak).explore(sleeping_client(rig, 2, 0));
  CHECK(client.failure.find("sleeps for ever") != std::string::npos);
  const Explorer::Outcome daemon = Explorer(weak).explore(sleeping_daemon(rig, 2, 0));
  CHECK(daemon.failure.find("sleeps for ever") != std::string::npos);
}

}  // namespace lanes_explored
