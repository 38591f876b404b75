// How places for queue pairs are shared when there are fewer than are wanted. A data agent has a
// fixed number of them for all shards and ports, and each needs memory that stays pinned. No
// daemon shall have none because others came first with one for each port.
// Pure functions. Thread: any.
#pragma once

#include <algorithm>
#include <cstddef>

namespace simm::control {

// Of an asking agent: how many shards get queue pairs, those that were reached first, and over how
// many ports each.
struct RailShare {
  std::size_t shards = 0;
  std::size_t rails = 0;
};

// `room` places, at least one, for `shards` shards over at most `rails` ports. When there is no
// room for all ports, a power of two of them: so queue pairs end seldom while a cluster grows.
[[nodiscard]] constexpr RailShare share_rails(std::size_t shards, std::size_t rails,
                                              std::size_t room) noexcept {
  if (shards * rails <= room) return {shards, rails};
  std::size_t each = 1;
  while (shards * each * 2 <= room && each * 2 <= rails) each *= 2;
  return {std::min(shards, room), each};
}

// Of a serving agent: its places as one more requester finds them.
struct Places {
  std::size_t room = 0;
  std::size_t taken = 0;
  std::size_t requesters = 0;  // daemons that have places, the new one included
  std::size_t own = 0;         // that it has
  std::size_t most = 0;        // that another one has
};

enum class Admission {
  take,
  refuse,
  make_room,  // refuse, and the one that has most loses a place: the next attempt finds it
};

// A daemon that has its part gets more only while a quarter of the places is free. That quarter is
// for daemons that have less.
[[nodiscard]] constexpr Admission admit(const Places& places) noexcept {
  const std::size_t part = std::max<std::size_t>(1, places.room / places.requesters);
  if (places.own < part && places.taken < places.room) return Admission::take;
  if (places.taken < places.room - places.room / 4) return Admission::take;
  const bool is_unjust = places.own < part && places.most > places.own + 1;
  return is_unjust ? Admission::make_room : Admission::refuse;
}

}  // namespace simm::control
