// SocketNetwork: the simulated TCP connections of a cluster, between SimSocketIos of nodes and of
// servers. Bytes arrive in order, later than they were sent; between connections there is no order.
// What a process that closed its socket, or died, had sent by then still arrives, all of it or the
// first part of it. Buffers are bounded: a sender waits for a receiver that does not read.
//
// Descriptors are numbers that no system has: a UniqueFd may own one, and its close() does nothing.
// Thread: the one simulated thread.
#pragma once

#include <map>
#include <span>
#include <utility>

#include "tests/sim/conditions.h"
#include "tests/sim/dice.h"
#include "tests/sim/forger.h"
#include "tests/sim/sim_connection.h"
#include "tests/sim/stream_watcher.h"

namespace simm::sim {

class SocketNetwork {
public:
  SocketNetwork(EventLoop& loop, Dice dice, const Conditions& conditions)
      : loop_(loop), dice_(dice), conditions_(conditions) {}
  SocketNetwork(const SocketNetwork&) = delete;
  SocketNetwork& operator=(const SocketNetwork&) = delete;

  StreamWatcher* watcher = nullptr;
  // Of each direction: what waits to be acknowledged, and what waits to be read.
  std::size_t send_buffer_bytes = 64 * 1024;
  std::size_t receive_buffer_bytes = 64 * 1024;
  // What the next processes that die have sent arrives, to its end, and so much later.
  base::TimeNs last_words_after_ns = 0;  // 0: as the dice say
  // Somebody on the way sends frames again that passed there (Conditions).
  bool has_forger = false;

  [[nodiscard]] EventLoop& loop() noexcept { return loop_; }
  [[nodiscard]] Dice& dice() noexcept { return dice_; }
  [[nodiscard]] const Conditions& conditions() const noexcept { return conditions_; }

  // A connection that has been made; its ends can be opened.
  ConnectionPtr connect(std::uint32_t node, SimSocketIo& node_io, std::uint32_t peer,
                        SimSocketIo& server_io);
  // What the process has not opened, or has closed itself, goes.
  void close(const ConnectionPtr& connection, std::size_t end);

  // The connection breaks by itself. Each end hears of it in its own time.
  void break_connection(const ConnectionPtr& connection);
  void break_some();
  // Between that node and that server, from now on and for all connections.
  void cut(std::uint32_t node, std::uint32_t peer, bool to_server, bool to_node);
  // `silent`: its machine has died with it, and nobody is told.
  void process_died(SimSocketIo& io, bool silent);

  // For SimSocketIo.
  struct Place {
    ConnectionPtr connection;
    std::size_t end = 0;
    [[nodiscard]] SocketEnd& own() const { return connection->ends[end]; }
    [[nodiscard]] SocketEnd& other() const { return connection->ends[1 - end]; }
  };
  // Null connection: there is none.
  [[nodiscard]] Place find(int descriptor) const;
  // A send would not have to wait.
  [[nodiscard]] bool has_room(const SocketEnd& end) const {
    return end.has_ended || end.taken - end.acknowledged < send_buffer_bytes;
  }
  // How many bytes the kernel takes now; -errno.
  std::int32_t send(const Place& place, std::span<const std::span<const std::byte>> parts);
  // How many bytes are there; 0: the end; -errno.
  std::int32_t receive(const Place& place, std::span<const std::span<std::byte>> parts);
  // The process reads and sends nothing any more.
  void shut_down(const Place& place);

private:
  struct Cut {
    bool to_server = false;
    bool to_node = false;
  };

  void fly(const ConnectionPtr& connection, std::size_t from, Segment segment,
           base::TimeNs delay_ns);
  [[nodiscard]] base::TimeNs draw_delay_ns();
  [[nodiscard]] base::TimeNs draw_notice_ns();
  void pump(const ConnectionPtr& connection, std::size_t from);
  // False: it waits.
  bool deliver(const ConnectionPtr& connection, std::size_t from, Segment& segment);
  void lose_tail(SocketEnd& end);
  void hold_back(const ConnectionPtr& connection, std::size_t from, base::TimeNs more_ns);
  [[nodiscard]] base::TimeNs draw_repeat_ns();
  void send_reset(const ConnectionPtr& connection, std::size_t from);
  void set_cut(SimConnection& connection, Cut cut);
  void forget_if_over(const ConnectionPtr& connection);

  EventLoop& loop_;
  Dice dice_;
  const Conditions& conditions_;
  std::map<std::uint64_t, ConnectionPtr> connections_;
  std::map<int, Place> places_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Cut> cuts_;  // node, peer
  Forger forger_;
  std::uint64_t last_id_ = 0;
};

}  // namespace simm::sim
