// SimRequester: a node's end of the simulated network. Also watches that its engine keeps the rules
// of transport.h.
// Thread: the one simulated thread; upcalls come from do_work() only.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <set>

#include "tests/sim/network.h"
#include "tests/sim/node_end.h"

namespace simm::sim {

class SimRequester final : public NodeEnd {
public:
  SimRequester(Network& network, std::uint32_t node, const base::Clock& clock);
  ~SimRequester() override;

  void connect(transport::RequesterEvents& events, transport::RegionFaults*) noexcept override {
    events_ = &events;
  }

  Status post(transport::Route route, transport::RequestToken token,
              const transport::Request& request) noexcept override;
  void cancel(transport::Route route, transport::RequestToken token) noexcept override;
  void reset(transport::Route route, transport::RequestToken culprit) noexcept override;
  int do_work() noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override { return inbox_.empty(); }

  // From the network.
  void on_answer(const PathPtr& path, std::uint64_t serial,
                 std::vector<transport::PageReply> pages);
  void on_path_end(const PathPtr& path);

  void crash() override;
  [[nodiscard]] bool is_rid_of(base::PeerId peer) const override;
  [[nodiscard]] std::size_t outstanding() const noexcept override { return open_.size(); }

private:
  struct Event {
    PathPtr path;
    std::shared_ptr<WireRequest> request;
    bool fenced = false;
    transport::FenceCause cause = transport::FenceCause::collateral;
    std::vector<transport::PageReply> pages;
  };

  [[nodiscard]] transport::Route resolved(transport::Route route) const {
    return {base::PeerId{resolve(route.peer)}, route.shard};
  }

  Network& network_;
  std::uint32_t node_;
  const base::Clock& clock_;
  transport::RequesterEvents* events_ = nullptr;
  std::deque<Event> inbox_;
  std::set<std::shared_ptr<WireRequest>> open_;  // posted, and the engine has not been told
  bool crashed_ = false;
};

}  // namespace simm::sim
