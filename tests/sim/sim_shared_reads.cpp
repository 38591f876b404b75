#include "tests/sim/sim_shared_reads.h"

#include <algorithm>

#include "simm/check.h"

namespace simm::sim {
namespace {

transport::LocalMeshConfig mesh_config(const Scenario& scenario) {
  transport::LocalMeshConfig config;
  config.credits = scenario.shared_reads.credits;
  config.peer = engine::kSharedReads;
  config.responder.bytes_per_request = scenario.shared_reads.bytes_per_request;
  return config;
}

}  // namespace

SimSharedReads::SimSharedReads(const Scenario& scenario, engine::Engine& engine,
                               const base::Clock& clock, NodeRequesters& requesters)
    : memory_(std::make_shared<std::vector<std::byte>>(scenario.shared_reads.memory_bytes)),
      // Few, so that keys share them.
      marks_(8),
      mesh_(mesh_config(scenario), clock, {{nullptr, &mover_}}) {
  auto made = shared_reads::SharedReadServer::create(
      scenario.shared_reads.config, {engine, clock, marks_, *memory_, nullptr, {}});
  SIMM_CHECK(made.has_value());
  server_ = std::move(*made);
  mesh_.responder(0).connect(*server_);
  mesh_.requester(0).connect(engine, nullptr);
  requesters.add_shared_reads(mesh_.requester(0));
  engine.use_shared_reads(1, marks_);
}

int SimSharedReads::do_work() noexcept {
  const int taken = mesh_.responder(0).do_work();
  const int served = server_->do_work();
  return taken + served + mesh_.responder(0).run_moves();
}

base::TimeNs SimSharedReads::next_deadline_ns() noexcept {
  return std::min(server_->next_deadline_ns(), mesh_.responder(0).next_deadline_ns());
}

void SimSharedReads::check_idle(Report& report, std::uint32_t node) const {
  if (server_->requests_under_way() > 0) {
    report.violation("live", "node %u: %u requests for shared reads stay", node,
                     server_->requests_under_way());
  }
  if (const char* const wrong = server_->audit(); wrong != nullptr) {
    report.violation("books", "node %u: its shared reads: %s", node, wrong);
  }
}

}  // namespace simm::sim
