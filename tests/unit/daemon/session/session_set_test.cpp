#include "daemon/session/session_set.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/unit/daemon/session/session_rig.h"

namespace session_set_test {

using namespace session_rig;
using ipc::Opcode;

TEST_CASE("a turn takes at most kEntriesPerTurn of a tenant, however much is there") {
  Rig rig(8);
  session::SessionConfig config = Rig::config(1, 1, 4);
  Client& client = rig.attach(config);
  for (std::uint32_t lane = 0; lane < 4; ++lane) {
    for (std::uint32_t i = 0; i < ipc::kSubmissionSlots; ++i) {
      REQUIRE(client.lanes[lane].push(submission(Opcode::noop, 0, i)) == Status::ok);
    }
  }
  int total = 0;
  while (const int work = rig.set->do_work()) {
    CHECK(work <= static_cast<int>(session::kEntriesPerTurn));
    total += work;
  }
  CHECK(total == 4 * ipc::kSubmissionSlots);
  CHECK(rig.counters.value("session.entries_max") == session::kEntriesPerTurn);
  CHECK(rig.counters.value("session.turn_entries_max") == session::kEntriesPerTurn);
}

TEST_CASE("tenants share by bytes: one with large pages gets no more than one with small ones") {
  Rig rig(64);
  session::SessionConfig large = Rig::config(1, 1, 8);
  session::SessionConfig small = Rig::config(2, 2, 8);
  large.tenant_bytes_max = small.tenant_bytes_max = std::uint64_t{1} << 40;
  large.tenant_operations_max = small.tenant_operations_max = 32;
  Client& a = rig.attach(large, no_bell(), nullptr, std::uint64_t{1} << 30);
  Client& b = rig.attach(small, no_bell(), nullptr, std::uint64_t{1} << 30);
  std::uint64_t bytes[3] = {};
  rig.engine.on_submit = [&](const engine::Operation& operation) {
    for (std::uint32_t i = 0; i < operation.page_count; ++i) {
      bytes[operation.header.tenant.value] += operation.pages[i].slice.length;
    }
  };
  ipc::Completion done{};
  for (int turn = 0; turn < 4000; ++turn) {
    for (std::uint32_t lane = 0; lane < 8; ++lane) {
      if (a.lanes[lane].unfinished() < 4) push(a, Opcode::put, 4, 16 << 20, 1, lane);
      while (b.lanes[lane].unfinished() < 40) push(b, Opcode::put, 1, 1 << 20, 1, lane);
    }
    rig.set->do_work();
    rig.engine.complete_all();
    for (std::uint32_t lane = 0; lane < 8; ++lane) {
      while (a.lanes[lane].poll_completion(done) == ipc::Poll::taken) {
      }
      while (b.lanes[lane].poll_completion(done) == ipc::Poll::taken) {
      }
    }
  }
  const double ratio = static_cast<double>(bytes[1]) / static_cast<double>(bytes[2]);
  CHECK(ratio > 0.9);
  CHECK(ratio < 1.1);
}

TEST_CASE("a tenant in debt is served at once when nobody else wants the turn") {
  Rig rig(8);
  session::SessionConfig config = Rig::config(1);
  config.tenant_bytes_max = std::uint64_t{1} << 40;
  Client& client = rig.attach(config, no_bell(), nullptr, std::uint64_t{1} << 30);
  for (int i = 0; i < 50; ++i) {
    push(client, Opcode::put, 1, std::uint64_t{1} << 30);
    CHECK(rig.set->do_work() == 1);
    rig.engine.complete_all();
    take(client);
  }
}

TEST_CASE("a tenant that wants all operations leaves some for those that come later") {
  session::SessionSetLimits limits;
  limits.operations_max = 20;
  Rig rig(20, limits);
  session::SessionConfig config = Rig::config(1, 1);
  config.tenant_operations_max = 20;
  Client& greedy = rig.attach(config);
  config.id = 2;
  config.tenant = {2};
  Client& late = rig.attach(config);
  for (int i = 0; i < 40; ++i) push(greedy, Opcode::exists, 1, 8);
  for (int turn = 0; turn < 5; ++turn) rig.set->do_work();
  CHECK(rig.engine.submitted.size() == 16);
  for (int i = 0; i < 3; ++i) push(late, Opcode::exists, 1, 8);
  rig.set->do_work();
  CHECK(rig.engine.submitted.size() == 19);
  // What comes back is used again.
  for (int turn = 0; turn < 20; ++turn) {
    rig.engine.complete_all();
    rig.set->do_work();
  }
  CHECK(rig.counters.value("session.completions") == 43);
}

TEST_CASE("a batch pays for the key of each page, and a tenant waits for one such batch") {
  Rig rig(32);
  session::SessionConfig config = Rig::config(1);
  config.tenant_operations_max = 32;
  Client& client = rig.attach(config);
  config.id = 2;
  config.tenant = {2};
  Client& other = rig.attach(config);
  for (std::uint32_t i = 0; i < ipc::kPagesPerSubmissionMax; ++i) {
    ipc::PageDescriptor p = page(client, 0, 0);
    p.region = ipc::kNoRegion;
    p.key_bytes = ipc::kKeyBytesMax;
    REQUIRE(client.lanes[0].write_page(i, p) == Status::ok);
  }
  for (int i = 0; i < 20; ++i) {
    const auto batch = submission(Opcode::exists, ipc::kPagesPerSubmissionMax);
    REQUIRE(client.lanes[0].push(batch) == Status::ok);
  }
  push(other, Opcode::exists, 1, 8);
  // Each batch looks at 1 MiB of keys, as many bytes as a turn has credit for.
  rig.set->do_work();
  CHECK(rig.engine.submitted.size() == 2);
  CHECK(rig.counters.value("session.pages") == ipc::kPagesPerSubmissionMax + 1);
}

TEST_CASE("a full event mailbox delays events and loses none") {
  Rig rig(8, {}, 2);
  Client& client = rig.attach(Rig::config(1));
  for (int i = 0; i < 2; ++i) rig.command(client.session.get(), Rig::Kind::open_name_space);
  rig.set->do_work();
  for (int i = 0; i < 2; ++i) rig.command(client.session.get(), Rig::Kind::open_name_space);
  rig.set->do_work();
  CHECK(rig.set->next_deadline_ns() == rig.clock.now_ns() + base::kNsPerMs);
  int answers = 0;
  session::SessionEvent event;
  for (int turn = 0; turn < 8; ++turn) {
    while (rig.events.try_pop(event)) ++answers;
    rig.set->do_work();
  }
  CHECK(answers == 4);
}

TEST_CASE("no room for a session or a tenant is an answer") {
  session::SessionSetLimits limits;
  limits.sessions_max = 2;
  limits.tenants_max = 1;
  Rig rig(8, limits);
  rig.attach(Rig::config(1, 1));
  for (const std::uint64_t tenant : {2u, 1u, 1u}) {
    auto client = std::make_unique<Client>(Rig::config(3, tenant));
    rig.command(client->session.get(), Rig::Kind::attach);
    rig.set->do_work();
    session::SessionEvent event;
    REQUIRE(rig.events.try_pop(event));
    const bool fits = tenant == 1 && rig.clients.size() < 2;
    CHECK((event.kind == Rig::EventKind::attached) == fits);
    if (fits) rig.clients.push_back(std::move(client));
  }
  CHECK(rig.set->sessions() == 2);
}

TEST_CASE("a refused session whose client goes meanwhile is handed back, and nothing ends") {
  session::SessionSetLimits limits;
  limits.tenants_max = 1;
  Rig rig(8, limits);
  rig.attach(Rig::config(1, 1));
  const Client refused(Rig::config(2, 2));
  // All of it is on its way before the agent looks.
  rig.command(refused.session.get(), Rig::Kind::attach);
  rig.command(refused.session.get(), Rig::Kind::poison);
  rig.command(refused.session.get(), Rig::Kind::drain);
  rig.set->do_work();
  for (const auto kind : {Rig::EventKind::refused, Rig::EventKind::gone}) {
    session::SessionEvent event;
    REQUIRE(rig.events.try_pop(event));
    CHECK(event.kind == kind);
    CHECK(event.session == refused.session.get());
  }
  CHECK(rig.set->sessions() == 1);
}

TEST_CASE("an announced sleep sees every lane, and is not disturbed by what only waits") {
  Rig rig(1);
  Client& client = rig.attach(Rig::config(1, 1, 3));
  CHECK(rig.set->prepare_sleep());
  CHECK(client.header()->daemon_sleeping.word == 1);
  rig.set->cancel_sleep();
  CHECK(client.header()->daemon_sleeping.word == 0);
  push(client, Opcode::put, 1, 10, 1, 2);
  CHECK_FALSE(rig.set->prepare_sleep());
  rig.set->cancel_sleep();
  rig.set->do_work();
  push(client, Opcode::put, 1, 10, 2, 0);
  rig.set->do_work();  // held: no operation is free
  CHECK(rig.set->prepare_sleep());
  rig.set->cancel_sleep();
  rig.engine.complete_all();
  CHECK(rig.set->do_work() == 1);
}

// A client whose second thread flips bytes of everything it shares while valid traffic of another
// client runs. SIMM_HOSTILE_SECONDS makes it longer.
TEST_CASE(
    "a hostile thread flips shared bytes at full speed; others are served and nothing escapes") {
  // All hostile sessions in a row use this memory, and the flipper never pauses. It outlives the
  // rig, whose end still publishes the state of open sessions.
  std::vector<Client::Page> shared(ipc::session_bytes(1) / sizeof(Client::Page));
  Rig rig(32);
  const char* const given = std::getenv("SIMM_HOSTILE_SECONDS");
  const auto duration = given != nullptr ? std::chrono::milliseconds(1000 * std::atoi(given))
                                         : std::chrono::milliseconds(1500);
  Client& honest = rig.attach(Rig::config(1, 1));
  Client* hostile = nullptr;
  std::byte* const lane = ipc::lane_base(shared[0].bytes, 0);
  std::atomic<bool> stop{false};
  rig.engine.on_submit = [&](const engine::Operation& operation) {
    for (std::uint32_t i = 0; i < operation.page_count; ++i) {
      const transport::PageRequest& p = operation.pages[i];
      REQUIRE(p.key >= operation.key_bytes.data());
      REQUIRE(p.key_bytes >= 1);
      REQUIRE(p.key + p.key_bytes <= operation.key_bytes.data() + ipc::kKeyArenaBytes);
      if (p.slice.region == nullptr) continue;
      REQUIRE(p.slice.length >= 1);
      REQUIRE(p.slice.length <= p.slice.region->length);
      REQUIRE(p.slice.offset <= p.slice.region->length - p.slice.length);
    }
  };
  std::thread flipper([&] {
    std::minstd_rand random(1);
    constexpr std::size_t kClientWords[] = {0, 384 / 8, 512 / 8};
    // Descriptors, submissions and now and then a word of the client's.
    for (std::uint32_t turn = 0; !stop.load(std::memory_order_relaxed); ++turn) {
      const std::size_t word = turn % 4096 == 0 ? kClientWords[random() % 3]
                                                : ipc::kLaneSubmissionsOffset / 8 + random() % 1200;
      // SAFETY: word < (kLanePagesOffset + a few pages) / 8, inside the lane.
      ipc::DirectAccess::store(reinterpret_cast<std::uint64_t*>(lane) + word,
                               std::uint64_t{random() % 4}, std::memory_order_relaxed);
    }
  });

  const auto end = std::chrono::steady_clock::now() + duration;
  std::uint64_t served = 0;
  std::uint64_t poisoned = 0;
  std::uint64_t id = 10;
  while (std::chrono::steady_clock::now() < end) {
    if (hostile == nullptr) {
      for (std::size_t word = 0; word < sizeof(ipc::LaneControl) / 8; ++word) {
        ipc::DirectAccess::store(reinterpret_cast<std::uint64_t*>(lane) + word, std::uint64_t{0},
                                 std::memory_order_relaxed);
      }
      hostile = &rig.attach(Rig::config(++id, 2), no_bell(), shared[0].bytes);
      for (std::uint32_t i = 0; i < 8; ++i) {
        const ipc::PageDescriptor p = page(*hostile, i * 64, 64, i * 8);
        REQUIRE(hostile->lanes[0].write_page(i, p) == Status::ok);
      }
    }
    static_cast<void>(hostile->lanes[0].push(submission(Opcode::get, 2)));
    push(honest, Opcode::put, 2, 100, served);
    for (int turn = 0; turn < 3; ++turn) {
      rig.set->do_work();
      rig.engine.complete_all();
    }
    REQUIRE(take(honest).token == served);
    ++served;
    ipc::Completion ignored{};
    while (hostile->lanes[0].poll_completion(ignored) == ipc::Poll::taken) {
    }
    if (hostile->session->phase() != session::Session::Phase::ended) continue;
    ++poisoned;
    rig.command(hostile->session.get(), Rig::Kind::drain);
    rig.set->do_work();
    rig.event(Rig::EventKind::poisoned);
    rig.event(Rig::EventKind::gone);
    rig.forget(*hostile);
    hostile = nullptr;
  }
  stop = true;
  flipper.join();
  CHECK(served > 100);
  CHECK(poisoned > 10);
  CHECK(rig.counters.value("session.entries_max") <= session::kEntriesPerTurn);
  CHECK(honest.session->phase() == session::Session::Phase::active);
}

}  // namespace session_set_test
