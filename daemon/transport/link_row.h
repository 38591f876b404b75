// LinkRow: the links of one end of a transport between daemons, as far as all of them do the same:
// which places are in use, and which links are dropped. Link::path() is what is open and fails.
// Owned by a requester or responder, as the base of its set. Thread: the data agent; made on the
// control thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/base/ids.h"
#include "daemon/transport/link_loss.h"
#include "daemon/transport/roster_wait.h"

namespace simm::transport {

template <typename Of>
class LinkRow {
public:
  using Link = Of;

  LinkRow(const LinkRow&) = delete;
  LinkRow& operator=(const LinkRow&) = delete;

  // All that are in use, and some that may be free.
  [[nodiscard]] std::span<const std::unique_ptr<Link>> used() const noexcept {
    return {links_.data(), used_};
  }
  // True: of the places few are free.
  [[nodiscard]] bool is_short() const noexcept {
    const auto free = std::count_if(used().begin(), used().end(),
                                    [](const auto& link) { return link->path().is_free(); });
    return are_places_short(max_ - used_ + static_cast<std::size_t>(free), max_);
  }
  void drop_peer(base::PeerId peer, LinkLoss cause) noexcept {
    for (const auto& link : used()) {
      if (link->path().is_open() && link->path().link().peer == peer) link->path().fail(cause);
    }
  }
  void drop_all() noexcept {
    for (const auto& link : used()) link->path().fail(LinkLoss::dropped);
  }

protected:
  explicit LinkRow(std::uint32_t links_max) : max_(links_max) { links_.reserve(links_max); }
  ~LinkRow() = default;

  void drop_link(std::uint64_t number, LinkLoss cause) noexcept {
    for (const auto& link : used()) {
      if (link->path().is_open() && link->path().link().link == number) link->path().fail(cause);
    }
  }

  const std::size_t max_;
  std::vector<std::unique_ptr<Link>> links_;
  std::size_t used_ = 0;  // links_[0 .. used_) may be in use
};

}  // namespace simm::transport
