// OwnRoster: the links of one asking data agent over all its transports, and what it says of them
// to the servers (link_roster.h). Each link has a number from one row; when one has ended, and its
// requests were told of, every other link of its route owes the server a roster before its next
// request.
// Owned by the data agent, shared by its requesters. Thread: the data agent. No allocation after
// construction.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/transport/link_roster.h"
#include "daemon/transport/transport.h"

namespace simm::transport {

class OwnRoster {
public:
  // At most `links_max` are open at one time.
  explicit OwnRoster(std::uint32_t links_max);

  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  // A new link, which owes a roster. kNone: its route has wire::kRosterLinksMax, or there is no
  // room.
  [[nodiscard]] std::uint32_t open(Route route) noexcept;
  // It is over, and its requests have failed.
  void close(std::uint32_t link) noexcept;

  [[nodiscard]] bool owes(std::uint32_t link) const noexcept { return links_[link].owes; }
  // What there is to say over that link now; it owes nothing then.
  [[nodiscard]] LinkRoster say(std::uint32_t link) noexcept;

private:
  struct Link {
    std::uint64_t number = 0;  // 0: free
    Route route;
    bool owes = false;
  };
  [[nodiscard]] std::uint64_t requester_on(Route route) const noexcept;

  const std::uint64_t seed_;       // random: who this is among all that ask a server
  std::uint64_t last_number_ = 0;  // of links and of what was said of them
  std::vector<Link> links_;
};

}  // namespace simm::transport
