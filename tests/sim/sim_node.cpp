#include "tests/sim/sim_node.h"

#include <cstring>

#include "simm/check.h"
#include "tests/sim/nowhere.h"
#include "tests/sim/sim_requester.h"
#include "tests/sim/tcp_node_end.h"

namespace simm::sim {
namespace {

template <typename T>
std::vector<T> vector_of_one(T only) {
  std::vector<T> made;
  made.push_back(std::move(only));
  return made;
}

// More than the devices of a dead process go on.
constexpr base::TimeNs kDevicesGoneNs = 1 * kSecond;

}  // namespace

SimNode::SimNode(const Scenario& scenario, Network& network, ControlNetwork& control, Dice& dice,
                 MapBook& maps, std::uint32_t number, const cluster::MemberConfig& config)
    : scenario_(scenario),
      network_(network),
      dice_(dice),
      number_(number),
      clock_(network.loop(), dice.between(0, 500) * kSecond),
      peers_(config.identity.incarnation),
      placements_(vector_of_one(std::make_unique<cluster::MapPlacement>())),
      requester_(make_requester(scenario, network, number, config, clock_)),
      requesters_(*requester_),
      engine_(scenario.engine, clock_, engine::PageHasher(scenario.cluster_seed), *placements_[0],
              requesters_),
      commands_(16),
      events_(16),
      sessions_({16, 8}, engine_, clock_, waiter_, commands_, events_, control_),
      process_(
          network.loop(), dice, clock_, [this] { return turn(); },
          [this] { return next_deadline_ns(); }),
      member_(control, dice, maps, network.report(), config,
              {[this](const cluster::SlotMapPtr& map) { take_map(map); }, [] {},
               [this](const cluster::SlotMap& map) { return reached(map); }}) {
  engine_.use_replicas(scenario.replicated_names());
  requester_->connect(engine_, nullptr);
  requester_->wake = [this] { process_.wake(); };
  peers_.serve(*requester_);
  if (!scenario.shared_reads.is_used) return;
  shared_reads_ = std::make_unique<SimSharedReads>(scenario, engine_, clock_, requesters_);
  requester_->add_memory(*shared_reads_->memory());
}

std::unique_ptr<NodeEnd> SimNode::make_requester(const Scenario& scenario, Network& network,
                                                 std::uint32_t number,
                                                 const cluster::MemberConfig& config,
                                                 const ProcessClock& clock) {
  if (!scenario.tcp.is_used) return std::make_unique<SimRequester>(network, number, clock);
  return std::make_unique<TcpNodeEnd>(scenario, network, number, config.identity, clock);
}

// ---- maps ----

void SimNode::take_map(const cluster::SlotMapPtr& map) {
  peers_.use(*map);
  newest_ = std::make_unique<cluster::MapPlacement>(*map, peers_.table());
  use_newest_soon();
}

void SimNode::use_newest_soon() {
  network_.loop().after(dice_.skewed(1, 10 * kMs), [this, alive = std::weak_ptr<int>(alive_)] {
    if (alive.expired()) return;
    if (paused()) return use_newest_soon();
    use_newest();
  });
}

void SimNode::pause() {
  member_.pause();
  process_.pause();
}

void SimNode::resume() {
  process_.resume();
  member_.resume();
}

// Production has connections that stand, or not; here paths are made when they are needed.
cluster::MemberSet SimNode::reached(const cluster::SlotMap& map) const {
  cluster::MemberSet reached;
  for (std::size_t i = 0; i < map.members().size(); ++i) {
    const auto serial = static_cast<Serial>(map.members()[i].identity.incarnation.low);
    reached.set(i, network_.reaches(number_, serial));
  }
  return reached;
}

void SimNode::use_newest() {
  if (newest_ == nullptr) return;  // another event was faster
  placements_.push_back(std::move(newest_));
  engine_.use_placement(*placements_.back());
  peers_.release();
  process_.wake();
}

SimNode::~SimNode() {
  requester_->crash();
  if (shared_reads_ != nullptr) {
    shared_reads_->crash();
    network_.loop().after(kDevicesGoneNs, [memory = shared_reads_->memory()] {});
  }
  for (const auto& link : links_) {
    link->on_activity = [] {};
    session::SessionCommand leave;
    leave.kind = session::SessionCommand::Kind::drain;
    leave.session = link->session.get();
    SIMM_CHECK(commands_.try_push(leave));
  }
  // Its objects insist on being idle when they are destroyed: with everything fenced they soon are,
  // when what waits for a map gets one. Time stands still here.
  end_engine(
      engine_, network_.report(), number_,
      [this] { return sessions_.sessions() == 0 && engine_.in_flight() == 0; },
      [this] {
        turn();
        session::SessionEvent event;
        while (events_.try_pop(event)) take_back(event);
      });
}

void SimNode::take_back(const session::SessionEvent& event) {
  if (event.kind == session::SessionEvent::Kind::region_removed) delete event.region;
}

base::TimeNs SimNode::next_deadline_ns() {
  const base::TimeNs own_ns = std::min(
      {engine_.next_deadline_ns(), sessions_.next_deadline_ns(), requester_->next_deadline_ns()});
  return shared_reads_ == nullptr ? own_ns : std::min(own_ns, shared_reads_->next_deadline_ns());
}

int SimNode::turn() {
  const auto serve = [this] { return shared_reads_ == nullptr ? 0 : shared_reads_->do_work(); };
  int work = 0;
  if (dice_.percent(50)) {
    work += sessions_.do_work();
    work += serve();
    work += engine_.do_work();
  } else {
    work += serve();
    work += engine_.do_work();
    work += sessions_.do_work();
  }
  if (work > 0) {
    for (const auto& link : links_) link->on_activity();
  }
  return work;
}

session::SessionEvent SimNode::command(const session::SessionCommand& command) {
  SIMM_CHECK(commands_.try_push(command));
  session::SessionEvent answer;
  while (!events_.try_pop(answer)) sessions_.do_work();
  process_.wake();
  return answer;
}

std::unique_ptr<memory::RegionMemory> SimNode::make_region(std::span<std::byte> pages) const {
  memory::RegionMemory::Spec spec;
  spec.kind = memory::RegionKind::foreign;
  spec.length = pages.size();
  spec.id = spec.session_id = links_.size();
  std::unique_ptr<memory::RegionMemory> made = memory::RegionMemory::copied(spec, {}, nullptr);
  // Plain memory of this process: as if it had been mapped, and nobody can take it away.
  made->region().kind = memory::RegionKind::shared;
  made->region().base = pages.data();
  made->region().can_fault = false;
  return made;
}

ClientLink& SimNode::attach(base::TenantId tenant, std::span<std::byte> pages) {
  ClientLink& link = *links_.emplace_back(std::make_unique<ClientLink>());
  requester_->add_memory(pages);
  const std::size_t bytes = ipc::session_bytes(scenario_.lanes);
  link.memory.reset(
      static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)));
  std::memset(link.memory.get(), 0, bytes);
  link.on_activity = [] {};
  link.node = number_;
  if (shared_reads_ != nullptr) link.shared_reads = *shared_reads_->memory();

  session::SessionConfig config;
  config.id = links_.size();
  config.tenant = tenant;
  config.default_name_space = {name_space_id(0)};
  config.lane_count = scenario_.lanes;
  config.tenant_bytes_max = scenario_.tenant_bytes_max;
  config.tenant_operations_max = scenario_.tenant_operations_max;
  config.limits.regions_max = 4;
  link.session = std::make_unique<session::Session>(config, link.memory.get(), ipc::BellSocket(-1));
  for (std::uint32_t lane = 0; lane < scenario_.lanes; ++lane) {
    link.lanes.emplace_back(ipc::LaneMemory(ipc::lane_base(link.memory.get(), lane)));
  }

  session::SessionCommand ask;
  ask.session = link.session.get();
  ask.kind = session::SessionCommand::Kind::attach;
  SIMM_CHECK(command(ask).kind == session::SessionEvent::Kind::attached);
  ask.kind = session::SessionCommand::Kind::add_region;
  ask.region = make_region(pages).release();
  link.handle = command(ask).handle;
  ask.kind = session::SessionCommand::Kind::open_name_space;
  ask.name_space = {name_space_id(1), scenario_.replicated};
  link.other_name_space = static_cast<std::uint16_t>(command(ask).name_space_id);
  if (!scenario_.has_immutable()) return link;
  ask.name_space = {name_space_id(kImmutableNameSpace), true};
  link.immutable_name_space = static_cast<std::uint16_t>(command(ask).name_space_id);
  return link;
}

void SimNode::check_idle(Report& report) const {
  if (engine_.in_flight() > 0 || requester_->outstanding() > 0) {
    report.violation("live", "node %u: %u operations, %zu requests under way", number_,
                     engine_.in_flight(), requester_->outstanding());
  }
  if (shared_reads_ != nullptr) shared_reads_->check_idle(report, number_);
  for (const auto& link : links_) {
    if (link->session->phase() != session::Session::Phase::active) {
      report.violation("live", "node %u: a session is poisoned for reason %u", number_,
                       static_cast<unsigned>(link->session->poison_reason()));
    }
  }
}

}  // namespace simm::sim
