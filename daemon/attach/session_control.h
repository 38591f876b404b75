// SessionControl: what the control thread asks of the data agents. Seam: the daemon's
// implementation sends commands to the agents' mailboxes, tests answer by hand. Requests never fail
// and never block; every one has exactly one answer through SessionControlEvents, in any order
// between sessions and in order for one session. Thread: control, for both interfaces.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "daemon/attach/session_memory.h"
#include "daemon/attach/tenant_rules.h"
#include "daemon/base/ids.h"
#include "daemon/memory/region_memory.h"
#include "daemon/session/name_space_table.h"
#include "ipc/bell_socket.h"
#include "ipc/layout.h"
#include "simm/status.h"

namespace simm::control {

class TenantAccount;

// A session that is ready to run. What it points to outlives it (until on_session_gone).
struct SessionStart {
  std::uint64_t session_id = 0;
  SessionMemory* memory = nullptr;
  const Tenant* tenant = nullptr;
  TenantAccount* account = nullptr;  // of the tenant
};

// What is left of a session: its regions, and behind them whatever knew them.
struct SessionRemains {
  std::vector<std::unique_ptr<memory::RegionMemory>> regions;
  std::shared_ptr<void> session;
};

class SessionControlEvents {
public:
  virtual ~SessionControlEvents() = default;
  // The rings are read from now on. Not ok: no memory, nothing of it is served, and it is to be
  // closed.
  virtual void on_session_opened(std::uint64_t session_id, Status status) = 0;
  virtual void on_name_space_opened(std::uint64_t session_id, Status status, std::uint16_t id) = 0;
  // kNoRegion: the table is full, and `refused` is handed back.
  virtual void on_region_added(std::uint64_t session_id, ipc::RegionHandle handle,
                               std::unique_ptr<memory::RegionMemory> refused) = 0;
  // No operation uses it any more, and it is handed back. Null: the handle named none.
  virtual void on_region_removed(std::uint64_t session_id,
                                 std::unique_ptr<memory::RegionMemory> region) = 0;
  // The client broke the protocol; unasked, at most once. on_session_gone() follows
  // close_session().
  virtual void on_session_poisoned(std::uint64_t session_id, ipc::PoisonReason reason) = 0;
  // Nothing of the session is used any more. `remains` are to be destroyed where unmapping may take
  // its time, and before the session's memory. `bell` is the daemon's end.
  virtual void on_session_gone(std::uint64_t session_id, SessionRemains remains,
                               ipc::BellSocket bell) = 0;
};

class SessionControl {
public:
  virtual ~SessionControl() = default;
  virtual void open_session(const SessionStart& start) = 0;
  virtual void open_name_space(std::uint64_t session_id, session::OpenNameSpace name_space) = 0;
  virtual void add_region(std::uint64_t session_id,
                          std::unique_ptr<memory::RegionMemory> region) = 0;
  // Answered when no operation uses it any more; new ones are refused at once.
  virtual void remove_region(std::uint64_t session_id, ipc::RegionHandle handle) = 0;
  // Takes no new submissions. What is in flight completes, bounded by its deadlines while the
  // client waits for it, and else soon (kGoneClientNs). `poison`: the control thread found the
  // breach. Answered by on_session_gone().
  virtual void close_session(std::uint64_t session_id, ipc::PoisonReason poison,
                             bool client_waits) = 0;
};

}  // namespace simm::control
