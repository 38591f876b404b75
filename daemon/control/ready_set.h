// ReadySet: tells when any of many sockets can be read, for an owner of thousands. A socket costs a
// system call when it is added, and none later; a Readiness needs one each time that it waits. The
// sockets that are ready are read in rounds. With many sockets rounds are kRoundNs apart, so that a
// thread that sleeps wakes up for many messages and not for each. After kIdleRounds without any
// message it sleeps until there is one.
//
// The owner of a socket keeps it, and removes its reader before it closes the socket.
// Thread: control.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/control/deadline.h"
#include "daemon/control/readiness.h"
#include "ipc/fd.h"

namespace simm::control {

// Of one socket. May remove itself, and any other one, in its call.
class SocketReader {
public:
  virtual ~SocketReader() = default;
  // True: the socket may have more to read, which the next round does. False: a read found less
  // than it asked for.
  virtual bool on_readable() = 0;
};

class ReadySet {
public:
  static constexpr std::size_t kMany = 256;
  static constexpr base::TimeNs kRoundNs = 2 * base::kNsPerMs;
  static constexpr std::size_t kRoundEvents = 128;
  static constexpr std::uint32_t kIdleRounds = 64;

  // `after_round`: called when those that were ready have read.
  ReadySet(boost::asio::io_context& io, std::function<void()> after_round);
  ReadySet(const ReadySet&) = delete;
  ReadySet& operator=(const ReadySet&) = delete;

  // False: the socket can not be watched.
  bool add(int socket, SocketReader& reader);
  // Of a reader that was added, with its socket.
  void remove(int socket, const SocketReader& reader);
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

private:
  void wait();
  void pause();
  void round();
  void read(std::size_t index);

  const std::function<void()> after_round_;
  const ipc::UniqueFd epoll_;
  Readiness ready_;  // after the descriptor: stops before it closes
  bool is_watched_ = false;
  std::uint32_t idle_rounds_ = 0;  // without a message, one after the other
  Deadline pause_;
  std::size_t size_ = 0;
  struct Ready {
    SocketReader* reader = nullptr;  // null: it was removed
    bool has_ended = false;          // there is no further event after the last bytes
  };
  std::vector<Ready> now_;    // of the round that is under way
  std::vector<Ready> again_;  // of the next one
};

}  // namespace simm::control
