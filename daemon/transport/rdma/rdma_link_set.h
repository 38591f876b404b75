// RdmaLinkSet: the links of one end of the RDMA transport, all of them made at the start: taking
// new ones from the control thread, handing them what their ports report, running those in use, and
// giving back those that are over. Link: RdmaRequesterLink or
// RdmaResponderLink.
// Owned by a RdmaRequester or RdmaResponder. Thread: the data agent; made on the control thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "daemon/base/agent.h"
#include "daemon/base/clock.h"
#include "daemon/transport/link_row.h"
#include "daemon/transport/rdma/device/rdma_port.h"
#include "daemon/transport/rdma/rdma_channel.h"
#include "daemon/transport/rdma/rdma_link.h"
#include "simm/check.h"

namespace simm::transport {

template <typename Link>
class RdmaLinkSet : public LinkRow<Link> {
  using LinkRow<Link>::links_, LinkRow<Link>::used_;

public:
  using LinkRow<Link>::used;

  // `ports` by rail; they and `shared`, which each link is made with, outlive the set.
  template <typename Shared>
  RdmaLinkSet(std::uint32_t links_max, Shared& shared, std::vector<RdmaPort*> ports,
              RdmaLinkMailbox& mailbox)
      : LinkRow<Link>(links_max),
        clock_(shared.clock),
        ports_(std::move(ports)),
        mailbox_(mailbox),
        ended_(links_max) {
    for (std::uint32_t i = 0; i < links_max; ++i) links_.push_back(std::make_unique<Link>(shared));
  }
  // Fences every link; nobody is told.
  ~RdmaLinkSet() {
    for (const auto& link : links_) {
      link->path().fail(LinkLoss::dropped);
      // All of them begin to end before the first is waited for.
      if (link->path().is_closing()) static_cast<void>(link->path().try_fence());
    }
    for (const auto& link : links_) {
      if (link->path().is_closing()) static_cast<void>(link->path().close());
    }
  }
  // Takes the link; without room it is given back (refused). Only when no other waits for that.
  void add(std::unique_ptr<RdmaLink> link) noexcept {
    for (std::size_t i = 0; i < links_.size(); ++i) {
      // A link whose predecessor was not given back yet has no place to be given back to.
      if (!links_[i]->path().is_free() || ended_[i] != nullptr) continue;
      if (!links_[i]->open(link, clock_.now_ns())) {
        ended_[i] = refused(std::move(link));
      }
      used_ = std::max(used_, i + 1);
      return;
    }
    // All places are taken: the control thread keeps to links_max, so this is a matter of turns.
    SIMM_CHECK(overflow_ == nullptr);
    overflow_ = refused(std::move(link));
  }
  // meet(link) is called for each new one, before a place is looked for.
  template <typename Meet>
  int take_mail(Meet&& meet) noexcept {
    int taken = 0;
    for (give_back(); overflow_ == nullptr && take_one(meet); give_back()) ++taken;
    return taken;
  }
  // Hands out what the ports report, and starts what can be started.
  int run(base::TimeNs now_ns) noexcept {
    int work = 0;
    for (RdmaPort* port : ports_) work += poll(*port, now_ns);
    for (const auto& link : used()) work += link->run();
    return work;
  }
  // Ends those that are closing and fenced. The others go on meanwhile.
  int finish_closing() noexcept {
    int work = 0;
    for (std::size_t i = 0; i < used_; ++i) {
      RdmaChannel& channel = links_[i]->path();
      if (!channel.is_closing() || !channel.try_fence()) continue;
      ended_[i] = links_[i]->finish_closing();
      ++work;
    }
    give_back();
    return work;
  }
  // Nobody wakes the agent when a link is fenced.
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept {
    const bool any_closing = std::any_of(
        used().begin(), used().end(), [](const auto& link) { return link->path().is_closing(); });
    const bool any_ended =
        std::any_of(ended_.begin(), ended_.end(), [](const auto& link) { return link != nullptr; });
    const bool any_left = any_closing || any_ended || overflow_ != nullptr;
    return any_left ? clock_.now_ns() + kFencePollNs : base::kNoDeadline;
  }
  [[nodiscard]] bool prepare_sleep() noexcept {
    bool may_sleep = true;
    for (RdmaPort* port : ports_) may_sleep &= port->prepare_sleep();
    return may_sleep;
  }

private:
  static constexpr std::size_t kCompletionsPerPoll = 32;
  static constexpr int kPollsPerTurn = 8;
  static constexpr base::TimeNs kFencePollNs = base::kNsPerMs;

  template <typename Meet>
  bool take_one(Meet&& meet) noexcept {
    const auto take = [this, &meet](std::unique_ptr<RdmaLink> link) {
      meet(*link);
      add(std::move(link));
    };
    return mailbox_.agent_take(
        take, [this](base::PeerId peer) { this->drop_peer(peer, LinkLoss::dropped); },
        [this](std::uint64_t link) { this->drop_link(link, LinkLoss::closed); });
  }
  int poll(RdmaPort& port, base::TimeNs now_ns) noexcept {
    std::array<Completion, kCompletionsPerPoll> completions;
    int work = 0;
    for (int i = 0; i < kPollsPerTurn; ++i) {
      const std::size_t count = port.poll(completions);
      for (const Completion& completion : std::span(completions).first(count)) {
        // SAFETY: open() set the owner; a queue pair that was destroyed reports nothing.
        static_cast<Link*>(completion.queue_pair->owner)->serve(completion, now_ns);
      }
      work += static_cast<int>(count);
      if (count < completions.size()) break;
    }
    return work;
  }
  // It is given back when it is fenced, as every other.
  static std::unique_ptr<RdmaLink> refused(std::unique_ptr<RdmaLink> link) noexcept {
    link->loss = LinkLoss::refused;
    link->queue_pair->fail();
    return link;
  }
  void give_back() noexcept {
    for (std::size_t i = 0; i < used_; ++i) give_back(ended_[i]);
    give_back(overflow_);
    while (used_ > 0 && links_[used_ - 1]->path().is_free() && ended_[used_ - 1] == nullptr) {
      --used_;
    }
  }

  void give_back(std::unique_ptr<RdmaLink>& link) noexcept {
    if (link == nullptr || !link->queue_pair->try_destroy()) return;
    // Full: in a later turn.
    static_cast<void>(mailbox_.agent_ended(link));
  }

  const base::Clock& clock_;
  const std::vector<RdmaPort*> ports_;
  RdmaLinkMailbox& mailbox_;
  std::vector<std::unique_ptr<RdmaLink>> ended_;  // of links_[i], until the mailbox takes it
  std::unique_ptr<RdmaLink> overflow_;
};

}  // namespace simm::transport
