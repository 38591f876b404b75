// AttachServer: the listening sockets and everybody who attached through them. Admission is per
// listening socket: at most kUnauthenticatedMax connections in the handshake and
// session.sessions_max sessions; whoever comes beyond that waits in the socket's queue, and nobody
// on another socket notices.
// Owned by the composition root. Thread: control.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/attach/attachment.h"
#include "daemon/attach/data_plane.h"
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

// A listening socket and who came through it.
struct ListenerView {
  std::string path;
  std::string tenant;  // empty: decided by uid and gid
  std::uint32_t sessions = 0;
  std::uint32_t unauthenticated = 0;
};

class AttachServer final : public AttachmentOwner, public DataPlaneEvents {
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

  // DataPlaneEvents.
  void on_session_opened(std::uint64_t session_id, Status status) override;
  void on_name_space_opened(std::uint64_t session_id, Status status, std::uint16_t id) override;
  void on_region_added(std::uint64_t session_id, ipc::RegionHandle handle,
                       std::unique_ptr<memory::RegionMemory> refused) override;
  void on_region_removed(std::uint64_t session_id,
                         std::unique_ptr<memory::RegionMemory> region) override;
  void on_session_poisoned(std::uint64_t session_id, ipc::PoisonReason reason) override;
  void on_session_gone(std::uint64_t session_id, std::shared_ptr<void> remains,
                       ipc::BellSocket bell) override;

private:
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
    std::uint32_t unauthenticated = 0;
    std::uint32_t sessions = 0;  // in every state, the handshake included
    bool waiting = false;        // for a connection
  };

  Expected<ipc::FdListener> open_listener(const base::SocketConfig& config,
                                          std::vector<InheritedSocket>& inherited);
  void accept_when_possible(std::size_t index);
  void accept_one(std::size_t index);
  // It never became an attachment.
  void drop(ipc::FdSocket socket, const Listener& listener);
  [[nodiscard]] std::shared_ptr<Attachment> find(std::uint64_t session_id) const;

  AttachServices services_;
  std::uint64_t next_session_id_;
  std::vector<std::unique_ptr<Listener>> listeners_;
  std::map<std::uint64_t, std::shared_ptr<Attachment>> attachments_;
  std::deque<EndedSession> ended_;
  bool draining_ = false;
  std::function<void()> when_empty_;
  base::Counter accepted_;
  base::Counter closed_;
  base::Counter open_;
};

}  // namespace simm::control
