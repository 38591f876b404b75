// What a session tells a receiver of traces of its operations, and what hostile clients get told.
#include <doctest/doctest.h>

#include "tests/unit/daemon/session/session_rig.h"

namespace traced_session_test {

using namespace session_rig;
using base::ExportedTrace;
using base::TraceExport;
using ipc::Opcode;

constexpr ipc::TraceContext kTrace = {0x0af7651916cd43dd, 0x8448eb211c80319c, 0xb7ad6b7169203331,
                                      0};

// Exists of a page, in the trace.
void push_traced(Client& client, const ipc::TraceContext& trace, std::uint64_t token = 1) {
  ipc::PageDescriptor p = page(client, 0, 8);
  p.region = 0;
  REQUIRE(client.lanes[0].write_page(0, p) == Status::ok);
  REQUIRE(client.lanes[0].write_key(0, "somewhat", 8) == Status::ok);
  ipc::Submission s = submission(Opcode::exists, 1, token);
  s.flags = ipc::kFlagTraced;
  client.lanes[0].write_trace(trace);
  REQUIRE(client.lanes[0].push(s) == Status::ok);
}

TEST_CASE("an operation of a client's trace is told with its trace, stages and result") {
  Rig rig;
  TraceExport exported({0, 10, 1});
  rig.set->tracer().export_to(exported);
  Client& client = rig.attach(Rig::config(1, 3));
  CHECK(client.words->takes_traces());
  push(client, Opcode::exists, 1, 8, 7);
  rig.set->do_work();
  rig.engine.complete_all();
  (void)take(client);
  push_traced(client, kTrace);
  rig.set->do_work();
  rig.clock.advance_ns(1000);
  rig.engine.complete_all(Status::not_found);
  (void)take(client);
  ExportedTrace told;
  REQUIRE(exported.records.try_pop(told));
  CHECK(told.parent.trace_high == kTrace.trace_high);
  CHECK(told.parent.trace_low == kTrace.trace_low);
  CHECK(told.parent.span == kTrace.parent);
  CHECK(told.record.id != 0);
  CHECK(told.record.tenant == 3);
  CHECK(told.record.pages == 1);
  CHECK(told.record.pages_ok == 0);
  CHECK(told.record.opcode == static_cast<std::uint8_t>(Opcode::exists));
  CHECK(told.record.stamps_ns.back() >= told.record.stamps_ns.front() + 1000);
  CHECK_FALSE(exported.records.try_pop(told));  // the one without a trace is not
}

TEST_CASE("a client that calls everything sampled gets its tenant's rate, and delays nobody") {
  Rig rig(64);
  TraceExport exported({0, 5, 1});
  rig.set->tracer().export_to(exported);
  Client& first = rig.attach(Rig::config(1, 3));
  Client& second = rig.attach(Rig::config(2, 3));  // of the same tenant
  Client& other = rig.attach(Rig::config(3, 4));
  for (int i = 0; i < 100; ++i) {
    push_traced(first, kTrace);
    push_traced(second, {1, 2, 3, ~0ull});
    rig.set->do_work();
    rig.engine.complete_all();
    (void)take(first);
    (void)take(second);
  }
  push_traced(other, kTrace);
  rig.set->do_work();
  rig.engine.complete_all();
  (void)take(other);
  ExportedTrace told;
  int of_flood = 0;
  int of_other = 0;
  while (exported.records.try_pop(told)) ++(told.record.tenant == 3 ? of_flood : of_other);
  CHECK(of_flood == 5);
  CHECK(of_other == 1);
  CHECK(exported.over_rate == 195);
}

TEST_CASE("a trace of zeros is none, and a daemon without a receiver takes the flag and no trace") {
  Rig rig;
  Client& client = rig.attach(Rig::config(1));
  CHECK_FALSE(client.words->takes_traces());
  push_traced(client, kTrace);
  rig.set->do_work();
  rig.engine.complete_all();
  CHECK(take(client).status == 0);
  CHECK(client.state() == ipc::SessionState::open);

  Rig told_rig;
  TraceExport exported({0, 10, 1});
  told_rig.set->tracer().export_to(exported);
  Client& honest = told_rig.attach(Rig::config(1));
  push_traced(honest, {0, 0, 5, 0});
  told_rig.set->do_work();
  told_rig.engine.complete_all();
  CHECK(take(honest).status == 0);
  CHECK(exported.records.empty());
}

TEST_CASE("an operation is recorded and exported, each as it was chosen") {
  Rig rig;
  TraceExport exported({0, 10, 1});
  rig.set->tracer().export_to(exported);
  Client& client = rig.attach(Rig::config(1));
  base::TraceRun run({1, 99, base::kNoDeadline, false});
  rig.set->tracer().order(&run);
  push_traced(client, kTrace);
  rig.set->do_work();
  rig.engine.complete_all();
  (void)take(client);
  rig.set->tracer().order(nullptr);
  push_traced(client, kTrace);
  rig.set->do_work();
  rig.engine.complete_all();
  (void)take(client);
  base::TraceRecord recorded;
  ExportedTrace told;
  REQUIRE(run.records.try_pop(recorded));
  CHECK_FALSE(run.records.try_pop(recorded));
  REQUIRE(exported.records.try_pop(told));
  CHECK(told.record.id == recorded.id);
  REQUIRE(exported.records.try_pop(told));
  CHECK(told.record.id != recorded.id);
}

}  // namespace traced_session_test
