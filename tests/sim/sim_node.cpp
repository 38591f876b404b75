#include "tests/sim/sim_node.h"

#include <cstring>
#include <deque>

#include "simm/check.h"
#include "tests/sim/sim_requester.h"
#include "tests/sim/tcp_node_end.h"

namespace simm::sim {
namespace {

// Newer than all before; nobody owns anything.
class NowherePlacement final : public engine::Placement {
public:
  explicit NowherePlacement(base::Epoch epoch) : epoch_(epoch) {}
  [[nodiscard]] base::Epoch epoch() const noexcept override { return epoch_; }
  [[nodiscard]] transport::Route route(base::Slot) const noexcept override {
    return {cluster::kNoPeer, 0};
  }

private:
  const base::Epoch epoch_;
};

template <typename T>
std::vector<T> vector_of_one(T only) {
  std::vector<T> made;
  made.push_back(std::move(only));
  return made;
}

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
          [this] {
            return std::min({engine_.next_deadline_ns(), sessions_.next_deadline_ns(),
                             requester_->next_deadline_ns()});
          }),
      member_(control, dice, maps, network.report(), config,
              {[this](const cluster::SlotMapPtr& map) { take_map(map); }, [] {},
               [this](const cluster::SlotMap& map) { return reached(map); }}) {
  requester_->connect(engine_, nullptr);
  requester_->wake = [this] { process_.wake(); };
  requester_->resolve = [this](base::PeerId peer) {
    const auto found = serials_.find(peer);
    return found == serials_.end() ? Serial{0} : found->second;
  };
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
  const cluster::PeerTable::Change change = peers_.use(*map);
  for (const base::PeerId peer : change.added) {
    const cluster::MapMember& member = *peers_.who(peer);
    serials_[peer] = static_cast<Serial>(member.identity.incarnation.low);
    requester_->add_peer(peer, member.shards);
  }
  for (const base::PeerId peer : change.removed) requester_->drop_peer(peer);
  removed_.insert(removed_.end(), change.removed.begin(), change.removed.end());
  newest_ = std::make_unique<cluster::MapPlacement>(*map, peers_);
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
  release_peers();
  process_.wake();
}

// The numbers of peers that are in no map any more, once nothing is under way to them.
void SimNode::release_peers() {
  std::vector<base::PeerId> busy;
  for (const base::PeerId peer : removed_) {
    if (!requester_->is_rid_of(peer)) {
      busy.push_back(peer);
      continue;
    }
    serials_.erase(peer);
    peers_.release(peer);
  }
  removed_ = std::move(busy);
}

SimNode::~SimNode() {
  requester_->crash();
  for (const auto& link : links_) {
    link->on_activity = [] {};
    session::SessionCommand leave;
    leave.kind = session::SessionCommand::Kind::drain;
    leave.session = link->session.get();
    SIMM_CHECK(commands_.try_push(leave));
  }
  // Its objects insist on being idle when they are destroyed: with everything fenced they soon are,
  // when what waits for a map gets one. Time stands still here.
  std::deque<NowherePlacement> nowhere;
  session::SessionEvent event;
  for (int turns = 0; sessions_.sessions() > 0 || engine_.in_flight() > 0; ++turns) {
    if (turns == 100'000) {
      network_.report().violation("live", "node %u: %u operations stay after all was fenced",
                                  number_, engine_.in_flight());
      return;
    }
    if (turns % 1'000 == 0) {
      engine_.use_placement(
          nowhere.emplace_back(~base::Epoch{0} - 100 + static_cast<base::Epoch>(turns / 1'000)));
    }
    turn();
    while (events_.try_pop(event)) take_back(event);
  }
}

void SimNode::take_back(const session::SessionEvent& event) {
  if (event.kind == session::SessionEvent::Kind::region_removed) delete event.region;
}

int SimNode::turn() {
  int work = 0;
  if (dice_.percent(50)) {
    work += sessions_.do_work();
    work += engine_.do_work();
  } else {
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

  session::SessionConfig config;
  config.id = links_.size();
  config.tenant = tenant;
  config.default_name_space = name_space_id(0);
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
  ask.name_space = name_space_id(1);
  link.other_name_space = static_cast<std::uint16_t>(command(ask).name_space_id);
  return link;
}

void SimNode::check_idle(Report& report) const {
  if (engine_.in_flight() > 0 || requester_->outstanding() > 0) {
    report.violation("live", "node %u: %u operations, %zu requests under way", number_,
                     engine_.in_flight(), requester_->outstanding());
  }
  for (const auto& link : links_) {
    if (link->session->phase() != session::Session::Phase::active) {
      report.violation("live", "node %u: a session is poisoned for reason %u", number_,
                       static_cast<unsigned>(link->session->poison_reason()));
    }
  }
}

}  // namespace simm::sim
