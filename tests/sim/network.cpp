#include "tests/sim/network.h"

#include <algorithm>
#include <string>
#include <utility>

#include "tests/sim/sim_requester.h"
#include "tests/sim/sim_responder.h"

namespace simm::sim {

void Network::listen(transport::Route route, ServerEnd* server) {
  listeners_[{route.peer.value, route.shard}] = server;
}

ServerEnd* Network::listener(transport::Route route) const {
  const auto found = listeners_.find({route.peer.value, route.shard});
  return found == listeners_.end() ? nullptr : found->second;
}

RdmaNodePart* Network::rdma_node(std::uint32_t node) const {
  const auto found = rdma_nodes_.find(node);
  return found == rdma_nodes_.end() ? nullptr : found->second;
}

void Network::set_rdma_node(std::uint32_t node, RdmaNodePart* part) {
  rdma_nodes_[node] = part;
}

RequestBook::Hooks Network::book_hooks() {
  RequestBook::Hooks hooks;
  hooks.done = [this](WireRequest& request) { server_done(request); };
  hooks.sent = [this](const WireRequest& request) { on_sent(request); };
  hooks.asked_again = [this](const WireRequest& request) {
    if (tap != nullptr) tap->on_asked_again(request);
  };
  hooks.queue_pairs = [this](const WireRequest& request) {
    return rdma_.links_of(request.node, request.to);
  };
  return hooks;
}

void Network::log_post(const WireRequest& wire) {
  if (!log_.on()) return;
  log_.line("node %u posts request %llu (%zu pages, opcode %d) to server %u.%u", wire.node,
            static_cast<unsigned long long>(wire.serial), wire.pages.size(),
            static_cast<int>(wire.header.opcode), wire.to.peer.value, wire.to.shard);
}

void Network::log_reply(const WireRequest& wire, std::span<const transport::PageReply> pages) {
  if (!log_.on()) return;
  std::string statuses;
  for (std::size_t page = 0; page < pages.size(); ++page) {
    const transport::PageRequest& asked = wire.pages[page];
    statuses += ' ';
    statuses.append(asked.key, std::min(asked.key_bytes, 40u));
    statuses += '=';
    statuses += status_name(pages[page].status);
  }
  log_.line("server %u.%u answers request %llu of tenant %llu:%s", wire.to.peer.value,
            wire.to.shard, static_cast<unsigned long long>(wire.serial),
            static_cast<unsigned long long>(wire.header.tenant.value), statuses.c_str());
}

PathPtr Network::path(std::uint32_t node, SimRequester& requester, transport::Route route) {
  Connection& connection = connections_[Key{node, route.peer.value, route.shard}];
  if (connection.current != nullptr && !connection.current->node_closed) return connection.current;
  if (connection.current != nullptr || loop_.now_ns() < connection.retry_ns) return nullptr;
  // Over paths there is no other kind.
  auto* const responder = static_cast<SimResponder*>(listener(route));
  const Cut cut = cuts_[{node, route.peer.value}];
  if (responder == nullptr || cut.to_server || cut.to_node) {
    connection.retry_ns = loop_.now_ns() + dice_.skewed(10 * kUs, 20 * kMs);
    return nullptr;
  }
  auto path = std::make_shared<Path>();
  path->id = ++path_ids_;
  path->node = node;
  path->route = route;
  path->requester = &requester;
  path->responder = responder;
  connection.current = path;
  responder->attach(path);
  return path;
}

PathPtr Network::current(std::uint32_t node, transport::Route route) const {
  const auto found = connections_.find(Key{node, route.peer.value, route.shard});
  return found == connections_.end() ? nullptr : found->second.current;
}

bool Network::reaches(std::uint32_t node, std::uint32_t peer) const {
  if (listener({base::PeerId{peer}, 0}) == nullptr || stopped_.count(peer) > 0) return false;
  const auto cut = cuts_.find({node, peer});
  return cut == cuts_.end() || !(cut->second.to_server || cut->second.to_node);
}

void Network::stopped(std::uint32_t peer, bool is_stopped) {
  if (is_stopped) {
    stopped_.insert(peer);
  } else {
    stopped_.erase(peer);
  }
}

void Network::to_server(const PathPtr& path, std::function<void()> deliver) {
  send(path, path->next_at_server_ns, &Path::cut_to_server, std::move(deliver));
}

void Network::to_node(const PathPtr& path, std::function<void()> deliver) {
  send(path, path->next_at_node_ns, &Path::cut_to_node, std::move(deliver));
}

void Network::arrive(const PathPtr& path, bool Path::*direction, std::function<void()> deliver) {
  if (path->dead) return;
  if (!((*path).*direction)) return deliver();
  path->held.emplace_back(
      [this, path, direction, deliver = std::move(deliver)] { arrive(path, direction, deliver); });
}

void Network::send(const PathPtr& path, base::TimeNs& next_ns, bool Path::*direction,
                   std::function<void()> deliver) {
  if (dice_.per_mille(conditions.break_per_mille)) break_path(path);
  const base::TimeNs delay = dice_.skewed(conditions.delay_low_ns, conditions.delay_high_ns);
  next_ns = std::max(next_ns + 1, loop_.now_ns() + delay);
  loop_.at(next_ns, [this, path, direction, deliver = std::move(deliver)] {
    arrive(path, direction, deliver);
  });
}

void Network::die(const PathPtr& path) {
  if (path->dead) return;
  path->dead = true;
  for (const auto& request : path->outstanding) {
    if (!request->arrived) server_done(*request);
  }
  // Moves that were held back find the path dead and end; messages are dropped.
  for (auto& action : std::exchange(path->held, {})) action();
}

base::TimeNs Network::notice_ns() {
  return dice_.skewed(conditions.notice_low_ns, conditions.notice_high_ns);
}

void Network::close_at_node(const PathPtr& path) {
  Connection& connection = connections_[Key{path->node, path->route.peer.value, path->route.shard}];
  if (connection.current != path) return;
  die(path);
  path->node_closed = true;
  connection.current = nullptr;
  connection.retry_ns =
      loop_.now_ns() + dice_.skewed(conditions.reconnect_low_ns, conditions.reconnect_high_ns);
  if (path->requester != nullptr) path->requester->on_path_end(path);
}

void Network::close_at_server(const PathPtr& path) {
  if (path->responder != nullptr) path->responder->on_path_end(path);
}

void Network::fence(const PathPtr& path) {
  if (path->node_closed) return;
  path->node_closed = true;
  if (log_.on()) log_.line("path %llu reset", static_cast<unsigned long long>(path->id));
  loop_.after(dice_.skewed(conditions.fence_low_ns, conditions.fence_high_ns), [this, path] {
    close_at_node(path);
    loop_.after(notice_ns(), [this, path] { close_at_server(path); });
  });
}

void Network::break_path(const PathPtr& path) {
  if (path->dead) return;
  if (log_.on()) log_.line("path %llu breaks", static_cast<unsigned long long>(path->id));
  die(path);
  loop_.after(notice_ns(), [this, path] { close_at_node(path); });
  loop_.after(notice_ns(), [this, path] { close_at_server(path); });
}

void Network::node_crashed(std::uint32_t node) {
  for (auto& [key, connection] : connections_) {
    if (std::get<0>(key) != node) continue;
    connection.retry_ns = 0;
    const PathPtr path = std::exchange(connection.current, nullptr);
    if (path == nullptr) continue;
    path->node_closed = true;
    die(path);
    path->requester->on_path_end(path);
    path->requester = nullptr;
    loop_.after(notice_ns(), [this, path] { close_at_server(path); });
  }
}

void Network::server_crashed(std::uint32_t peer, bool silent) {
  for (auto& [route, server] : listeners_) {
    if (route.first == peer && server != nullptr) server->lose_network(silent);
  }
  for (auto& [key, connection] : connections_) {
    if (std::get<1>(key) != peer || connection.current == nullptr) continue;
    const PathPtr path = connection.current;
    path->responder = nullptr;
    die(path);
    for (auto& request : path->outstanding) server_done(*request);
    const base::TimeNs noticed_ns = silent ? 3 * kSecond : notice_ns();
    loop_.after(noticed_ns, [this, path] { close_at_node(path); });
  }
}

void Network::cut(std::uint32_t node, std::uint32_t peer, bool to_server, bool to_node) {
  cuts_[{node, peer}] = {to_server, to_node};
  sockets_.cut(node, peer, to_server, to_node);
  rdma_.cut(node, peer, to_server, to_node);
  for (auto& [key, connection] : connections_) {
    if (std::get<0>(key) != node || std::get<1>(key) != peer) continue;
    const PathPtr path = connection.current;
    if (path == nullptr || path->dead) continue;
    path->cut_to_server = to_server;
    path->cut_to_node = to_node;
    // Those whose direction is still cut are held again, in the same order.
    for (auto& action : std::exchange(path->held, {})) action();
  }
}

void Network::break_some_path() {
  sockets_.break_some();
  rdma_.break_some();
  std::vector<PathPtr> open;
  for (auto& [key, connection] : connections_) {
    if (connection.current != nullptr && !connection.current->dead) {
      open.push_back(connection.current);
    }
  }
  if (!open.empty()) break_path(open[dice_.between(0, open.size() - 1)]);
}

void Network::fail_moves_at(const std::byte* first, std::uint64_t length) {
  unreachable_.emplace_back(first, length);
}

bool Network::reachable(const std::byte* first, std::uint64_t length) const {
  return std::none_of(unreachable_.begin(), unreachable_.end(), [&](const auto& hole) {
    return first < hole.data() + hole.size() && hole.data() < first + length;
  });
}

void Network::heal_all() {
  for (const auto& [ends, ways] : std::map(cuts_)) cut(ends.first, ends.second, false, false);
  rdma_.heal_all();
}

void Network::server_done(WireRequest& request) {
  if (request.server_done) return;
  request.server_done = true;
  if (tap != nullptr) tap->on_server_done(request);
}

}  // namespace simm::sim
