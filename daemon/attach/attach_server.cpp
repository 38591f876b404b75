#include "daemon/attach/attach_server.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "ipc/control_codec.h"
#include "ipc/peer_identity.h"

namespace simm::control {
namespace {

constexpr int kBacklog = 1024;
constexpr std::size_t kEndedSessionsKept = 64;
constexpr std::chrono::milliseconds kRetryAfter{100};  // out of descriptors: others may free some

}  // namespace

AttachServer::AttachServer(AttachServices services, std::uint64_t first_session_id)
    : services_(services),
      next_session_id_(first_session_id),
      counters_(services.environment.counters),
      turns_(services.environment.io, services.environment.clock) {}

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
  if (draining_ || listener.accepting) return;
  listener.accepting = true;
  listener.readable.when_readable([this, index] {
    listeners_[index]->accepting = false;
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
    listener.accepting = true;
    listener.retry.expires_after(kRetryAfter);
    listener.retry.async_wait([this, index](const boost::system::error_code& cancelled) {
      if (cancelled) return;
      listeners_[index]->accepting = false;
      accept_when_possible(index);
    });
    return;
  }
  if (accepted->has_value()) {
    ipc::FdSocket socket = std::move(**accepted);
    auto peer = ipc::PeerIdentity::of(socket.fd());
    if (peer) {
      receive_guest(index, std::move(socket), std::move(*peer));
    } else {
      services_.environment.errors.record("control.identity", peer.status(), peer.error().context);
      // Whose it is nobody knows; no session waits for this.
      constexpr auto kNobody = static_cast<uid_t>(-1);
      drop(std::move(socket), services_.tenants.resolve(listener.tenant, kNobody, kNobody));
    }
  }
  accept_when_possible(index);
}

void AttachServer::receive_guest(std::size_t index, ipc::FdSocket socket, ipc::PeerIdentity peer) {
  Listener& listener = *listeners_[index];
  const Tenant& tenant = services_.tenants.resolve(listener.tenant, peer.uid(), peer.gid());
  Guests& guests = listener.guests.try_emplace(tenant.id.value, tenant).first->second;
  const std::uint32_t waiting_max = services_.environment.config.session.sessions_max;
  if (guests.waiting.size() >= waiting_max) forget_hung_up(guests);
  if (guests.waiting.size() >= waiting_max) return turn_away(std::move(socket), tenant);
  guests.waiting.push_back({std::move(socket), std::move(peer)});
  let_in(index, guests);
}

void AttachServer::let_in(std::size_t index, Guests& guests) {
  // An attachment that ends as it starts comes here again: one loop does it all.
  if (draining_ || guests.letting_in) return;
  guests.letting_in = true;
  while (!guests.waiting.empty()) {
    if (const auto limit = limit_at(guests)) {
      services_.environment.limits.reached(*limit);
      break;
    }
    Waiting next = std::move(guests.waiting.front());
    guests.waiting.pop_front();
    const std::uint64_t session_id = next_session_id_++;
    auto attachment =
        std::make_shared<Attachment>(services_, *this, session_id, std::move(next.socket),
                                     std::move(next.peer), guests.tenant, index);
    attachments_.emplace(session_id, attachment);
    ++guests.unauthenticated;
    ++guests.sessions;
    counters_.accepted.add();
    counters_.open.add();
    attachment->start();
  }
  guests.letting_in = false;
}

std::optional<base::Limit> AttachServer::limit_at(const Guests& guests) const {
  if (guests.sessions >= services_.environment.config.session.sessions_max) {
    return base::Limit::sessions_per_socket;
  }
  if (guests.unauthenticated >= base::kUnauthenticatedMax) {
    return base::Limit::unauthenticated_per_socket;
  }
  return std::nullopt;
}

void AttachServer::forget_hung_up(Guests& guests) {
  std::vector<pollfd> looked_at;
  for (const Waiting& waiting : guests.waiting) looked_at.push_back({waiting.socket.fd(), 0, 0});
  if (::poll(looked_at.data(), looked_at.size(), 0) <= 0) return;
  std::deque<Waiting> staying;
  for (std::size_t i = 0; i < looked_at.size(); ++i) {
    Waiting& waiting = guests.waiting[i];
    if (looked_at[i].revents == 0) {
      staying.push_back(std::move(waiting));
    } else {
      drop(std::move(waiting.socket), guests.tenant);
    }
  }
  guests.waiting = std::move(staying);
}

void AttachServer::turn_away(ipc::FdSocket socket, const Tenant& tenant) {
  counters_.refused.add();
  const std::string most = std::to_string(services_.environment.config.session.sessions_max);
  const auto packet = ipc::encode(ipc::Refused{
      Status::out_of_memory,
      "tenant " + tenant.name + " has all sessions of this socket, and " + most +
          " connections wait already (session.sessions_max = " + most +
          "): end processes of this tenant, or raise session.sessions_max and restart the daemon"});
  // Whoever can not take these words sees the hang-up.
  if (packet) (void)socket.try_send(*packet);
  drop(std::move(socket), tenant);
}

void AttachServer::drop(ipc::FdSocket socket, const Tenant& tenant) {
  if (socket.shut()) return;
  auto last = std::make_shared<ipc::FdSocket>(std::move(socket));
  services_.closers.submit(tenant, [last]() { last->close(); });
}

AttachServer::Guests& AttachServer::guests_of(const Attachment& attachment) {
  return listeners_[attachment.listener()]->guests.at(attachment.tenant().id.value);
}

void AttachServer::drain(std::function<void()> when_empty) {
  draining_ = true;
  when_empty_ = std::move(when_empty);
  for (const auto& listener : listeners_) {
    listener->readable.stop();
    listener->retry.cancel();
    for (auto& [id, guests] : listener->guests) {
      for (Waiting& waiting : guests.waiting) drop(std::move(waiting.socket), guests.tenant);
      guests.waiting.clear();
    }
  }
  std::vector<std::shared_ptr<Attachment>> all;
  for (const auto& [id, attachment] : attachments_) all.push_back(attachment);
  for (const auto& attachment : all) attachment->shut_down();
  if (attachments_.empty() && when_empty_) std::exchange(when_empty_, nullptr)();
}

std::vector<const Attachment*> AttachServer::attachments() const {
  std::vector<const Attachment*> all;
  for (const auto& [id, attachment] : attachments_) all.push_back(attachment.get());
  return all;
}

void AttachServer::on_handshake_over(Attachment& attachment) {
  Guests& guests = guests_of(attachment);
  --guests.unauthenticated;
  let_in(attachment.listener(), guests);
}

std::vector<ListenerView> AttachServer::listeners() const {
  std::vector<ListenerView> all;
  for (const auto& listener : listeners_) {
    if (listener->guests.empty()) all.push_back({listener->path, listener->tenant, 0, 0, 0});
    for (const auto& [id, guests] : listener->guests) {
      all.push_back({listener->path, guests.tenant.name, guests.sessions, guests.unauthenticated,
                     static_cast<std::uint32_t>(guests.waiting.size())});
    }
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
  Guests& guests = guests_of(attachment);
  --guests.sessions;
  counters_.closed.add();
  counters_.open.sub();
  attachments_.erase(attachment.session_id());
  let_in(index, guests);
  if (draining_ && attachments_.empty() && when_empty_) std::exchange(when_empty_, nullptr)();
}

std::shared_ptr<Attachment> AttachServer::find(std::uint64_t session_id) const {
  const auto found = attachments_.find(session_id);
  return found == attachments_.end() ? nullptr : found->second;
}

void AttachServer::on_session_opened(std::uint64_t session_id, Status status) {
  const auto attachment = find(session_id);
  if (attachment == nullptr) return;
  turns_.take(attachment, [&its = *attachment, status] { its.on_opened(status); });
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
void AttachServer::on_session_gone(std::uint64_t session_id, SessionRemains remains,
                                   ipc::BellSocket bell) {
  const auto attachment = find(session_id);
  if (attachment == nullptr) return;
  const auto last = std::make_shared<std::pair<SessionRemains, ipc::BellSocket>>(std::move(remains),
                                                                                 std::move(bell));
  turns_.take(attachment, [attachment, last] {
    attachment->on_gone(std::move(last->first), std::move(last->second));
  });
}

}  // namespace simm::control
