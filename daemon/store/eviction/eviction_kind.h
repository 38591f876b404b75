// EvictionKind: the rules by which a store can choose what leaves. Thread: any; a plain value.
#pragma once

#include <cstdint>

namespace simm::store {

enum class EvictionKind : std::uint8_t {
  fifo,
  lru,
  reuse,  // what is least likely to be used again soon, learned from the traffic
};

}  // namespace simm::store
