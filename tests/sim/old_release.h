// What a control connection carries when its version is the one of the previous release: what later
// versions have added is not said, and not heard. Thread: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/cluster/cluster_codec.h"
#include "daemon/cluster/hello/hello.h"

namespace simm::sim {

inline cluster::SlotMapPtr without_life(const cluster::SlotMap& map) {
  return cluster::SlotMap::make(map.epoch(), map.members(), map.owners()).value();
}

inline std::uint64_t features_in(std::uint16_t version) {
  return version > cluster::kHelloVersionMin ? cluster::kFeatureMapDeltas : 0;
}

// From a member.
inline std::vector<std::byte> said_in(std::uint16_t version, std::span<const std::byte> message) {
  if (version > cluster::kHelloVersionMin) return {message.begin(), message.end()};
  cluster::MemberMessage said = cluster::decode_member_message(message).value();
  if (auto* const join = std::get_if<cluster::Join>(&said)) {
    join->lineage = {};
    join->map_digest = 0;
  } else if (auto* const heartbeat = std::get_if<cluster::Heartbeat>(&said)) {
    heartbeat->map_digest = 0;
  } else if (auto* const report = std::get_if<cluster::MapReport>(&said)) {
    report->map = without_life(*report->map);
  }
  return cluster::encode(said).value();
}

// From the manager.
inline std::vector<std::byte> heard_in(std::uint16_t version, std::span<const std::byte> message) {
  if (version > cluster::kHelloVersionMin) return {message.begin(), message.end()};
  cluster::ManagerMessage heard = cluster::decode_manager_message(message).value();
  if (auto* const joined = std::get_if<cluster::Joined>(&heard)) {
    joined->cluster_version = 0;
  } else if (auto* const ack = std::get_if<cluster::HeartbeatAck>(&heard)) {
    ack->cluster_version = 0;
  } else if (auto* const push = std::get_if<cluster::MapPush>(&heard)) {
    push->map = without_life(*push->map);
  }
  return cluster::encode(heard).value();
}

}  // namespace simm::sim
