// LostLinks: the losses of links that the control thread has not been told yet. Room for all that
// can be lost while its mailbox is full: then no further links are taken.
// Owned by a TcpRequester or TcpResponder. Thread: the data agent.
#pragma once

#include <cstddef>
#include <memory>

#include "daemon/transport/tcp/tcp_link.h"
#include "simm/check.h"

namespace simm::transport {

class LostLinks {
public:
  LostLinks(std::size_t links_max, const TcpLinkMailbox& mailbox)
      : capacity_(links_max + mailbox.capacity()),
        kept_(mailbox.capacity()),
        lost_(std::make_unique<LinkLost[]>(capacity_)) {}

  // False: take no more links until some of the old ones are reported.
  [[nodiscard]] bool has_room() const noexcept { return count_ + kept_ <= capacity_; }
  // The end of a link is put off while this is false.
  [[nodiscard]] bool can_add() const noexcept { return count_ < capacity_; }
  void add(const LinkLost& lost) noexcept {
    SIMM_CHECK(can_add());
    lost_[count_++] = lost;
  }
  // Tells as many as the mailbox takes.
  void report(TcpLinkMailbox& mailbox) noexcept {
    while (count_ > 0 && mailbox.agent_lost(lost_[count_ - 1])) --count_;
  }

private:
  const std::size_t capacity_;
  const std::size_t kept_;  // for refusals: a mailbox full of new links
  std::unique_ptr<LinkLost[]> lost_;
  std::size_t count_ = 0;
};

}  // namespace simm::transport
