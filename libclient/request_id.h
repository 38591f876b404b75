// Requests and their replies on the attach socket know each other by an id of our choice.
// Thread: any, pure functions.
#pragma once

#include <cstdint>

#include "ipc/control_message.h"

namespace simm::detail {

// Messages that are no requests stay as they are.
inline void set_request_id(ipc::ClientMessage& message, std::uint64_t id) noexcept {
  if (auto* region = std::get_if<ipc::RegisterRegion>(&message)) region->request_id = id;
  if (auto* gone = std::get_if<ipc::DeregisterRegion>(&message)) gone->request_id = id;
  if (auto* name_space = std::get_if<ipc::OpenNamespace>(&message)) name_space->request_id = id;
  if (auto* lend = std::get_if<ipc::GpuLend>(&message)) lend->request_id = id;
  if (auto* reclaim = std::get_if<ipc::GpuReclaim>(&message)) reclaim->request_id = id;
  if (auto* follow = std::get_if<ipc::FollowKeys>(&message)) follow->request_id = id;
}

// 0 for a message that is no reply.
inline std::uint64_t request_id_of(const ipc::DaemonMessage& message) noexcept {
  if (const auto* region = std::get_if<ipc::RegionReply>(&message)) return region->request_id;
  if (const auto* gone = std::get_if<ipc::DeregisterReply>(&message)) return gone->request_id;
  if (const auto* reply = std::get_if<ipc::NamespaceReply>(&message)) return reply->request_id;
  if (const auto* lease = std::get_if<ipc::LeaseReply>(&message)) return lease->request_id;
  if (const auto* news = std::get_if<ipc::KeyEventsReply>(&message)) return news->request_id;
  return 0;
}

}  // namespace simm::detail
