// Network: the virtual network of a cluster. In some runs nodes reach servers over sockets, by the
// production transport over TCP (TcpNodeEnd, TcpServerEnd), in some of these also over the devices
// of an RdmaNetwork, by the one over RDMA. In the others they do so over paths,
// which the network owns and applies the Conditions to (SimRequester, SimResponder).
// Thread: the one simulated thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <tuple>

#include "tests/sim/conditions.h"
#include "tests/sim/dice.h"
#include "tests/sim/event_log.h"
#include "tests/sim/network_tap.h"
#include "tests/sim/path.h"
#include "tests/sim/rdma_network.h"
#include "tests/sim/report.h"
#include "tests/sim/request_book.h"
#include "tests/sim/server_end.h"
#include "tests/sim/socket_network.h"

namespace simm::sim {

class Network {
public:
  Network(EventLoop& loop, Dice dice, EventLog& log, Report& report)
      : loop_(loop), dice_(dice), log_(log), report_(report) {
    sockets_.watcher = &book_;
    rdma_.on_link_end = [this](std::uint64_t link) { book_.on_queue_pair_end(link); };
  }

  Conditions conditions;
  NetworkTap* tap = nullptr;
  // The devices of a dead node, of that incarnation, have gone.
  std::function<void(std::uint32_t)> on_devices_gone = [](std::uint32_t) {};
  // A server answers that, over a queue pair.
  std::function<void(const WireRequest&)> on_queue_pair_answer = [](const WireRequest&) {};
  // A server begins to move bytes of that, over a queue pair.
  std::function<void(const WireRequest&)> on_queue_pair_move = [](const WireRequest&) {};
  // A node, or who moves objects, has posted that.
  std::function<void(const WireRequest&)> on_posted = [](const WireRequest&) {};
  // It has been given to a socket to its last byte, and none of that has arrived yet.
  std::function<void(const WireRequest&)> on_sent = [](const WireRequest&) {};

  [[nodiscard]] EventLoop& loop() noexcept { return loop_; }
  [[nodiscard]] Dice& dice() noexcept { return dice_; }
  [[nodiscard]] EventLog& log() noexcept { return log_; }
  [[nodiscard]] Report& report() noexcept { return report_; }

  [[nodiscard]] SocketNetwork& sockets() noexcept { return sockets_; }
  [[nodiscard]] RdmaNetwork& rdma() noexcept { return rdma_; }
  // The devices of a node that lives; null: there are none.
  [[nodiscard]] RdmaNodePart* rdma_node(std::uint32_t node) const;
  void set_rdma_node(std::uint32_t node, RdmaNodePart* part);
  [[nodiscard]] RequestBook& book() noexcept { return book_; }

  // A server's shard can be reached from now on; null: it has gone.
  void listen(transport::Route route, ServerEnd* server);
  // Null: nobody listens there.
  [[nodiscard]] ServerEnd* listener(transport::Route route) const;
  void log_post(const WireRequest& wire);
  void log_reply(const WireRequest& wire, std::span<const transport::PageReply> pages);

  // The path to use now; null when there is none and none can be made. Makes one if it may.
  PathPtr path(std::uint32_t node, SimRequester& requester, transport::Route route);
  // The path that is there, whatever its state; null if none.
  [[nodiscard]] PathPtr current(std::uint32_t node, transport::Route route) const;
  // A path can be made, or would stay.
  [[nodiscard]] bool reaches(std::uint32_t node, std::uint32_t peer) const;
  // That server's process is stopped, or goes on: for reaches() only.
  void stopped(std::uint32_t peer, bool is_stopped);
  std::uint64_t next_serial() noexcept { return ++serial_; }

  // Delivers in order after a delay; never, if the path dies first.
  void to_server(const PathPtr& path, std::function<void()> deliver);
  void to_node(const PathPtr& path, std::function<void()> deliver);

  // reset() of the node: after a moment no byte moves any more, and every token is fenced.
  void fence(const PathPtr& path);
  // The path fails by itself. Both ends notice, each in its own time.
  void break_path(const PathPtr& path);
  void node_crashed(std::uint32_t node);
  // `silent`: no reset reaches the nodes; they find out by themselves, or after a long time.
  void server_crashed(std::uint32_t peer, bool silent);

  // Cuts or heals what runs between a node and a server, messages and moves, without a notice: in
  // one direction or both.
  void cut(std::uint32_t node, std::uint32_t peer, bool to_server, bool to_node);

  void break_some_path();
  // From now on no move can reach these bytes of a client: as when its memory has vanished.
  void fail_moves_at(const std::byte* first, std::uint64_t length);
  [[nodiscard]] bool reachable(const std::byte* first, std::uint64_t length) const;
  void heal_all();

  // The request can have no effect any more: tells the tap, once.
  void server_done(WireRequest& request);

private:
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::uint16_t>;  // node, peer, shard
  struct Connection {
    PathPtr current;
    base::TimeNs retry_ns = 0;  // no new path before
  };

  struct Cut {
    bool to_server = false;
    bool to_node = false;
  };

  RequestBook::Hooks book_hooks();
  void send(const PathPtr& path, base::TimeNs& next_ns, bool Path::*direction,
            std::function<void()> deliver);
  void arrive(const PathPtr& path, bool Path::*direction, std::function<void()> deliver);
  void die(const PathPtr& path);
  void close_at_node(const PathPtr& path);
  void close_at_server(const PathPtr& path);
  base::TimeNs notice_ns();

  EventLoop& loop_;
  Dice dice_;
  EventLog& log_;
  Report& report_;
  std::map<Key, Connection> connections_;
  std::map<std::pair<std::uint32_t, std::uint16_t>, ServerEnd*> listeners_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Cut> cuts_;  // node, peer
  std::set<std::uint32_t> stopped_;
  std::vector<std::span<const std::byte>> unreachable_;
  SocketNetwork sockets_{loop_, Dice(dice_.seed(), 10), conditions};
  RdmaNetwork rdma_{loop_, Dice(dice_.seed(), 11), conditions};
  std::map<std::uint32_t, RdmaNodePart*> rdma_nodes_;
  RequestBook book_{report_, book_hooks()};
  std::uint64_t path_ids_ = 0;
  std::uint64_t serial_ = 0;
};

}  // namespace simm::sim
