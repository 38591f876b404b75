#include "daemon/attach/attach_server.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "ipc/peer_identity.h"

namespace simm::control {
namespace {

constexpr int kBacklog = 1024;
constexpr std::size_t kEndedSessionsKept = 64;
constexpr std::chrono::milliseconds kRetryAfter{100};  // out of descriptors: others may free some

}  // namespace

AttachServer::AttachServer(AttachServices services, std::uint64_t first_session_id)
    : services_(services), next_session_id_(first_session_id) {
  base::CounterSet& counters = services_.environment.counters;
  accepted_ = counters.counter("control.connections.accepted");
  closed_ = counters.counter("control.connections.closed");
  open_ = counters.counter("control.connections.open");
}

AttachServer::~AttachServer() = default;

Outcome AttachServer::listen(std::vector<InheritedSocket>& inherited) {
  for (const base::SocketConfig& config : services_.environment.config.sockets) {
    auto socket = open_listener(config, inherited);
    if (!socket) return std::move(socket).error();
    auto listener = std::make_unique<Listener>(services_.environment, std::move(*socket), config);
    if (!listener->readable.watch(listener->socket.fd())) {
      return Error{Status::io_error, config.path + ": can not be watched for connections"};
    }
    listeners_.push_back(std::move(listener));
  }
  for (std::size_t i = 0; i < listeners_.size(); ++i) accept_when_possible(i);
  return Done{};
}

Expected<ipc::FdListener> AttachServer::open_listener(const base::SocketConfig& config,
                                                      std::vector<InheritedSocket>& inherited) {
  const auto match = std::find_if(inherited.begin(), inherited.end(), [&](const auto& socket) {
    return socket.path == config.path || "@" + socket.name == config.path;
  });
  if (match != inherited.end()) {
    ipc::UniqueFd fd = std::move(match->fd);
    inherited.erase(match);
    return ipc::FdListener::adopt(std::move(fd));
  }
  if (config.path.front() == '@') {
    return Error{Status::invalid_argument, "sockets: " + config.path +
                                               " was not handed over by the service manager; write "
                                               "FileDescriptorName=" +
                                               config.path.substr(1) +
                                               " in its socket unit, or a path"};
  }
  return ipc::FdListener::listen(config.path, config.mode, kBacklog);
}

void AttachServer::accept_when_possible(std::size_t index) {
  Listener& listener = *listeners_[index];
  if (draining_ || listener.waiting) return;
  base::LimitCounters& limits = services_.environment.limits;
  if (listener.unauthenticated >= base::kUnauthenticatedMax) {
    return limits.reached(base::Limit::unauthenticated_per_socket);
  }
  if (listener.sessions >= services_.environment.config.session.sessions_max) {
    return limits.reached(base::Limit::sessions_per_socket);
  }
  listener.waiting = true;
  listener.readable.when_readable([this, index] {
    listeners_[index]->waiting = false;
    accept_one(index);
  });
}

void AttachServer::accept_one(std::size_t index) {
  Listener& listener = *listeners_[index];
  auto accepted = listener.socket.accept();
  if (!accepted) {
    services_.environment.errors.record("control.accept", accepted.status(),
                                        accepted.error().context);
    services_.environment.limits.reached(base::Limit::descriptors);
    // Not at once: the connection is still there, so the socket stays readable.
    listener.waiting = true;
    listener.retry.expires_after(kRetryAfter);
    listener.retry.async_wait([this, index](const boost::system::error_code& cancelled) {
      if (cancelled) return;
      listeners_[index]->waiting = false;
      accept_when_possible(index);
    });
    return;
  }
  if (accepted->has_value()) {
    ipc::FdSocket socket = std::move(**accepted);
    auto peer = ipc::PeerIdentity::of(socket.fd());
    if (peer) {
      const Tenant& tenant = services_.tenants.resolve(listener.tenant, peer->uid(), peer->gid());
      const std::uint64_t session_id = next_session_id_++;
      auto attachment = std::make_shared<Attachment>(
          services_, *this, session_id, std::move(socket), std::move(*peer), tenant, index);
      attachments_.emplace(session_id, attachment);
      ++listener.unauthenticated;
      ++listener.sessions;
      accepted_.add();
      open_.add();
      attachment->start();
    } else {
      services_.environment.errors.record("control.identity", peer.status(), peer.error().context);
      drop(std::move(socket), listener);
    }
  }
  accept_when_possible(index);
}

void AttachServer::drop(ipc::FdSocket socket, const Listener& listener) {
  if (socket.shut()) return;
  // Whose it is nobody knows; no session waits for this.
  constexpr auto kNobody = static_cast<uid_t>(-1);
  auto last = std::make_shared<ipc::FdSocket>(std::move(socket));
  services_.closers.submit(services_.tenants.resolve(listener.tenant, kNobody, kNobody),
                           [last]() { last->close(); });
}

void AttachServer::drain(std::function<void()> when_empty) {
  draining_ = true;
  when_empty_ = std::move(when_empty);
  for (const auto& listener : listeners_) {
    listener->readable.stop();
    listener->retry.cancel();
  }
  std::vector<std::shared_ptr<Attachment>> all;
  for (const auto& [id, attachment] : attachments_) all.push_back(attachment);
  for (const auto& attachment : all) attachment->close("shutdown");
  if (attachments_.empty() && when_empty_) std::exchange(when_empty_, nullptr)();
}

std::vector<const Attachment*> AttachServer::attachments() const {
  std::vector<const Attachment*> all;
  for (const auto& [id, attachment] : attachments_) all.push_back(attachment.get());
  return all;
}

void AttachServer::on_handshake_over(Attachment& attachment) {
  const std::size_t index = attachment.listener();
  --listeners_[index]->unauthenticated;
  accept_when_possible(index);
}

std::vector<ListenerView> AttachServer::listeners() const {
  std::vector<ListenerView> all;
  for (const auto& listener : listeners_) {
    all.push_back(
        {listener->path, listener->tenant, listener->sessions, listener->unauthenticated});
  }
  return all;
}

void AttachServer::on_closed(Attachment& attachment) {
  if (attachment.was_open()) {
    ended_.push_front({attachment.session_id(), attachment.tenant().name, attachment.client_name(),
                       attachment.peer().pid(), attachment.peer().uid(), attachment.end_cause(),
                       attachment.poison_reason(), services_.environment.clock.now_ns()});
    if (ended_.size() > kEndedSessionsKept) ended_.pop_back();
  }
  const std::size_t index = attachment.listener();
  --listeners_[index]->sessions;
  closed_.add();
  open_.sub();
  attachments_.erase(attachment.session_id());
  accept_when_possible(index);
  if (draining_ && attachments_.empty() && when_empty_) std::exchange(when_empty_, nullptr)();
}

std::shared_ptr<Attachment> AttachServer::find(std::uint64_t session_id) const {
  const auto found = attachments_.find(session_id);
  return found == attachments_.end() ? nullptr : found->second;
}

void AttachServer::on_session_opened(std::uint64_t session_id, Status status) {
  if (const auto attachment = find(session_id)) attachment->on_opened(status);
}
void AttachServer::on_name_space_opened(std::uint64_t session_id, Status status, std::uint16_t id) {
  if (const auto attachment = find(session_id)) attachment->on_name_space(status, id);
}
void AttachServer::on_region_added(std::uint64_t session_id, ipc::RegionHandle handle,
                                   std::unique_ptr<memory::RegionMemory> refused) {
  const auto attachment = find(session_id);
  if (attachment != nullptr) attachment->on_region_added(handle, std::move(refused));
}
void AttachServer::on_region_removed(std::uint64_t session_id,
                                     std::unique_ptr<memory::RegionMemory> region) {
  const auto attachment = find(session_id);
  if (attachment != nullptr) attachment->on_region_removed(std::move(region));
}
void AttachServer::on_session_poisoned(std::uint64_t session_id, ipc::PoisonReason reason) {
  if (const auto attachment = find(session_id)) attachment->on_poisoned(reason);
}
void AttachServer::on_session_gone(std::uint64_t session_id, std::shared_ptr<void> remains,
                                   ipc::BellSocket bell) {
  const auto attachment = find(session_id);
  if (attachment != nullptr) attachment->on_gone(std::move(remains), std::move(bell));
}

}  // namespace simm::control
