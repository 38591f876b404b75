// Members and maps for the tests of this directory. Thread: the test's.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/cluster/slot_map.h"
#include "daemon/cluster/slot_map_builder.h"

namespace cluster_samples {

using namespace simm::cluster;
namespace base = simm::base;

inline constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

inline Incarnation incarnation(std::uint64_t number) {
  return {number, ~number};
}

inline MapMember member(const std::string& name, std::uint64_t number,
                        std::uint64_t weight_bytes = kGiB) {
  MapMember made;
  made.identity = {incarnation(number), ClusterRole::storage, name};
  made.address = "10.0.0.7";
  made.port = 30002;
  made.shards = 2;
  made.weight_bytes = weight_bytes;
  return made;
}

// "s0" .. with incarnations 1 ...
inline std::vector<MapMember> members(std::uint32_t count, std::uint64_t weight_bytes = kGiB) {
  std::vector<MapMember> made;
  for (std::uint32_t i = 0; i < count; ++i) {
    made.push_back(member("s" + std::to_string(i), i + 1, weight_bytes));
  }
  return made;
}

// `packet` with the bytes `was`, which are in it once, replaced by as many of `now`.
inline std::vector<std::byte> patched(std::vector<std::byte> packet, std::string_view was,
                                      std::string_view now) {
  const auto* const text = reinterpret_cast<const char*>(packet.data());
  const std::size_t at = std::string_view(text, packet.size()).find(was);
  if (was.size() != now.size() || at == std::string_view::npos) std::abort();
  std::memcpy(packet.data() + at, now.data(), now.size());
  return packet;
}
inline std::vector<std::byte> patched(std::vector<std::byte> packet, std::uint64_t was,
                                      std::uint64_t now) {
  return patched(std::move(packet), std::string_view(reinterpret_cast<const char*>(&was), 8),
                 std::string_view(reinterpret_cast<const char*>(&now), 8));
}

// A map that can be built.
inline SlotMapPtr slot_map_of(base::Epoch epoch, std::vector<MapMember> list,
                              const SlotMap* previous, const SlotMap* current) {
  return build_slot_map(epoch, std::move(list), previous, current).value();
}

inline std::uint64_t seed_of_run() {
  const char* const chosen = std::getenv("SIMM_SEED");
  return chosen ? std::strtoull(chosen, nullptr, 10) : std::random_device{}();
}

}  // namespace cluster_samples
