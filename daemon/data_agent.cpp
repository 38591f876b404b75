#include "daemon/data_agent.h"

#include <algorithm>
#include <string>
#include <utility>

#include "daemon/base/limits.h"
#include "daemon/local_placement.h"

namespace simm {
namespace {

engine::EngineConfig engine_config(const base::Config& config) {
  engine::EngineConfig result;
  result.operations = config.engine.operations_max;
  result.requests = config.engine.operations_max * 4;
  result.fence_budget_percent = config.engine.fence_budget_percent;
  result.fence_budget_min_ns = config.engine.fence_budget_min_ms * base::kNsPerMs;
  result.fence_budget_max_ns = config.engine.fence_budget_max_ms * base::kNsPerMs;
  result.fence_grace_ns = config.engine.fence_grace_ms * base::kNsPerMs;
  return result;
}

server::ServerConfig server_config(const base::Config& config) {
  server::ServerConfig result;
  // All credits of all engines of this process may meet at one shard.
  result.requests_max = transport::LocalMeshConfig{}.credits * config.threading.data_agents;
  switch (config.store.verify) {
    case base::VerifyMode::never:
      result.verify = server::VerifyPolicy::never;
      break;
    case base::VerifyMode::sampled:
      result.verify = server::VerifyPolicy::sampled;
      break;
    case base::VerifyMode::always:
      result.verify = server::VerifyPolicy::always;
      break;
  }
  return result;
}

session::SessionSetLimits session_limits(const base::Config& config) {
  session::SessionSetLimits limits;
  // Sessions go to the agent with the fewest, but those that leave do not choose where.
  limits.sessions_max =
      config.session.sessions_max * static_cast<std::uint32_t>(config.sockets.size());
  return limits;
}

std::string numbered(const char* name, std::uint32_t index) {
  return std::string(name) + "." + std::to_string(index);
}

// Gives the counters of this agent cache lines of their own.
base::CounterSet& own_lines(base::CounterSet& counters) {
  counters.begin_writer();
  return counters;
}

}  // namespace

DataAgent::DataAgent(const DataAgentShared& shared, std::uint32_t index,
                     std::unique_ptr<store::Store> store, transport::LocalMesh& mesh,
                     base::Waiter& waiter)
    : clock_(shared.clock),
      store_(std::move(store)),
      responder_(mesh.responder(index)),
      server_(server_config(shared.config), *store_, clock_,
              server::ServerCounters(own_lines(shared.counters), numbered("server", index)),
              server::StoreCounters(shared.counters, numbered("store", index))),
      requesters_(mesh.requester(index)),
      engine_(engine_config(shared.config), clock_, engine::PageHasher(shared.hash_seed),
              shared.placement, requesters_,
              engine::EngineCounters(shared.counters, numbered("engine", index))),
      commands_(base::kMailboxMessages),
      events_(base::kMailboxMessages),
      sessions_(session_limits(shared.config), engine_, clock_, waiter, commands_, events_,
                shared.control,
                session::SessionCounters(shared.counters, numbered("session", index))) {
  use_own_slots(shared.placement, static_cast<std::uint16_t>(index));
  responder_.connect(server_);
  mesh.requester(index).connect(engine_, &sessions_);
}

// What the placement gives to this shard of this daemon, from its first map on.
void DataAgent::use_own_slots(const engine::Placement& placement, std::uint16_t shard) noexcept {
  const auto map = std::make_unique<base::SlotOwnership>();
  map->epoch = placement.epoch();
  for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
    const transport::Route owner = placement.route(static_cast<base::Slot>(slot));
    if (owner == transport::Route{base::kSelf, shard}) map->since[slot] = map->epoch;
  }
  server_.use_map(*map);
}

int DataAgent::do_work() noexcept {
  clock_.refresh();
  int work = sessions_.do_work();
  work += responder_.do_work();
  work += server_.do_work();
  work += responder_.run_moves();  // what the server has just started
  work += engine_.do_work();
  return work;
}

base::TimeNs DataAgent::next_deadline_ns() const noexcept {
  // Nobody wakes this agent when a copy made elsewhere is done.
  constexpr base::TimeNs kCopyPollNs = 50'000;
  const base::TimeNs copies_ns =
      responder_.waits_for_copies() ? clock_.now_ns() + kCopyPollNs : base::kNoDeadline;
  return std::min({sessions_.next_deadline_ns(), server_.next_deadline_ns(),
                   engine_.next_deadline_ns(), copies_ns});
}

bool DataAgent::prepare_sleep() noexcept {
  const bool sessions_may = sessions_.prepare_sleep();
  const bool server_may = server_.prepare_sleep();
  return engine_.prepare_sleep() && sessions_may && server_may;
}

void DataAgent::cancel_sleep() noexcept {
  sessions_.cancel_sleep();
  server_.cancel_sleep();
  engine_.cancel_sleep();
}

}  // namespace simm
