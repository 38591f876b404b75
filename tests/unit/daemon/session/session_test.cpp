#include "daemon/session/session.h"

#include <sys/epoll.h>

#include <array>

#include "daemon/memory/copy_untrusted.h"
#include "ipc/fd_socket.h"
#include "tests/unit/daemon/memory/memory_fixture.h"
#include "tests/unit/daemon/session/session_rig.h"

namespace session_test {

using namespace session_rig;
using ipc::Opcode;
using ipc::PoisonReason;
using session::Session;

TEST_CASE("results, completion and counts come back for the submission they belong to") {
  Rig rig;
  Client& client = rig.attach(Rig::config(1, 1, 2));
  push(client, Opcode::put, 3, 100, 11, 0);
  push(client, Opcode::exists, 2, 100, 22, 1);
  rig.set->do_work();
  REQUIRE(rig.engine.submitted.size() == 2);
  std::swap(rig.engine.submitted[0], rig.engine.submitted[1]);  // completes out of order
  rig.engine.complete_one(Status::not_found);
  rig.engine.complete_one(Status::ok);
  const ipc::Completion exists = take(client, 1);
  CHECK(exists.token == 22);
  CHECK(exists.status == 0);
  CHECK(exists.pages_ok == 0);
  const ipc::Completion put = take(client, 0);
  CHECK(put.token == 11);
  CHECK(put.pages_ok == 3);
  CHECK(put.bytes_moved == 300);
  ipc::PageResult result{};
  REQUIRE(client.lanes[0].read_result(2, result) == Status::ok);
  CHECK(result.status == 0);
  CHECK(result.bytes == 100);
  REQUIRE(client.lanes[1].read_result(0, result) == Status::ok);
  CHECK(result.status == static_cast<std::int32_t>(Status::not_found));
  CHECK(client.session->in_flight() == 0);
}

TEST_CASE("pages that were answered in time are told beside those that were not") {
  Rig rig;
  Client& client = rig.attach(Rig::config(1));
  push(client, Opcode::get, 3, 100, 11);
  rig.set->do_work();
  engine::Operation& operation = *rig.engine.submitted.front();
  rig.engine.submitted.clear();
  operation.replies[0] = {Status::ok, 100};
  operation.replies[1] = {Status::timeout, 0};
  operation.replies[2] = {Status::ok, 70};
  operation.status = Status::timeout;
  operation.bytes_moved = 170;
  operation.owner->on_complete(operation);
  rig.engine.release(operation);
  const ipc::Completion get = take(client);
  CHECK(get.token == 11);
  CHECK(get.status == 0);  // else no client may believe any of its page results
  CHECK(get.pages_ok == 2);
  CHECK(get.bytes_moved == 170);
  for (std::uint32_t i = 0; i < 3; ++i) {
    ipc::PageResult result{};
    REQUIRE(client.lanes[0].read_result(i, result) == Status::ok);
    const Status expected = i == 1 ? Status::timeout : Status::ok;
    CHECK(result.status == static_cast<std::int32_t>(expected));
  }
}

TEST_CASE("a page whose memory is absent says so, whatever else has no memory does not") {
  namespace fixtures = memory::testing;
  constexpr std::uint64_t kBytes = 16 * fixtures::kPage;
  Rig rig;
  Client& client = rig.attach(Rig::config(1, 1));
  fixtures::Fixture fixture(0);
  const auto file = fixtures::plain_memfd(kBytes);
  auto region = fixture.region(file.get(), kBytes);
  memory::RegionMemory* const sparse = region.release();
  rig.command(client.session.get(), Rig::Kind::add_region, sparse);
  rig.set->do_work();
  client.handle = rig.event(Rig::EventKind::region_added).handle;
  const auto detail_of_a_failed_put = [&] {
    push(client, Opcode::put, 2, fixtures::kPage);
    rig.set->do_work();
    rig.engine.complete_one(Status::out_of_memory);
    (void)take(client);
    ipc::PageResult result{};
    REQUIRE(client.lanes[0].read_result(1, result) == Status::ok);
    CHECK(result.status == static_cast<std::int32_t>(Status::out_of_memory));
    return result.detail;
  };
  CHECK(detail_of_a_failed_put() == 0);
  CHECK(rig.counters.value("session.absent_pages") == 0);
  std::byte own{};
  CHECK(memory::copy_untrusted(&own, fixtures::whole(*sparse), 0, 1) == Status::out_of_memory);
  CHECK(detail_of_a_failed_put() == ipc::kDetailAbsent);
  CHECK(rig.counters.value("session.absent_pages") == 2);
}

TEST_CASE("results follow the client's order although the engine sorts the pages") {
  Rig rig;
  Client& client = rig.attach(Rig::config(1));
  push(client, Opcode::get, 4, 100);
  rig.set->do_work();
  engine::Operation& operation = *rig.engine.submitted.at(0);
  std::swap(operation.pages[0], operation.pages[3]);
  operation.pages[0].slice.length = 33;  // index 3
  rig.engine.complete_one();
  ipc::PageResult result{};
  REQUIRE(client.lanes[0].read_result(3, result) == Status::ok);
  CHECK(result.bytes == 33);
}

TEST_CASE("a no-op completes in the same turn and needs nothing of the engine") {
  Rig rig(1);
  Client& client = rig.attach(Rig::config(1));
  push(client, Opcode::put, 1, 10);
  rig.set->do_work();
  REQUIRE(rig.engine.free_count() == 0);
  REQUIRE(client.lanes[0].push(submission(Opcode::noop, 0, 5)) == Status::ok);
  rig.set->do_work();
  CHECK(take(client).token == 5);
}

TEST_CASE("a tenant at its limit of operations waits in its rings and goes on later") {
  Rig rig(8);
  Client& client = rig.attach(Rig::config(1, 1, 8));
  for (std::uint32_t lane = 0; lane < 8; ++lane) push(client, Opcode::put, 1, 10, lane, lane);
  rig.set->do_work();
  CHECK(rig.engine.submitted.size() == 4);  // tenant_operations_max
  CHECK(rig.set->do_work() == 0);
  rig.clock.advance_ns(7);
  // Another tenant is not held up.
  Client& other = rig.attach(Rig::config(2, 2));
  push(other, Opcode::put, 1, 10);
  rig.set->do_work();
  CHECK(rig.engine.submitted.size() == 5);
  rig.engine.complete_all();
  rig.set->do_work();
  CHECK(rig.engine.submitted.size() == 4);
  rig.engine.complete_all();
  for (std::uint32_t lane = 0; lane < 8; ++lane) CHECK(take(client, lane).token == lane);
  CHECK(rig.counters.value("session.held_operations") == 4);
  CHECK(rig.counters.value("session.stage.queue_ns.sum") == 4 * 7);
}

TEST_CASE("how long the check of a submission takes is measured now and then") {
  Rig rig;
  Client& client = rig.attach(Rig::config(1, 1));
  for (std::uint32_t token = 0; token < 128; ++token) {
    push(client, Opcode::put, 1, 10, token);
    rig.set->do_work();
    rig.engine.complete_all();
    CHECK(take(client, 0).token == token);
  }
  CHECK(rig.counters.value("session.stage.validate_ns.log2_00") == 2);
}

TEST_CASE("a tenant's bytes under way are bounded, and a batch above the bound goes alone") {
  Rig rig;
  session::SessionConfig config = Rig::config(1, 1, 3);
  config.tenant_bytes_max = 1000;
  Client& client = rig.attach(config);
  push(client, Opcode::put, 1, 600, 0, 0);
  push(client, Opcode::put, 1, 500, 1, 1);
  push(client, Opcode::put, 1, 5000, 2, 2);
  rig.set->do_work();
  CHECK(rig.engine.submitted.size() == 1);
  rig.engine.complete_all();
  rig.set->do_work();
  REQUIRE(rig.engine.submitted.size() == 1);
  rig.engine.complete_all();
  rig.set->do_work();
  REQUIRE(rig.engine.submitted.size() == 1);
  rig.engine.complete_all();
  for (std::uint32_t lane = 0; lane < 3; ++lane) CHECK(take(client, lane).token == lane);
  CHECK(rig.counters.value("session.held_bytes") == 2);
}

TEST_CASE("what waits for a limit beyond its deadline is answered with timeout") {
  Rig rig(1);
  Client& client = rig.attach(Rig::config(1, 1, 2));
  push(client, Opcode::put, 1, 10, 1, 0);
  rig.set->do_work();
  push(client, Opcode::get, 2, 10, 2, 1);
  rig.set->do_work();
  const base::TimeNs deadline_ns = rig.clock.now_ns() + 10 * base::kNsPerSecond;
  CHECK(rig.set->next_deadline_ns() == deadline_ns);
  rig.clock.set_ns(deadline_ns - 1);
  CHECK(rig.set->do_work() == 0);
  rig.clock.set_ns(deadline_ns);
  CHECK(rig.set->do_work() == 1);
  const ipc::Completion late = take(client, 1);
  CHECK(late.token == 2);
  CHECK(late.status == static_cast<std::int32_t>(Status::timeout));
  ipc::PageResult result{};
  REQUIRE(client.lanes[1].read_result(1, result) == Status::ok);
  CHECK(result.status == static_cast<std::int32_t>(Status::timeout));
  CHECK(rig.set->next_deadline_ns() == base::kNoDeadline);
}

TEST_CASE("what waits for a limit with patience is told of, and waits until its latest end") {
  Rig rig(1);
  Client& client = rig.attach(Rig::config(1, 1, 2));
  push(client, Opcode::put, 1, 10, 1, 0);
  rig.set->do_work();
  ipc::Submission patient = submission(Opcode::put, 1, 2);
  patient.timeout_ns = 10 * base::kNsPerSecond;
  patient.patience_ns = base::kNsPerSecond;
  REQUIRE(client.lanes[1].write_page(0, page(client, 0, 10)) == Status::ok);
  REQUIRE(client.lanes[1].write_key(0, "key10000", 8) == Status::ok);
  REQUIRE(client.lanes[1].push(patient) == Status::ok);
  rig.set->do_work();
  const base::TimeNs begun_ns = rig.clock.now_ns();
  std::uint32_t told = client.words->progress();
  for (int half_s = 1; half_s <= 8; ++half_s) {
    CAPTURE(half_s);
    rig.clock.set_ns(begun_ns + static_cast<base::TimeNs>(half_s) * base::kNsPerSecond / 2);
    CHECK(rig.set->next_deadline_ns() == rig.clock.now_ns());
    rig.set->do_work();
    CHECK(client.words->progress() != told);
    told = client.words->progress();
  }
  SUBCASE("it goes on: its patience begins, and its client hears of it") {
    rig.engine.complete_one();
    rig.set->do_work();
    REQUIRE(rig.engine.submitted.size() == 1);
    CHECK(rig.engine.submitted[0]->header.patience_ns == base::kNsPerSecond);
    CHECK(rig.engine.submitted[0]->header.deadline_ns == begun_ns + 10 * base::kNsPerSecond);
    CHECK(client.words->progress() != told);
    told = client.words->progress();
    rig.engine.submitted[0]->owner->on_progress(*rig.engine.submitted[0]);
    CHECK(client.words->progress() != told);
    // So it does of one whose time is over, and whose memory is not let go of.
    told = client.words->progress();
    rig.engine.submitted[0]->owner->on_overdue(*rig.engine.submitted[0]);
    CHECK(client.words->progress() != told);
  }
  SUBCASE("it ends") {
    rig.clock.set_ns(begun_ns + 10 * base::kNsPerSecond);
    CHECK(rig.set->do_work() == 1);
    CHECK(take(client, 1).status == static_cast<std::int32_t>(Status::timeout));
  }
}

TEST_CASE("deadlines: the default, the client's own, and the longest") {
  Rig rig;
  Client& client = rig.attach(Rig::config(1));
  const auto deadline_of = [&](std::uint64_t timeout_ns) {
    push(client, Opcode::put, 1, 10);
    ipc::Submission s = submission(Opcode::put, 1);
    s.timeout_ns = timeout_ns;
    REQUIRE(client.lanes[0].push(s) == Status::ok);
    rig.set->do_work();
    const base::TimeNs deadline_ns = rig.engine.submitted.back()->header.deadline_ns;
    rig.engine.complete_all();
    take(client);
    take(client);
    return deadline_ns - rig.clock.now_ns();
  };
  CHECK(deadline_of(0) == 10 * base::kNsPerSecond);
  CHECK(deadline_of(5) == 5);
  CHECK(deadline_of(~std::uint64_t{0}) == session::SessionLimits{}.timeout_max_ns);
}

TEST_CASE("a breach stops the ring at once, lets work under way complete, then says so once") {
  Rig rig;
  Client& client = rig.attach(Rig::config(1, 1, 2));
  Client& innocent = rig.attach(Rig::config(2, 1));
  push(client, Opcode::put, 2, 10, 1, 0);
  rig.set->do_work();
  ipc::Submission bad = submission(Opcode::put, 1);
  bad.opcode = 99;
  REQUIRE(client.lanes[1].push(bad) == Status::ok);
  push(client, Opcode::put, 1, 10, 3, 0);
  push(innocent, Opcode::put, 1, 10, 4);
  rig.set->do_work();
  rig.set->do_work();
  CHECK(client.session->phase() == Session::Phase::poisoned);
  CHECK(client.state() == ipc::SessionState::open);  // not before the last completion
  CHECK(rig.engine.submitted.size() <= 3);
  const std::size_t submitted = rig.engine.submitted.size();
  push(client, Opcode::put, 1, 10, 5, 0);
  rig.set->do_work();
  CHECK(rig.engine.submitted.size() == submitted);
  rig.engine.complete_all();
  CHECK(take(client).token == 1);
  CHECK(client.state() == ipc::SessionState::poisoned);
  CHECK(client.words->poison_reason() == PoisonReason::bad_submission);
  CHECK(take(innocent).token == 4);
  CHECK(innocent.state() == ipc::SessionState::open);
  rig.set->do_work();
  CHECK(rig.event(Rig::EventKind::poisoned).reason == PoisonReason::bad_submission);
  rig.set->do_work();
  session::SessionEvent none;
  CHECK_FALSE(rig.events.try_pop(none));
  CHECK(rig.counters.value("session.poisoned.bad_submission") == 1);
  rig.command(client.session.get(), Rig::Kind::drain);
  rig.set->do_work();
  CHECK(rig.event(Rig::EventKind::gone).session == client.session.get());
  CHECK(rig.set->sessions() == 1);
  rig.forget(client);
}

TEST_CASE("what a client has in flight has little time when it is gone or poisoned") {
  Rig rig;
  Client& client = rig.attach(Rig::config(1));
  push(client, Opcode::put, 1, 10);
  const base::TimeNs asked_ns = rig.clock.now_ns() + 10 * base::kNsPerSecond;
  rig.set->do_work();
  REQUIRE(rig.engine.submitted.size() == 1);
  const base::TimeNs soon_ns = rig.clock.now_ns() + session::kGoneClientNs;
  session::SessionCommand drain;
  drain.kind = Rig::Kind::drain;
  drain.session = client.session.get();
  SUBCASE("not while it waits") {
    drain.client_waits = true;
    REQUIRE(rig.commands.try_push(drain));
    rig.set->do_work();
    CHECK(rig.engine.submitted[0]->header.deadline_ns == asked_ns);
  }
  SUBCASE("it is gone") {
    REQUIRE(rig.commands.try_push(drain));
    rig.set->do_work();
    CHECK(rig.engine.submitted[0]->header.deadline_ns == soon_ns);
  }
  SUBCASE("it broke the protocol") {
    rig.command(client.session.get(), Rig::Kind::poison);
    rig.set->do_work();
    CHECK(rig.engine.submitted[0]->header.deadline_ns == soon_ns);
  }
}

TEST_CASE("draining completes what is under way, refuses the rest and ends closed") {
  Rig rig(1);
  Client& client = rig.attach(Rig::config(1, 1, 3));
  push(client, Opcode::put, 1, 10, 1, 0);
  rig.set->do_work();
  push(client, Opcode::put, 1, 10, 2, 1);
  rig.set->do_work();  // held: the engine has one operation only
  REQUIRE(client.lanes[2].announce_sleep(ipc::ClientWait::futex));
  rig.command(client.session.get(), Rig::Kind::drain);
  rig.set->do_work();
  CHECK(client.state() == ipc::SessionState::draining);
  const ipc::Completion refused = take(client, 1);
  CHECK(refused.token == 2);
  CHECK(refused.status == static_cast<std::int32_t>(Status::invalid_state));
  CHECK(rig.set->sessions() == 1);
  rig.engine.complete_all();
  CHECK(take(client, 0).status == 0);
  CHECK(client.state() == ipc::SessionState::closed);
  // The sleeper was woken: its announcement is gone.
  CHECK(client.lane_memory(2).control()->client_waiting.word == 0);
  rig.set->do_work();
  rig.event(Rig::EventKind::gone);
  CHECK(rig.set->sessions() == 0);
  rig.forget(client);
}

TEST_CASE("an operation on a region that is being deregistered fails without blame") {
  Rig rig;
  Client& client = rig.attach(Rig::config(1));
  push(client, Opcode::put, 1, 10, 1);
  rig.set->do_work();
  rig.command(client.session.get(), Rig::Kind::remove_region, nullptr, client.handle);
  push(client, Opcode::put, 2, 10, 2);
  rig.set->do_work();
  const ipc::Completion failed = take(client);
  CHECK(failed.token == 2);
  CHECK(failed.status == static_cast<std::int32_t>(Status::invalid_state));
  CHECK(client.session->phase() == Session::Phase::active);
  session::SessionEvent none;
  CHECK_FALSE(rig.events.try_pop(none));  // still in use by the first one
  rig.engine.complete_all();
  rig.set->do_work();
  const session::SessionEvent removed = rig.event(Rig::EventKind::region_removed);
  REQUIRE(removed.region != nullptr);
  CHECK(&removed.region->region() == client.region);
  delete removed.region;
  rig.command(client.session.get(), Rig::Kind::remove_region, nullptr, client.handle);
  rig.set->do_work();
  const session::SessionEvent again = rig.event(Rig::EventKind::region_removed);
  CHECK(again.region == nullptr);
  CHECK(again.cookie == 4711);
}

TEST_CASE("a namespace gets one id, and submissions may then name it") {
  Rig rig;
  Client& client = rig.attach(Rig::config(1));
  for (int i = 0; i < 2; ++i) {
    rig.command(client.session.get(), Rig::Kind::open_name_space);
    rig.set->do_work();
    CHECK(rig.event(Rig::EventKind::name_space_opened).name_space_id == 1);
  }
  push(client, Opcode::put, 1, 10);
  ipc::Submission s = submission(Opcode::put, 1);
  s.name_space = 1;
  REQUIRE(client.lanes[0].push(s) == Status::ok);
  rig.set->do_work();
  REQUIRE(rig.engine.submitted.size() == 2);
  CHECK(rig.engine.submitted[0]->header.name_space.value == 100);
  CHECK(rig.engine.submitted[1]->header.name_space.value == 77);
}

TEST_CASE("a put into an immutable namespace leaves what is there, whatever its mode says") {
  Rig rig;
  session::SessionConfig config = Rig::config(1);
  config.default_name_space.immutable = true;
  Client& client = rig.attach(config);
  rig.command(client.session.get(), Rig::Kind::open_name_space);  // a mutable one
  rig.set->do_work();
  (void)rig.event(Rig::EventKind::name_space_opened);
  push(client, Opcode::put, 1, 10);
  for (const std::uint16_t name_space : {std::uint16_t{0}, std::uint16_t{1}}) {
    ipc::Submission s = submission(Opcode::put, 1);
    s.name_space = name_space;
    s.put_mode = static_cast<std::uint8_t>(ipc::PutMode::replace);
    REQUIRE(client.lanes[0].push(s) == Status::ok);
  }
  rig.set->do_work();
  REQUIRE(rig.engine.submitted.size() == 3);
  CHECK(rig.engine.submitted[1]->header.immutable);
  CHECK(rig.engine.submitted[1]->header.put_mode == ipc::PutMode::if_absent);
  CHECK_FALSE(rig.engine.submitted[2]->header.immutable);
  CHECK(rig.engine.submitted[2]->header.put_mode == ipc::PutMode::replace);
}

TEST_CASE("a namespace that is opened as immutable and as mutable has two ids") {
  session::NameSpaceTable table(3, {{1}});
  CHECK(table.open({{7}, true}) == 1);
  CHECK(table.open({{7}, false}) == 2);
  CHECK(table.open({{7}, true}) == 1);
  CHECK(table.open({{1}, true}) == session::NameSpaceTable::kFull);
  CHECK(table.at(1).immutable);
  CHECK_FALSE(table.at(2).immutable);
}

TEST_CASE("a fault in a region poisons its session and no other") {
  Rig rig;
  Client& client = rig.attach(Rig::config(1));
  Client& other = rig.attach(Rig::config(2));
  push(client, Opcode::put, 1, 10);
  rig.set->do_work();
  rig.set->on_region_fault(*client.region);
  rig.set->on_region_fault(*client.region);
  rig.engine.complete_all(Status::transfer_failed);
  CHECK(client.words->poison_reason() == PoisonReason::region_fault);
  CHECK(rig.counters.value("session.poisoned.region_fault") == 1);
  CHECK(other.session->phase() == Session::Phase::active);
}

TEST_CASE("completions never read poison with completion_overflow; nothing is overwritten") {
  Rig rig;
  Client& client = rig.attach(Rig::config(1));
  ipc::LaneControl* const control = client.lane_memory(0).control();
  ipc::Submission noop = submission(Opcode::noop, 0);
  for (std::uint32_t i = 0; i < ipc::kSubmissionSlots; ++i) {
    noop.token = i;
    ipc::copy_out(client.lane_memory(0).submission(i), &noop, sizeof noop);
  }
  for (std::uint32_t i = 1; i <= ipc::kCompletionSlots + 1; ++i) {
    control->submission_tail.word = i;
    rig.set->do_work();
  }
  CHECK(client.session->poison_reason() == PoisonReason::completion_overflow);
  for (std::uint32_t i = 0; i < ipc::kCompletionSlots; ++i) {
    CHECK(ipc::copy_untrusted_struct(client.lane_memory(0).completion(i)).token == i);
  }
}

TEST_CASE("a bell wakes the client that asked for it, and a closed bell is watched no more") {
  Rig rig;
  auto bells = ipc::BellSocket::make_pair();
  REQUIRE(bells);
  Client& client = rig.attach(Rig::config(1), std::move(bells->first));
  REQUIRE(rig.waiter.watched.size() == 1);
  push(client, Opcode::put, 1, 10);
  rig.set->do_work();
  REQUIRE(client.lanes[0].announce_sleep(ipc::ClientWait::bell));
  rig.engine.complete_all();
  std::uint64_t message = 0;
  CHECK(::read(bells->second.fd(), &message, sizeof message) == 8);
  CHECK(message == 1);
  CHECK(rig.counters.value("session.wakes_bell") == 1);
  { const ipc::BellSocket gone = std::move(bells->second); }
  rig.waiter.watched[0].second->on_fd_ready(0);
  rig.set->do_work();
  CHECK(rig.waiter.watched.empty());
}

TEST_CASE("a bell with descriptors in it is watched no more, and comes back with them") {
  Rig rig;
  auto bells = ipc::BellSocket::make_pair(ipc::BellGuard::reader);
  REQUIRE(bells);
  Client& client = rig.attach(Rig::config(1), std::move(bells->first));
  ipc::FdSocket sender(ipc::UniqueFd(bells->second.release()));
  const std::array<int, 1> passed{0};
  const std::array<std::byte, 8> message{};
  REQUIRE(sender.try_send(message, passed) == ipc::SocketResult::done);
  REQUIRE(rig.waiter.watched.size() == 1);
  rig.waiter.watched[0].second->on_fd_ready(EPOLLIN);
  rig.set->do_work();
  CHECK(rig.waiter.watched.empty());
  CHECK(client.session->phase() == session::Session::Phase::active);
  CHECK_FALSE(client.session->take_bell().shut());
}

}  // namespace session_test
