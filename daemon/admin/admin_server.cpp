#include "daemon/admin/admin_server.h"

#include <unistd.h>

#include <array>
#include <utility>

#include "ipc/admin_codec.h"
#include "ipc/peer_identity.h"

namespace simm::control {
namespace {

constexpr int kAdminBacklog = 16;
constexpr mode_t kOwnerOnly = 0600;

bool may_administrate(const ipc::FdSocket& socket) {
  const auto peer = ipc::PeerIdentity::of(socket.fd());
  return peer.has_value() && (peer->uid() == 0 || peer->uid() == ::geteuid());
}

}  // namespace

AdminServer::AdminServer(boost::asio::io_context& io, base::LimitCounters& limits,
                         AdminSource& source)
    : io_(io), limits_(limits), source_(source), readable_(io) {}

Outcome AdminServer::listen(const std::string& path) {
  auto listener = ipc::FdListener::listen(path, kOwnerOnly, kAdminBacklog);
  if (!listener) return std::move(listener).error();
  listener_ = std::make_unique<ipc::FdListener>(std::move(*listener));
  if (!readable_.watch(listener_->fd())) {
    return Error{Status::io_error, path + ": can not be watched for connections"};
  }
  accept_next();
  return Done{};
}

void AdminServer::stop() {
  readable_.stop();
  connections_.clear();
  listener_.reset();
}

void AdminServer::accept_next() {
  if (waiting_) return;
  if (connections_.size() >= base::kAdminConnectionsMax) {
    return limits_.reached(base::Limit::admin_connections);
  }
  waiting_ = true;
  readable_.when_readable([this] {
    waiting_ = false;
    auto accepted = listener_->accept();
    if (accepted && accepted->has_value() && may_administrate(**accepted)) {
      const std::uint64_t id = next_id_++;
      auto connection = std::make_unique<Connection>(io_, std::move(**accepted));
      if (connection->readable.watch(connection->socket.fd())) {
        connections_.emplace(id, std::move(connection));
        read_next(id);
      }
    }
    accept_next();
  });
}

void AdminServer::read_next(std::uint64_t id) {
  connections_.at(id)->readable.when_readable([this, id] { on_readable(id); });
}

void AdminServer::on_readable(std::uint64_t id) {
  Connection& connection = *connections_.at(id);
  std::array<std::byte, ipc::kControlMessageBytesMax> buffer;
  const ipc::Received received = connection.socket.try_receive(buffer);
  if (received.result == ipc::SocketResult::would_block) return read_next(id);
  if (received.result != ipc::SocketResult::done) return close(id);
  const auto request = ipc::decode_admin_request(std::span(buffer.data(), received.bytes));
  if (!request) return close(id);
  ask(id, *request);
}

void AdminServer::ask(std::uint64_t id, const ipc::AdminRequest& request) {
  if (request.cursor != 0) return send_page(id, request.request_id, request.cursor);
  const base::AdminCommandRow* const row =
      base::find_admin_command(request.command, source_.scope());
  if (row == nullptr) {
    return answer(id, request.request_id,
                  Error{Status::invalid_argument,
                        "unknown command; known: " + base::admin_command_names(source_.scope())});
  }
  // The answer may come when this connection, or this server, is gone.
  source_.report(row->command, request.argument,
                 [this, id, request_id = request.request_id,
                  alive = std::weak_ptr<bool>(alive_)](Expected<std::string> text) {
                   if (!alive.expired()) answer(id, request_id, std::move(text));
                 });
}

void AdminServer::answer(std::uint64_t id, std::uint64_t request_id, Expected<std::string> text) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  if (text) {
    found->second->text = std::move(*text);
    return send_page(id, request_id, 0);
  }
  ipc::AdminReply reply;
  reply.request_id = request_id;
  reply.status = text.status();
  reply.text = text.error().context.substr(0, ipc::kAdminPageBytesMax);
  send(id, reply);
}

void AdminServer::send_page(std::uint64_t id, std::uint64_t request_id, std::uint64_t cursor) {
  const std::string& text = connections_.at(id)->text;
  ipc::AdminReply reply;
  reply.request_id = request_id;
  if (cursor > text.size()) {
    reply.status = Status::invalid_argument;
    reply.text = "the cursor is not one of this connection's last reply";
    return send(id, reply);
  }
  const auto from = static_cast<std::size_t>(cursor);
  reply.text = text.substr(from, ipc::kAdminPageBytesMax);
  const std::size_t end = from + reply.text.size();
  reply.next_cursor = end < text.size() ? end : 0;
  send(id, reply);
}

void AdminServer::send(std::uint64_t id, const ipc::AdminReply& reply) {
  const auto packet = ipc::encode(reply);
  if (!packet || connections_.at(id)->socket.try_send(*packet) != ipc::SocketResult::done) {
    return close(id);
  }
  read_next(id);
}

void AdminServer::close(std::uint64_t id) {
  connections_.erase(id);
  accept_next();
}

}  // namespace simm::control
