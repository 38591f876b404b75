// Requests that another daemon calls part of a trace: who is told of them, and how many.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/daemon/server/scripted_responder.h"

namespace simm::server::testing {
namespace {

using base::ExportedTrace;
using base::RequestStamp;
using base::TraceExport;

constexpr base::TraceName kTrace{0x0af7651916cd43dd, 0x8448eb211c80319c};
constexpr std::uint64_t kOperation = 0xb7ad6b7169203331;

struct TracedServer : ServerFixture {
  explicit TracedServer(std::uint32_t per_second = 10'000) : exported({0, per_second, 7}) {
    tracer.export_to(exported);
    server->trace_with(tracer);
    put({"a", "b"}, {100, 4000}, 5);
  }
  std::unique_ptr<Exchange> traced(ipc::Opcode opcode, std::vector<std::string> keys,
                                   std::uint64_t tenant = 1) {
    auto asked = request(opcode, std::move(keys), {4000}, 0, tenant);
    asked->incoming.header.trace_id = kOperation;
    asked->incoming.header.trace = kTrace;
    return run(std::move(asked));
  }
  std::vector<ExportedTrace> told() {
    std::vector<ExportedTrace> all;
    ExportedTrace one;
    while (exported.records.try_pop(one)) all.push_back(one);
    return all;
  }

  TraceExport exported;
  base::Tracer tracer;
};

std::uint64_t at(const ExportedTrace& told, RequestStamp stamp) {
  return told.record.stamps_ns[static_cast<std::size_t>(stamp)];
}

}  // namespace

TEST_CASE("a request of a trace is told as a span inside its operation's") {
  TracedServer f;
  for (const ipc::Opcode opcode : {ipc::Opcode::get, ipc::Opcode::exists}) {
    CAPTURE(static_cast<int>(opcode));
    const auto asked = f.traced(opcode, {"a", "x", "b"});
    REQUIRE(asked->replied);
    const auto told = f.told();
    REQUIRE(told.size() == 1);
    CHECK(told[0].parent.trace_high == kTrace.high);
    CHECK(told[0].parent.trace_low == kTrace.low);
    CHECK(told[0].parent.span == kOperation);
    CHECK(told[0].record.id != kOperation);
    CHECK(told[0].record.id != 0);
    CHECK(told[0].record.is_request);
    CHECK(told[0].record.pages == 3);
    CHECK(told[0].record.pages_ok == 2);
    CHECK(told[0].record.bytes == 4100);
    CHECK(at(told[0], RequestStamp::arrived) != 0);
    for (int i = 1; i < 5; ++i) {
      CHECK(at(told[0], static_cast<RequestStamp>(i)) >=
            at(told[0], static_cast<RequestStamp>(i - 1)));
    }
  }
}

TEST_CASE("a request of no trace is told to nobody, and one without a receiver is served") {
  TracedServer f;
  CHECK(f.get({"a"}, {100})->replies[0].status == Status::ok);
  auto recorded = f.request(ipc::Opcode::get, {"a"}, {100});
  recorded->incoming.header.trace_id = kOperation;  // for simmctl trace alone
  CHECK(f.run(std::move(recorded))->replies[0].status == Status::ok);
  CHECK(f.told().empty());

  ServerFixture without;
  base::Tracer tracer;
  without.server->trace_with(tracer);
  without.put({"a"}, {100}, 5);
  auto asked = without.request(ipc::Opcode::get, {"a"}, {100});
  asked->incoming.header.trace_id = kOperation;
  asked->incoming.header.trace = kTrace;
  CHECK(without.run(std::move(asked))->replies[0].status == Status::ok);
}

TEST_CASE("requests of traces have their tenant's rate, whatever other daemons say") {
  TracedServer f(5);
  for (int i = 0; i < 100; ++i) f.traced(ipc::Opcode::exists, {"a"}, 1);
  CHECK(f.told().size() == 5);
  CHECK(f.exported.over_rate == 95);
  f.traced(ipc::Opcode::exists, {"a"}, 2);
  CHECK(f.told().size() == 1);
}

TEST_CASE("a request may be recorded and told, each as it was chosen") {
  TracedServer f(1);
  base::TraceRun run({1, 99, base::kNoDeadline, false});
  f.tracer.order(&run);
  f.tracer.take_orders(f.clock);
  f.traced(ipc::Opcode::get, {"a"});
  f.traced(ipc::Opcode::get, {"a"});  // above the rate, and recorded all the same
  CHECK(f.told().size() == 1);
  base::TraceRecord record;
  for (int i = 0; i < 2; ++i) {
    REQUIRE(run.records.try_pop(record));
    CHECK(record.id == kOperation);
  }
  CHECK_FALSE(run.records.try_pop(record));
  f.tracer.order(nullptr);
  f.tracer.take_orders(f.clock);
  f.clock.advance_ns(2 * base::kNsPerSecond);
  f.traced(ipc::Opcode::get, {"a"});  // told alone
  CHECK(f.told().size() == 1);
  CHECK_FALSE(run.records.try_pop(record));
}

}  // namespace simm::server::testing
