// LinkOwner: the daemon that has dialled a link, as its hello has proved: which one by its name,
// and which of its lives. A daemon that was killed and its successor have one number and two lives.
// The control thread counts them (AskingDaemons). A plain value. Thread: any.
#pragma once

#include <cstdint>

namespace simm::transport {

// Daemons with data connections to one server; others are hung up on. Each data agent keeps eight
// bytes for each of them.
inline constexpr std::uint32_t kAskingDaemonsMax = 4096;

struct LinkOwner {
  std::uint32_t daemon = 0;  // below kAskingDaemonsMax
  std::uint64_t life = 0;    // greater: later, over all daemons; 0: nobody was named
};

// The daemon behind a link, for Incoming::requester_id. Where no name was proved, what the link's
// rosters say.
[[nodiscard]] constexpr std::uint64_t requester_id_of(const LinkOwner& owner,
                                                      std::uint64_t roster_requester) noexcept {
  constexpr std::uint64_t kUnproved = std::uint64_t{1} << 63;
  return owner.life != 0 ? std::uint64_t{owner.daemon} + 1 : roster_requester | kUnproved;
}

}  // namespace simm::transport
