// Sessions without traffic: they leave the round, and no wake-up is lost.
#include <atomic>
#include <thread>

#include "daemon/base/agent_runner.h"
#include "daemon/base/real_clock.h"
#include "tests/unit/daemon/session/session_rig.h"

namespace session_rest_test {

using namespace session_rig;
using ipc::Opcode;

struct Bells {
  Bells() {
    auto pair = ipc::BellSocket::make_pair();
    REQUIRE(pair.has_value());
    daemon = std::move(pair->first);
    client = std::move(pair->second);
  }
  ipc::BellSocket daemon{-1};
  ipc::BellSocket client{-1};
};

void pass(Rig& rig, base::TimeNs by_ns, base::TimeNs step_ns = 10'000) {
  for (base::TimeNs passed = 0; passed < by_ns; passed += step_ns) {
    rig.clock.advance_ns(step_ns);
    rig.set->do_work();
  }
}
void push_noop(Client& client, std::uint32_t lane = 0) {
  REQUIRE(client.lanes[lane].push(submission(Opcode::noop, 0)) == Status::ok);
}
std::uint64_t resting(const Rig& rig) {
  return rig.counters.value("session.resting");
}

TEST_CASE("a session without traffic leaves the round, and its client brings it back") {
  Rig rig;
  Bells bells;
  Client& idle = rig.attach(Rig::config(1, 1, 2), std::move(bells.daemon));
  Client& busy = rig.attach(Rig::config(2, 2));
  for (int i = 0; i < 200; ++i) {
    push_noop(busy);
    pass(rig, 10'000);
    take(busy);
  }
  REQUIRE(resting(rig) == 1);
  CHECK(idle.header()->daemon_sleeping.word == 1);
  CHECK(busy.header()->daemon_sleeping.word == 0);  // without a bell it could not come back
  push_noop(idle, 1);
  SUBCASE("by the word, to an agent that is awake") {
    REQUIRE(idle.words->take_sleep());
    pass(rig, 20'000);
  }
  SUBCASE("by the bell, to one that slept") {
    rig.set->prepare_sleep();
    CHECK(idle.words->ring_if_sleeping(bells.client));
    rig.set->cancel_sleep();
    REQUIRE(rig.waiter.watched.size() == 1);
    rig.waiter.watched[0].second->on_fd_ready(EPOLLIN);
    rig.set->do_work();
  }
  SUBCASE("by the word, to one that is about to sleep") {
    REQUIRE(idle.words->take_sleep());
    CHECK_FALSE(rig.set->prepare_sleep());
    rig.set->do_work();
    rig.set->cancel_sleep();
  }
  take(idle, 1);
  CHECK(resting(rig) == 0);
  CHECK(idle.header()->daemon_sleeping.word == 0);
  pass(rig, 2 * base::kNsPerMs);
  CHECK(resting(rig) == 1);
}

TEST_CASE("a session with work under way, or with a little pause, stays in the round") {
  Rig rig;
  Bells bells;
  Client& client = rig.attach(Rig::config(1), std::move(bells.daemon));
  push(client, Opcode::put, 1, 10);
  pass(rig, 20 * base::kNsPerMs);
  CHECK(resting(rig) == 0);
  rig.engine.complete_all();
  take(client);
  for (int i = 0; i < 20; ++i) {
    pass(rig, 900'000);
    CHECK(resting(rig) == 0);
    push_noop(client);
    rig.set->do_work();
    take(client);
  }
}

TEST_CASE("a submission that comes just before the rest is announced keeps the session awake") {
  Rig rig;
  Bells bells;
  Client& client = rig.attach(Rig::config(1, 1, 2), std::move(bells.daemon));
  push_noop(client, 1);  // its client has seen no announcement, so it does not ring
  CHECK_FALSE(client.session->try_rest());
  CHECK(client.header()->daemon_sleeping.word == 0);
  rig.set->do_work();
  take(client, 1);
  CHECK(client.session->try_rest());
  client.session->end_rest();
}

TEST_CASE("what the control thread asks of a session at rest is done") {
  Rig rig;
  Bells bells;
  Client& client = rig.attach(Rig::config(1), std::move(bells.daemon));
  pass(rig, 3 * base::kNsPerMs);
  REQUIRE(resting(rig) == 1);
  SUBCASE("a region goes") {
    rig.command(client.session.get(), Rig::Kind::remove_region, nullptr, client.handle);
    rig.set->do_work();
    rig.set->do_work();
    const std::unique_ptr<memory::RegionMemory> region(
        rig.event(Rig::EventKind::region_removed).region);
    CHECK(region != nullptr);
  }
  SUBCASE("it is poisoned") {
    rig.command(client.session.get(), Rig::Kind::poison);
    rig.set->do_work();
    rig.event(Rig::EventKind::poisoned);
    CHECK(client.state() == ipc::SessionState::poisoned);
  }
  SUBCASE("it ends") {
    rig.command(client.session.get(), Rig::Kind::drain);
    rig.set->do_work();
    rig.event(Rig::EventKind::gone);
    CHECK(client.state() == ipc::SessionState::closed);
    CHECK(resting(rig) == 0);
  }
  SUBCASE("its client has closed the bell, which is watched no more") {
    bells.client = ipc::BellSocket(-1);
    REQUIRE(rig.waiter.watched.size() == 1);
    rig.waiter.watched[0].second->on_fd_ready(EPOLLIN | EPOLLHUP);
    rig.set->do_work();
    CHECK(rig.waiter.watched.empty());
    pass(rig, 3 * base::kNsPerMs);
    CHECK(resting(rig) == 0);
  }
}

TEST_CASE("a turn looks at few idle lanes of a tenant, and at all of them after a few turns") {
  Rig rig;
  constexpr std::uint32_t kSessions = 24;
  constexpr std::uint32_t kLanes = 8;
  std::vector<Client*> many;
  for (std::uint32_t i = 0; i < kSessions * 4; ++i) {
    many.push_back(&rig.attach(Rig::config(10 + i, 1, kLanes)));
  }
  const auto lanes = static_cast<std::uint32_t>(many.size()) * kLanes;
  std::minstd_rand random(static_cast<std::uint32_t>(seed("a turn looks at few idle lanes*")));
  std::uint32_t waited = 0;
  for (int i = 0; i < 100; ++i) {
    Client& client = *many[random() % many.size()];
    push_noop(client, static_cast<std::uint32_t>(random()) % kLanes);
    std::uint32_t turns = 0;
    while (rig.set->do_work() == 0) ++turns;
    CHECK(turns <= lanes / session::kIdleLanesPerTurn + 1);
    waited += turns;
  }
  CHECK(waited > 0);
}

// Sleeps without timers: a wake-up that was lost is not healed by a look around.
class PatientWaiter final : public base::Waiter {
public:
  explicit PatientWaiter(const base::Clock& clock) : inner_(clock) {}
  void announce() noexcept override { inner_.announce(); }
  void retract() noexcept override { inner_.retract(); }
  void wait_until(base::TimeNs) noexcept override { inner_.wait_until(base::kNoDeadline); }
  Outcome watch(int descriptor, base::FdWatch& handler) override {
    return inner_.watch(descriptor, handler);
  }
  void unwatch(int descriptor) noexcept override { inner_.unwatch(descriptor); }
  void wake() noexcept override { inner_.wake(); }

private:
  base::EpollWaiter inner_;
};

constexpr std::uint32_t kCrowd = 24;
constexpr std::uint32_t kThreads = 4;
constexpr base::TimeNs kLostNs = 60 * base::kNsPerSecond;

// Sessions on a real agent thread; two client threads share each session, with a lane each.
struct Crowd {
  Crowd() : commands(256), events(256), waiter(clock) {
    set = std::make_unique<session::SessionSet>(session::SessionSetLimits{}, engine, clock, waiter,
                                                commands, events, control,
                                                session::SessionCounters(counters, "session"));
    for (std::uint32_t i = 0; i < kCrowd; ++i) {
      clients.push_back(
          std::make_unique<Client>(Rig::config(i + 1, 1 + i % 3, 2), std::move(bells[i].daemon)));
      session::SessionCommand attach;
      attach.session = clients.back()->session.get();
      REQUIRE(commands.try_push(attach));
    }
    runner = std::make_unique<base::AgentRunner>(
        "crowd", clock, waiter, base::IdleOptions{base::WaitMode::adaptive, 20'000}, counters);
    runner->add(*set);
    thread = std::thread([this] { runner->run(); });
  }
  ~Crowd() {
    runner->request_stop();
    thread.join();
    for (const auto& client : clients) {
      session::SessionCommand drain;
      drain.kind = session::SessionCommand::Kind::drain;
      drain.session = client->session.get();
      REQUIRE(commands.try_push(drain));
      set->do_work();
    }
    session::SessionEvent ignored;
    while (set->sessions() != 0) {
      set->do_work();
      while (events.try_pop(ignored)) {
      }
    }
  }

  // False: nobody has answered for so long that the wake-up was lost.
  bool call(std::uint32_t session, std::uint32_t lane_index) {
    Client& client = *clients[session];
    ipc::ClientLane& lane = client.lanes[lane_index];
    if (lane.push(submission(Opcode::noop, 0)) != Status::ok) return false;
    (void)client.words->ring_if_sleeping(bells[session].client);
    const base::TimeNs lost_ns = clock.now_ns() + kLostNs;
    ipc::Completion done{};
    while (lane.poll_completion(done) != ipc::Poll::taken) {
      if (clock.now_ns() > lost_ns) return false;
      if (lane.announce_sleep(ipc::ClientWait::futex)) (void)lane.sleep_on_futex(lost_ns);
    }
    return true;
  }

  base::RealClock clock;
  base::CounterSet counters;
  FakeEngine engine;
  CountingControl control;
  session::SessionCommands commands;
  session::SessionEvents events;
  PatientWaiter waiter;
  std::vector<Bells> bells = std::vector<Bells>(kCrowd);
  std::vector<std::unique_ptr<Client>> clients;
  std::unique_ptr<session::SessionSet> set;
  std::unique_ptr<base::AgentRunner> runner;
  std::thread thread;
};

TEST_CASE("sessions rest and are called at random, and no wake-up is lost") {
  const std::uint64_t first =
      seed("sessions rest and are called at random, and no wake-up is lost");
  Crowd crowd;
  std::atomic<std::uint32_t> lost{0};
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&crowd, &lost, first, t] {
      std::mt19937_64 random(first + t);
      for (int i = 0; i < 400 && lost == 0; ++i) {
        // A few are called often, the others now and then; pauses lie around the time to rest.
        const auto session =
            static_cast<std::uint32_t>(random() % 2 == 0 ? random() % 2 : random() % kCrowd);
        const std::uint32_t own = session / 2 * 2 + t / 2 % 2;
        if (!crowd.call(own % kCrowd, t % 2)) ++lost;
        const base::TimeNs pause_ns = random() % 4 == 0 ? random() % (2 * session::kRestNs) : 0;
        const base::TimeNs until_ns = crowd.clock.now_ns() + pause_ns;
        while (crowd.clock.now_ns() < until_ns) std::this_thread::yield();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(lost == 0);
}

}  // namespace session_rest_test
