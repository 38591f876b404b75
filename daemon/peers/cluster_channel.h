// ClusterChannel: messages to and from one authenticated daemon, in sealed frames. Order is kept;
// what is still queued when the connection breaks is lost, and nobody is told which: whoever needs
// an answer asks again on the next channel. The queue is bounded; a peer that does not read is the
// caller's to drop.
// Owned by whoever talks; may be destroyed at any time, also in its own callbacks. Thread: control.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/cluster/hello/frame_opener.h"
#include "daemon/cluster/hello/frame_sealer.h"
#include "daemon/control/deadline.h"
#include "daemon/control/readiness.h"
#include "daemon/control/ready_set.h"
#include "daemon/peers/cluster_access.h"
#include "daemon/peers/tcp_socket.h"

namespace simm::control {

inline constexpr std::size_t kChannelQueueBytesMax = 4u << 20;

class ClusterChannel;

class ClusterChannelEvents {
public:
  virtual ~ClusterChannelEvents() = default;
  virtual void on_message(ClusterChannel& channel, std::span<const std::byte> payload) = 0;
  // Once: the peer hung up, the connection broke, or what came was no frame of this connection
  // (corrupt). Nothing is called any more after it.
  virtual void on_closed(ClusterChannel& channel, const Error& cause) = 0;
};

class ClusterChannel final : private SocketReader {
public:
  // A socket whose hello is over. `number`: by which its owner finds it. `readers`: of an owner of
  // many channels, which are read with them; it outlives the channel.
  ClusterChannel(ClusterAccess& access, ipc::UniqueFd socket, const cluster::HelloResult& hello,
                 ClusterChannelEvents& events, std::uint64_t number = 0,
                 ReadySet* readers = nullptr);
  ~ClusterChannel() override { stop_watching(); }
  ClusterChannel(const ClusterChannel&) = delete;
  ClusterChannel& operator=(const ClusterChannel&) = delete;

  // invalid_argument: empty, or larger than a frame holds. no_space: the queue is full, the message
  // is not in it. invalid_state: closed. No callback comes from in here.
  Status send(std::span<const std::byte> payload);

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] const cluster::HelloPeer& peer() const noexcept { return hello_.peer; }
  [[nodiscard]] std::uint16_t version() const noexcept { return hello_.version; }
  [[nodiscard]] std::uint64_t features() const noexcept { return hello_.features; }
  [[nodiscard]] std::size_t queued_bytes() const noexcept { return queued_bytes_; }

private:
  // `over`: this channel is closed or gone.
  enum class Taken : std::uint8_t { part, messages, over };

  // SocketReader.
  bool on_readable() override { return read(); }

  [[nodiscard]] bool watch();
  void stop_watching();
  void read_when_readable();
  // Whether there may be more; not when the channel is closed or gone.
  bool read();
  // What one read brought: a part of a message, or messages and a part.
  Taken take_bytes(std::span<const std::byte> bytes);
  void write();
  void write_when_writable();
  void break_with(Error cause);

  ClusterAccess& access_;
  const cluster::HelloResult hello_;
  ClusterChannelEvents& events_;
  const std::uint64_t number_;
  ipc::UniqueFd socket_;
  ReadySet* const readers_;  // null: it is read by itself
  bool is_in_readers_ = false;
  Readiness ready_;  // after the socket: stops before it closes
  Deadline soon_;
  cluster::FrameSealer sealer_;
  cluster::FrameOpener opener_;
  std::deque<std::vector<std::byte>> queue_;
  std::size_t first_sent_bytes_ = 0;  // of the first frame in the queue
  std::size_t queued_bytes_ = 0;
  bool writing_ = false;  // waits for the socket to take more
  bool broken_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace simm::control
