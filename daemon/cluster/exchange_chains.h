// ExchangeChains: places slots for which no shard has room, by pushing others on. Such a slot takes
// the place of one that finds a place elsewhere, or pushes on another one itself. The shortest
// chains are found, breadth first over classes of slots: those of one class have the same shard at
// each member.
//
// Lives for one ShardLoads::exchange(). Thread: the builder's.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/cluster/shard_loads.h"

namespace simm::cluster {

class ExchangeChains {
public:
  explicit ExchangeChains(ShardLoads& loads);

  // The slot belongs to nobody. It stays so where no chain ends, or when the work for all chains of
  // a map is used up.
  void place(std::uint32_t slot);

private:
  struct Step {
    std::uint32_t slot = 0;  // of the class, which needs a place
    std::uint32_t from = 0;  // the class that takes this slot's place; itself: the first one
    bool is_reached = false;
  };

  void classify();
  void push_on(std::uint32_t from, std::uint32_t shard);
  void settle(std::uint32_t last, MemberIndex member);

  ShardLoads& loads_;
  std::vector<std::uint32_t> class_of_;  // by slot
  std::uint32_t class_count_ = 0;
  std::vector<std::vector<std::uint32_t>> slots_;  // of each shard
  std::uint64_t looks_left_;
  // Of the chain that is looked for.
  std::vector<Step> steps_;           // by class
  std::vector<std::uint32_t> queue_;  // classes, in the order in which they were reached
  std::vector<bool> is_shard_done_;
  std::vector<bool> is_member_done_;
};

}  // namespace simm::cluster
