// What a client is told. Servers and transports speak the whole closed set of Status; some of it is
// internal and is translated here, in one place.
// Thread: any.
#pragma once

#include "ipc/layout.h"
#include "simm/status.h"

namespace simm::engine {

//   exists                  -> ok            an if_absent put met the object: it is there
//   size_mismatch, corrupt  -> not_found     nothing of it may be handed out
//   cancelled               -> timeout       only deadlines cancel
//   wrong_epoch             -> as unreachable: the owner is not known now
//   unreachable             -> not_found for get and exists (loss is a miss), else unreachable
// Everything else passes.
Status public_status(ipc::Opcode opcode, Status internal) noexcept;

}  // namespace simm::engine
