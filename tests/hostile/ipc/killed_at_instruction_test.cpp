// One end of a lane dies at every single instruction of push, pop and wake; the other one must go
// on: it sees an entry whole or not at all, keeps its counts, and learns of the death.
#include <doctest/doctest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ipc/bell_socket.h"
#include "ipc/client_lane.h"
#include "ipc/daemon_lane.h"
#include "ipc/session_words.h"
#include "ipc/wait_strategy.h"
#include "tests/hostile/ipc/stepped_child.h"

namespace killed_at_instruction {

using namespace simm::ipc;
using simm::Status;
using stepped_child::Run;

constexpr char kKey[] = "a key of twenty byte";

PageDescriptor page() {
  PageDescriptor p{};
  p.offset = 4711;
  p.key_bytes = sizeof kKey;
  return p;
}
Submission submission(std::uint64_t token) {
  Submission s{};
  s.token = token;
  s.timeout_ns = ~token;
  s.reserved[1] = token;
  return s;
}
bool is_whole(const Submission& s) {
  return s.timeout_ns == ~s.token && s.reserved[1] == s.token;
}
Completion completion(std::uint64_t token) {
  return {token, 0, 7, ~token, token};
}
bool is_whole(const Completion& c) {
  return c.pages_ok == 7 && c.bytes_moved == ~c.token && c.reserved == c.token;
}

// A fresh session of one lane, both ends of it, and the bell; shared with the child.
struct Rig {
  Rig() {
    void* const base = ::mmap(nullptr, session_bytes(1), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(base != MAP_FAILED);
    memory = static_cast<std::byte*>(base);
    auto pair = BellSocket::make_pair();
    REQUIRE(pair);
    daemon_bell.emplace(std::move(pair->first));
    client_bell.emplace(std::move(pair->second));
    const LaneMemory lane(lane_base(memory, 0));
    daemon.emplace(lane);
    client.emplace(lane);
    daemon_words.emplace(reinterpret_cast<SessionHeader*>(memory));
    client_words.emplace(reinterpret_cast<SessionHeader*>(memory));
    daemon_words->publish_state(SessionState::open);
  }
  ~Rig() { ::munmap(memory, session_bytes(1)); }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  LaneControl& control() { return *LaneMemory(lane_base(memory, 0)).control(); }
  static bool is_readable(const BellSocket& bell) {
    pollfd item{bell.fd(), POLLIN, 0};
    return ::poll(&item, 1, 0) == 1;
  }

  std::byte* memory = nullptr;
  std::optional<BellSocket> daemon_bell;
  std::optional<BellSocket> client_bell;
  std::optional<DaemonLane> daemon;
  std::optional<ClientLane> client;
  std::optional<DaemonSessionWords> daemon_words;
  std::optional<ClientSessionWords> client_words;
};

struct Scenario {
  const char* name;
  bool client_dies;  // else the daemon
  void (*prepare)(Rig&);
  void (*action)(Rig&);  // in the child
  // In the survivor, with its objects as they were at the fork. Returns whether the entry was seen.
  bool (*survive)(Rig&);
};

// An instrumented build executes mostly instructions of the sanitizer: it samples.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kPointsMax = 40;
#else
constexpr std::uint64_t kPointsMax = 5000;  // more than there are: every one
#endif

// Kills at every instruction, or at kPointsMax evenly spread ones. Both outcomes, seen and not
// seen, must have happened.
void run(const Scenario& scenario) {
  // The dynamic linker's first look-up of send() would be most of the instructions.
  REQUIRE(BellSocket::make_pair().value().first.ring());
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  std::uint64_t total = 0;
  std::uint64_t stride = 1;
  int seen = 0;
  int unseen = 0;
  std::uint64_t points = 0;
  for (std::uint64_t at = kAll;; at = at == kAll ? 0 : at + stride) {
    Rig rig;
    scenario.prepare(rig);
    const Run result = stepped_child::run_and_kill(
        [&] { scenario.action(rig); }, at,
        [&] { (scenario.client_dies ? rig.client_bell : rig.daemon_bell).reset(); });
    if (at == kAll) {
      REQUIRE(result.finished);
      total = result.steps;
      stride = (total + kPointsMax - 1) / kPointsMax;
    }
    INFO(std::string(scenario.name), " killed after ", result.steps, " of ", total,
         " instructions");
    ++(scenario.survive(rig) ? seen : unseen);
    ++points;
    // The survivor always learns of the death: the other end of the bell is closed.
    const BellSocket& bell = scenario.client_dies ? *rig.daemon_bell : *rig.client_bell;
    REQUIRE(Rig::is_readable(bell));
    bool open = true;
    for (int i = 0; i < 10 && open; ++i) open = bell.drain();
    REQUIRE_FALSE(open);
    if (at != kAll && result.finished) break;
  }
  std::printf("%s: %llu instructions, killed at %llu points, entry seen %d times\n", scenario.name,
              static_cast<unsigned long long>(total), static_cast<unsigned long long>(points),
              seen);
  CHECK(seen > 0);
  CHECK(unseen > 0);
}

TEST_CASE("a client that dies anywhere in push leaves a whole submission or none") {
  REQUIRE(stepped_child::can_step());
  run({"push", true, [](Rig& rig) { rig.daemon_words->announce_sleep(); },
       [](Rig& rig) {
         static_cast<void>(rig.client->write_page(0, page()));
         static_cast<void>(rig.client->write_key(0, kKey, sizeof kKey));
         static_cast<void>(rig.client->push(submission(1)));
         rig.client_words->ring_if_sleeping(*rig.client_bell);
       },
       [](Rig& rig) {
         Submission s{};
         const Poll poll = rig.daemon->poll_submission(s);
         REQUIRE(poll != Poll::broken);
         if (poll == Poll::empty) return false;
         REQUIRE(is_whole(s));
         PageDescriptor p{};
         char key[sizeof kKey] = {};
         REQUIRE(rig.daemon->copy_pages(0, 1, &p) == Status::ok);
         REQUIRE(p.offset == 4711);
         REQUIRE(rig.daemon->copy_keys(0, sizeof kKey, reinterpret_cast<std::byte*>(key)) ==
                 Status::ok);
         REQUIRE(std::equal(std::begin(key), std::end(key), kKey));
         REQUIRE(rig.daemon->poll_submission(s) == Poll::empty);
         REQUIRE(rig.daemon->publish_completion(completion(1)) == Wake::none);
         return true;
       }});
}

TEST_CASE("a client that dies anywhere in pop or going to sleep does not disturb the daemon") {
  REQUIRE(stepped_child::can_step());
  run({"pop", true,
       [](Rig& rig) {
         Submission s{};
         for (std::uint64_t token = 0; token < 3; ++token) {
           REQUIRE(rig.client->push(submission(token)) == Status::ok);
           REQUIRE(rig.daemon->poll_submission(s) == Poll::taken);
         }
         REQUIRE(rig.daemon->publish_completion(completion(0)) == Wake::none);
       },
       [](Rig& rig) {
         Completion c{};
         static_cast<void>(rig.client->poll_completion(c));
         static_cast<void>(rig.client->announce_sleep(ClientWait::futex));
       },
       [](Rig& rig) {
         const bool announced = rig.control().client_waiting.word != 0;
         REQUIRE(rig.control().completion_head.word <= 1);
         REQUIRE((rig.daemon->publish_completion(completion(1)) == Wake::done) == announced);
         REQUIRE(rig.daemon->publish_completion(completion(2)) == Wake::none);
         REQUIRE(rig.daemon->outstanding() == 0);
         Submission s{};
         REQUIRE(rig.daemon->poll_submission(s) == Poll::empty);
         return announced;
       }});
}

// The client's end of a dead daemon: it reads what is whole, then it is told, in bounded time.
bool client_survives(Rig& rig) {
  const std::uint64_t soon_ns = monotonic_now_ns() + 1'000'000;
  WaitStrategy wait(WaitMode::event);
  const Status waited = wait.wait(*rig.client, *rig.client_words, soon_ns);
  Completion c{};
  const Poll poll = rig.client->poll_completion(c);
  REQUIRE(poll != Poll::broken);
  REQUIRE((poll == Poll::taken) == (waited == Status::ok));
  if (poll == Poll::taken) {
    REQUIRE(is_whole(c));
    PageResult result{};
    REQUIRE(rig.client->read_result(3, result) == Status::ok);
    REQUIRE(result.bytes == 99);
  }
  rig.client_words->mark_lost();
  REQUIRE(wait.wait(*rig.client, *rig.client_words, kNoDeadlineNs) == Status::unreachable);
  return poll == Poll::taken;
}

TEST_CASE("a daemon that dies anywhere in pop leaves a client that is not stuck") {
  REQUIRE(stepped_child::can_step());
  run({"daemon pop", false,
       [](Rig& rig) { REQUIRE(rig.client->push(submission(1)) == Status::ok); },
       [](Rig& rig) {
         Submission s{};
         static_cast<void>(rig.daemon->poll_submission(s));
       },
       [](Rig& rig) {
         const bool taken = rig.control().submission_head.word == 1;
         REQUIRE_FALSE(client_survives(rig));
         return taken;
       }});
}

TEST_CASE("a daemon that dies anywhere in publish and wake leaves a whole completion or none") {
  REQUIRE(stepped_child::can_step());
  for (const ClientWait how : {ClientWait::futex, ClientWait::bell}) {
    run({how == ClientWait::futex ? "publish, futex" : "publish, bell", false,
         how == ClientWait::futex ? [](Rig& rig) {
           REQUIRE(rig.client->push(submission(1)) == Status::ok);
           Submission s{};
           REQUIRE(rig.daemon->poll_submission(s) == Poll::taken);
           REQUIRE(rig.client->announce_sleep(ClientWait::futex));
         } : [](Rig& rig) {
           REQUIRE(rig.client->push(submission(1)) == Status::ok);
           Submission s{};
           REQUIRE(rig.daemon->poll_submission(s) == Poll::taken);
           REQUIRE(rig.client->announce_sleep(ClientWait::bell));
         },
         [](Rig& rig) {
           rig.daemon->write_result(3, {0, 0, 99});
           if (rig.daemon->publish_completion(completion(1)) == Wake::bell) rig.daemon_bell->ring();
         },
         client_survives});
  }
}

}  // namespace killed_at_instruction
