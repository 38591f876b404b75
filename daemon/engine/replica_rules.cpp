#include "daemon/engine/replica_rules.h"

namespace simm::engine {
namespace {

// It was not done, and nothing of it was.
bool is_only_missing(Status status) noexcept {
  return status == Status::unreachable || status == Status::no_space ||
         status == Status::out_of_memory || status == Status::not_found;
}

}  // namespace

bool ReplicaRules::asks_other(Status status) noexcept {
  return status == Status::not_found || status == Status::unreachable ||
         status == Status::wrong_epoch || status == Status::corrupt;
}

transport::PageReply ReplicaRules::join(ipc::Opcode opcode, transport::PageReply object,
                                        transport::PageReply replica, bool is_of_one_map) noexcept {
  const bool takes_away = opcode == ipc::Opcode::remove || opcode == ipc::Opcode::unpin;
  if (takes_away) {
    const auto is_gone = [](Status status) {
      return status == Status::ok || status == Status::not_found;
    };
    if (!is_gone(object.status)) return object;
    if (!is_gone(replica.status)) return replica;
    if (opcode == ipc::Opcode::remove && !is_of_one_map) return {Status::unreachable, 0};
    return object.status == Status::ok ? object : replica;
  }
  if (object.status == Status::ok) {
    return is_only_missing(replica.status) || replica.status == Status::ok ? object : replica;
  }
  // Whoever hears that nothing was pinned does not unpin it.
  const bool may_stand_in = object.status == Status::unreachable ||
                            (opcode == ipc::Opcode::pin && is_only_missing(object.status));
  return may_stand_in && replica.status == Status::ok ? replica : object;
}

}  // namespace simm::engine
