// AttachServer: the listening sockets and everybody who attached through them. Admission is per
// tenant on a listening socket: at most kUnauthenticatedMax connections in the handshake and
// session.sessions_max sessions. As many connections as sessions wait for one of these to end; the
// next one is refused. A socket accepts at once whoever comes, because only then the daemon sees
// whose connection it is: so a tenant without room costs the others on its socket no time.
// Owned by the composition root. Thread: control.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/attach/attach_counters.h"
#include "daemon/attach/attachment.h"
#include "daemon/attach/session_control.h"
#include "daemon/control/environment.h"
#include "daemon/control/readiness.h"
#include "daemon/control/service_manager.h"
#include "ipc/fd_listener.h"

namespace simm::control {

// A session that is over, for who looks for its client later.
struct EndedSession {
  std::uint64_t session_id = 0;
  std::string tenant;
  std::string client;
  pid_t pid = 0;
  uid_t uid = 0;
  const char* cause = "";
  ipc::PoisonReason poison = ipc::PoisonReason::none;
  base::TimeNs ended_ns = 0;
};

// A listening socket and what one tenant has there; a socket without any connection is one, too.
struct ListenerView {
  std::string path;
  std::string tenant;  // empty: nobody is there, and uid and gid will decide
  std::uint32_t sessions = 0;
  std::uint32_t unauthenticated = 0;
  std::uint32_t waiting = 0;
};

class AttachServer final : public AttachmentOwner, public SessionControlEvents {
public:
  explicit AttachServer(AttachServices services, std::uint64_t first_session_id);
  ~AttachServer() override;

  // Listens on all configured sockets; takes those that were inherited (by path, or by name for a
  // configured path "@name") and removes them from `inherited`.
  Outcome listen(std::vector<InheritedSocket>& inherited);

  // Accepts nobody any more, and closes every session. `when_empty` is called once, when the last
  // one is gone (at once when there is none).
  void drain(std::function<void()> when_empty);

  // Removes the socket files: for an end without destructors.
  void remove_listeners() { listeners_.clear(); }

  [[nodiscard]] std::vector<const Attachment*> attachments() const;
  // The last 64 that were open once, the latest one first.
  [[nodiscard]] const std::deque<EndedSession>& ended() const noexcept { return ended_; }
  [[nodiscard]] std::vector<ListenerView> listeners() const;
  [[nodiscard]] const AttachServices& services() const noexcept { return services_; }
  [[nodiscard]] std::size_t sessions() const noexcept { return attachments_.size(); }
  // False: for nobody, as in a storage daemon.
  [[nodiscard]] bool is_listening() const noexcept { return !listeners_.empty(); }
  [[nodiscard]] const std::string& listener_path(std::size_t listener) const {
    return listeners_[listener]->path;
  }

  // AttachmentOwner.
  void on_handshake_over(Attachment& attachment) override;
  void on_closed(Attachment& attachment) override;
  [[nodiscard]] Turns& turns() noexcept override { return turns_; }

  // SessionControlEvents.
  void on_session_opened(std::uint64_t session_id, Status status) override;
  void on_name_space_opened(std::uint64_t session_id, Status status, std::uint16_t id) override;
  void on_region_added(std::uint64_t session_id, ipc::RegionHandle handle,
                       std::unique_ptr<memory::RegionMemory> refused) override;
  void on_region_removed(std::uint64_t session_id,
                         std::unique_ptr<memory::RegionMemory> region) override;
  void on_session_poisoned(std::uint64_t session_id, ipc::PoisonReason reason) override;
  void on_session_gone(std::uint64_t session_id, SessionRemains remains,
                       ipc::BellSocket bell) override;

private:
  // A connection that waits until its tenant has room.
  struct Waiting {
    ipc::FdSocket socket;
    ipc::PeerIdentity peer;
  };
  // What a tenant has on a listening socket.
  struct Guests {
    explicit Guests(const Tenant& whose) : tenant(whose) {}
    const Tenant& tenant;
    std::uint32_t unauthenticated = 0;
    std::uint32_t sessions = 0;  // in every state, the handshake included
    std::deque<Waiting> waiting;
    bool letting_in = false;
  };
  struct Listener {
    Listener(Environment& environment, ipc::FdListener opened, const base::SocketConfig& config)
        : socket(std::move(opened)),
          path(config.path),
          tenant(config.tenant),
          readable(environment.io),
          retry(environment.io) {}
    ipc::FdListener socket;
    std::string path;
    std::string tenant;
    Readiness readable;
    boost::asio::steady_timer retry;
    std::map<std::uint64_t, Guests> guests;  // by TenantId
    bool accepting = false;                  // it waits for a connection
  };

  Expected<ipc::FdListener> open_listener(const base::SocketConfig& config,
                                          std::vector<InheritedSocket>& inherited);
  void accept_when_possible(std::size_t index);
  void accept_one(std::size_t index);
  void receive_guest(std::size_t index, ipc::FdSocket socket, ipc::PeerIdentity peer);
  [[nodiscard]] Guests& guests_of(const Attachment& attachment);
  // Attaches those that wait, as far as there is room.
  void let_in(std::size_t index, Guests& guests);
  // The limit that keeps the next one out; nothing when there is room.
  [[nodiscard]] std::optional<base::Limit> limit_at(const Guests& guests) const;
  void forget_hung_up(Guests& guests);
  void turn_away(ipc::FdSocket socket, const Tenant& tenant);
  // It never became an attachment.
  void drop(ipc::FdSocket socket, const Tenant& tenant);
  [[nodiscard]] std::shared_ptr<Attachment> find(std::uint64_t session_id) const;

  AttachServices services_;
  std::uint64_t next_session_id_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::map<std::uint64_t, std::shared_ptr<Attachment>> attachments_;
  std::deque<EndedSession> ended_;
  bool draining_ = false;
  std::function<void()> when_empty_;
  AttachCounters counters_;
  Turns turns_;
};

}  // namespace simm::control
