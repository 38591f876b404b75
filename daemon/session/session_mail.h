// What the control thread and a data agent tell each other about sessions. Plain values; the
// objects pointed at belong to the control thread except while a session is attached to a set.
#pragma once

#include <cstdint>

#include "daemon/base/ids.h"
#include "daemon/base/mailbox.h"
#include "daemon/memory/region_memory.h"
#include "daemon/session/session.h"
#include "ipc/layout.h"

namespace simm::session {

// Control thread -> data agent. `cookie` comes back in the event that answers.
struct SessionCommand {
  enum class Kind : std::uint8_t {
    attach,           // the session is the set's until `gone`
    add_region,       // hands `region` over -> region_added
    remove_region,    // -> region_removed, when nothing uses it any more
    open_name_space,  // -> name_space_opened
    poison,           // with `reason`, found on the control connection -> poisoned
    drain,            // the client left or has to leave, or was refused -> gone
  };
  Kind kind = Kind::attach;
  ipc::PoisonReason reason = ipc::PoisonReason::none;
  bool client_waits = false;  // drain: for what is in flight
  ipc::RegionHandle handle = ipc::kNoRegion;
  Session* session = nullptr;
  memory::RegionMemory* region = nullptr;
  OpenNameSpace name_space;
  std::uint64_t cookie = 0;
};

// Data agent -> control thread.
struct SessionEvent {
  enum class Kind : std::uint8_t {
    attached,
    refused,            // no room for another session or tenant: nothing of it is served; drain it
    region_added,       // `handle`; kNoRegion: the table is full, `region` is the caller's again
    region_removed,     // `region` is handed back, to be destroyed; null: the handle named none
    name_space_opened,  // `name_space_id`; NameSpaceTable::kFull: no room
    poisoned,           // once; its work is finished and the state word says so: drain it now
    gone,               // last event of a session, which is handed back with the regions it has
  };
  Kind kind = Kind::attached;
  ipc::PoisonReason reason = ipc::PoisonReason::none;
  ipc::RegionHandle handle = ipc::kNoRegion;
  std::uint32_t name_space_id = 0;
  Session* session = nullptr;
  memory::RegionMemory* region = nullptr;
  std::uint64_t cookie = 0;
};

using SessionCommands = base::SpscMailbox<SessionCommand>;
using SessionEvents = base::SpscMailbox<SessionEvent>;

// How a data agent tells the control thread that an event waits. Must not block.
class ControlWaker {
public:
  virtual ~ControlWaker() = default;
  virtual void wake_control() noexcept = 0;
};

}  // namespace simm::session
