// Attachment: one connection of a client process, from accept to the last byte freed.
//
//   hello ─► making ─► mapping ─► sealing ─► opening ─► open ◄─► busy
//     │        │         │          │          │         │        │
//     └────────┴─────────┴──────────┴─ closed  └─────────┴────────┴─► draining ─► closed
//
// making: session memory, for an older client; busy: one request is carried out.
// Until `opening` nothing outside this object knows of it, and whatever goes wrong just closes the
// socket. Afterwards it closes through the data plane: no new submissions, what is in flight
// ends, then memory and regions are freed. One request of a client is handled at a time; the next
// one waits in its socket, so a client that floods only waits for itself.
//
// Owned by its AttachServer. Thread: control.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/attach/closers.h"
#include "daemon/attach/key_followers.h"
#include "daemon/attach/region_opener.h"
#include "daemon/attach/session_control.h"
#include "daemon/attach/session_leases.h"
#include "daemon/attach/session_memory.h"
#include "daemon/attach/session_memory_budget.h"
#include "daemon/attach/tenant_account.h"
#include "daemon/attach/tenant_rules.h"
#include "daemon/control/environment.h"
#include "daemon/control/readiness.h"
#include "daemon/control/turns.h"
#include "ipc/control_message.h"
#include "ipc/death_mark.h"
#include "ipc/fd_socket.h"
#include "ipc/peer_identity.h"

namespace simm::control {

class Attachment;

// Whom an attachment tells that its connection has left the handshake, or is over.
class AttachmentOwner {
public:
  virtual ~AttachmentOwner() = default;
  virtual void on_handshake_over(Attachment& attachment) = 0;
  // The owner may destroy it, but not before this returns.
  virtual void on_closed(Attachment& attachment) = 0;
  // In which attachments do their work, so that many at one time hold up nobody else.
  [[nodiscard]] virtual Turns& turns() noexcept = 0;
};

// What ends this daemon's reach into the memory of clients when the daemon dies.
struct ReachEnd {
  bool outlives_socket = false;  // devices move bytes: the hang-up of a session is no fence
  int process_fd = -1;           // a pidfd of this process; -1: the kernel has none
  const ipc::DeathMark* death_mark = nullptr;  // of the threads that move bytes; null: none
};

struct AttachServices {
  Environment& environment;
  SessionControl& plane;
  RegionOpener& opener;
  const TenantRules& tenants;
  TenantAccounts& accounts;
  Closers& closers;
  Closers& sealers;
  JobThread& adopter;  // asks the helper; the registrar never waits for the helper
  SessionMemoryBudget& session_memory;
  ReachEnd reach = {};
  bool takes_pages = SessionPages::stay();  // of clients, as session memory
  KeyFollowers* key_followers = nullptr;    // null: there is no pool
};

class Attachment : public std::enable_shared_from_this<Attachment> {
public:
  enum class State : std::uint8_t {
    hello,
    making,
    mapping,
    sealing,
    opening,
    open,
    busy,
    draining,
    closed
  };

  Attachment(AttachServices services, AttachmentOwner& owner, std::uint64_t session_id,
             ipc::FdSocket socket, ipc::PeerIdentity peer, const Tenant& tenant,
             std::size_t listener);

  void start();
  // Ends it from any state; on_closed() follows, maybe at once. `cause` is a name of ours.
  void close(const char* cause, ipc::PoisonReason poison = ipc::PoisonReason::none) {
    end(cause, poison, false);
  }
  // The same, by a daemon that stops: the client still waits for what it has in flight.
  void shut_down() { end("shutdown", ipc::PoisonReason::none, true); }

  // Answers of the data plane.
  void on_opened(Status status);
  void on_name_space(Status status, std::uint16_t id);
  void on_region_added(ipc::RegionHandle handle, std::unique_ptr<memory::RegionMemory> refused);
  void on_region_removed(std::unique_ptr<memory::RegionMemory> region);
  void on_poisoned(ipc::PoisonReason reason);
  void on_gone(SessionRemains remains, ipc::BellSocket bell);

  // What simmctl shows.
  struct RegionView {
    ipc::RegionHandle handle = ipc::kNoRegion;
    std::uint64_t bytes = 0;
    bool can_fault = true;
    std::string gpu;  // on which it lies; empty: memory of the host
    ipc::RegionRequestKind kind = ipc::RegionRequestKind::shared;
    std::string name;
    std::string reason;
  };
  [[nodiscard]] const std::map<std::uint64_t, RegionView>& regions() const noexcept {
    return regions_;  // by Region::id
  }
  // Why it ended, once it does; static storage.
  [[nodiscard]] const char* end_cause() const noexcept { return end_cause_; }
  [[nodiscard]] ipc::PoisonReason poison_reason() const noexcept { return poison_; }
  // It was a session: not only a connection in the handshake.
  [[nodiscard]] bool was_open() const noexcept { return was_open_; }
  [[nodiscard]] State state() const noexcept { return state_; }
  [[nodiscard]] std::uint64_t session_id() const noexcept { return session_id_; }
  [[nodiscard]] const Tenant& tenant() const noexcept { return tenant_; }
  [[nodiscard]] const ipc::PeerIdentity& peer() const noexcept { return account_->peer; }
  [[nodiscard]] const std::string& client_name() const noexcept { return client_name_; }
  [[nodiscard]] std::uint32_t lanes() const noexcept { return memory_ ? memory_->lanes : 0; }
  [[nodiscard]] std::size_t listener() const noexcept { return listener_; }
  [[nodiscard]] const char* state_name() const noexcept;

private:
  // In its turn, and not at once.
  void later(std::function<void()> call);
  // The same for who is on another thread.
  static void later(std::shared_ptr<Attachment> self, std::function<void()> call);
  void read_next();
  void on_readable();
  void handle(ipc::ClientMessage message, std::vector<ipc::UniqueFd> fds);
  void on_hello(const ipc::Hello& hello);
  void refuse_memory(const Error& why);
  void make_memory(std::uint32_t lanes, std::uint32_t layout, std::uint32_t extensions);
  void on_made(std::shared_ptr<Expected<SessionMemory>> made, std::uint32_t extensions);
  // There is memory, or the client is to bring it.
  void welcome(SessionMemory memory, std::uint32_t extensions);
  [[nodiscard]] std::uint32_t granted_extensions() const noexcept;
  void on_mapped(std::vector<ipc::UniqueFd> fds);
  // Two ways of one step, each on the sealer: pages of ours are sealed, those of a client taken.
  void seal_pages();
  void take_pages(ipc::UniqueFd fd);
  void on_sealed(const Outcome& sealed);
  void on_taken(std::shared_ptr<Expected<SessionPages>> pages);
  void on_open_name_space(const ipc::OpenNamespace& wanted);
  void on_register_region(const ipc::RegisterRegion& wanted, std::vector<ipc::UniqueFd> fds);
  void on_region_ready(RegionAnswer answer);
  void on_deregister_region(const ipc::DeregisterRegion& wanted);
  // Answers a request about a lease.
  [[nodiscard]] SessionLeases::Answer lease_answer();
  void refuse(Status status, const std::string& reason);
  void meet(base::Limit limit);
  bool send(const ipc::DaemonMessage& message, std::span<const int> fds = {});
  void end(const char* cause, ipc::PoisonReason poison, bool client_waits);
  void leave_handshake();
  // Ends a request: sends its reply and reads the next one.
  void reply(const ipc::DaemonMessage& message);
  void on_no_message(ipc::SocketResult why);
  // Returns those that are memory, if that is wanted, and has the others closed by the tenant's
  // closer. Until they are closed, nothing more is read and the connection counts as open: a client
  // has no more of them with us than one message holds.
  std::vector<ipc::UniqueFd> keep_memory(ipc::Received& received, bool is_wanted);
  void close_elsewhere(std::shared_ptr<void> closed_last);
  void on_closed_elsewhere();
  // Of the socket and the bell: at once, but with descriptors in it by the tenant's closer.
  void close_sockets();
  void finish();
  void free_region(std::unique_ptr<memory::RegionMemory> region);
  // Where memory of this session is freed.
  [[nodiscard]] JobThread& releaser() const;

  AttachServices services_;
  AttachmentOwner& owner_;
  const std::uint64_t session_id_;
  ipc::FdSocket socket_;
  const std::shared_ptr<RegionAccount> account_;
  const Tenant& tenant_;
  const std::size_t listener_;
  State state_ = State::hello;
  bool was_open_ = false;
  const char* end_cause_ = "";
  ipc::PoisonReason poison_ = ipc::PoisonReason::none;
  std::string client_name_;

  Readiness readable_;
  Readiness process_exit_;
  boost::asio::steady_timer deadline_;

  std::optional<SessionMemory> memory_;
  SessionRemains remains_;
  std::map<std::uint64_t, RegionView> regions_;
  SessionLeases leases_;
  std::set<std::uint64_t> name_spaces_;  // ids of those open here, the default one not
  // The request that `busy` is about.
  std::uint64_t request_id_ = 0;
  std::string request_name_;
  std::string request_gpu_;
  bool in_handshake_ = true;
  int closing_elsewhere_ = 0;        // its jobs that are on the closer or the sealer
  bool is_finished_ = false;         // nothing but those jobs keeps it
  bool registering_ = false;         // a job of this attachment is on registrar or adopter
  std::uint64_t adding_region_ = 0;  // id of the region that on_region_added() is about
};

}  // namespace simm::control
