#include "daemon/engine/public_status.h"

namespace simm::engine {

Status public_status(ipc::Opcode opcode, Status internal) noexcept {
  switch (internal) {
    case Status::exists:
      return Status::ok;
    case Status::size_mismatch:
    case Status::corrupt:
      return Status::not_found;
    case Status::cancelled:
      return Status::timeout;
    // A get needs no space: a shared-read shard declined it when there was no time left to ask the
    // owner.
    case Status::no_space:
      return opcode == ipc::Opcode::get ? Status::timeout : internal;
    case Status::wrong_epoch:
    case Status::unreachable: {
      const bool reads = opcode == ipc::Opcode::get || opcode == ipc::Opcode::exists;
      return reads ? Status::not_found : Status::unreachable;
    }
    default:
      return internal;
  }
}

}  // namespace simm::engine
