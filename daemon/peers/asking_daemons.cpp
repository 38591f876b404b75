#include "daemon/peers/asking_daemons.h"

#include <utility>

#include "daemon/cluster/slot_map.h"

namespace simm::control {

void AskingDaemons::forget_gone() {
  for (auto at = daemons_.begin(); at != daemons_.end();) {
    if (!at->second.daemon.expired()) {
      ++at;
      continue;
    }
    free_.push_back(at->second.number);
    at = daemons_.erase(at);
  }
}

void AskingDaemons::begin_life(const std::string& name, Daemon& daemon, const Process& process) {
  if (daemon.before == process && ++daemon.returns >= kReturnsOfTwo) {
    errors_.record("cluster.listen", Status::invalid_argument,
                   "two daemons are called " + name +
                       " and end each other's connections; the one that connected last works: "
                       "give each its own cluster.node_name");
  }
  daemon.before = std::exchange(daemon.process, process);
  daemon.life = ++last_life_;
}

std::optional<AskingDaemons::Link> AskingDaemons::greet(const cluster::HelloResult& hello) {
  const std::string name = cluster::full_name(hello.peer);
  auto found = daemons_.find(name);
  if (found == daemons_.end()) {
    if (free_.empty()) forget_gone();
    if (free_.empty() && numbers_ == transport::kAskingDaemonsMax) return std::nullopt;
    Entry entry;
    if (free_.empty()) {
      entry.number = numbers_++;
    } else {
      entry.number = free_.back();
      free_.pop_back();
    }
    found = daemons_.emplace(name, std::move(entry)).first;
  }
  std::shared_ptr<Daemon> daemon = found->second.daemon.lock();
  if (daemon == nullptr) {
    daemon = std::make_shared<Daemon>();
    found->second.daemon = daemon;
  }
  const Process process{hello.peer.incarnation, cluster::process_of(hello.request)};
  if (daemon->life == 0 || daemon->process != process) begin_life(name, *daemon, process);
  return Link{{found->second.number, daemon->life}, std::move(daemon)};
}

}  // namespace simm::control
