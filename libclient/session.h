// Session: what one attach to the daemon gave: the mapped session memory, the attach socket (whose
// hang-up is the daemon's death), the bell and the limits. Shared by the lanes bound to it and gone
// with the last of them; closing the attach socket is what tells the daemon that it is over.
// Thread: any; the control socket's messages by ControlChannel under its mutex.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <utility>

#include "ipc/bell_socket.h"
#include "ipc/control_message.h"
#include "ipc/death_mark.h"
#include "ipc/fd.h"
#include "ipc/fd_socket.h"
#include "ipc/lane_memory.h"
#include "ipc/mapping.h"
#include "ipc/session_words.h"

namespace simm::detail {

class Session {
public:
  Session(std::uint32_t generation, ipc::FdSocket control, ipc::BellSocket bell,
          ipc::Mapping memory, ipc::Welcome welcome, ipc::UniqueFd process,
          ipc::DeathWatch death_watch)
      : generation_(generation),
        control_(std::move(control)),
        bell_(std::move(bell)),
        memory_(std::move(memory)),
        welcome_(std::move(welcome)),
        process_(std::move(process)),
        death_watch_(std::move(death_watch)),
        // SAFETY: check_welcome() proved that the mapping holds a header and its lanes.
        words_(reinterpret_cast<ipc::SessionHeader*>(memory_.data())) {}

  [[nodiscard]] std::uint32_t generation() const noexcept { return generation_; }
  [[nodiscard]] std::uint32_t lane_count() const noexcept { return welcome_.lane_count; }
  [[nodiscard]] const ipc::SessionLimits& limits() const noexcept { return welcome_.limits; }
  [[nodiscard]] const ipc::Welcome& welcome() const noexcept { return welcome_; }
  [[nodiscard]] ipc::LaneMemory lane(std::uint32_t index) const noexcept {
    return ipc::LaneMemory(ipc::lane_base(memory_.data(), index));
  }
  [[nodiscard]] ipc::ClientSessionWords& words() noexcept { return words_; }
  [[nodiscard]] const ipc::ClientSessionWords& words() const noexcept { return words_; }
  [[nodiscard]] const ipc::BellSocket& bell() const noexcept { return bell_; }
  [[nodiscard]] ipc::FdSocket& control() noexcept { return control_; }

  // After pushes: wakes the daemon if it sleeps. False when it has gone.
  bool ring() noexcept { return words_.ring_if_sleeping(bell_); }

  // Until there is a message or a hang-up to look for, at most so long.
  void wait_for_message(int timeout_ms) const noexcept;

  // Looks whether the daemon has hung up, or has died: then its death mark is there before the
  // kernel closes the socket. Waits up to `timeout_ms` for it.
  bool hung_up(int timeout_ms = 0) noexcept;

  // The daemon has published its last word, in shared memory, after its last operation. True also
  // where the process has closed our descriptors and their numbers are other files now.
  [[nodiscard]] bool closed_by_daemon() const noexcept;

  // After the hang-up: whether nothing of the daemon can touch this process's memory any more.
  // A daemon that lives closes a session only after the last operation, and says so in the state
  // word. Of a daemon that dies the threads end first. Then the kernel closes the socket, and the
  // devices later: queue pairs may still move bytes, so the end of the process is the fence.
  // Waits up to `timeout_ms` for it.
  [[nodiscard]] bool fenced(int timeout_ms = 0) const noexcept;
  // How long fenced() is waited for before the pages are taken back, counted from the first
  // hung_up() that was true.
  static constexpr std::uint64_t kFenceWaitNs = 100'000'000;
  [[nodiscard]] std::uint64_t hung_up_ns() const noexcept {
    return hung_up_ns_.load(std::memory_order_relaxed);
  }

  // Says that we are done with a daemon that does not answer: should it run on, it ends the
  // session.
  void shut_down() noexcept;

  // In a forked child: closes its copies of the descriptors, which the parent does not notice. The
  // memory is not the child's to unmap: dont_fork kept it away.
  void close_in_child() noexcept {
    control_.close();
    process_.reset();
    death_watch_.forget();
    bell_ = ipc::BellSocket(-1);
    memory_.forget();
  }

private:
  [[nodiscard]] bool socket_hung_up(int timeout_ms) noexcept;

  std::uint32_t generation_;
  ipc::FdSocket control_;
  ipc::BellSocket bell_;
  ipc::Mapping memory_;
  ipc::Welcome welcome_;
  ipc::UniqueFd process_;  // the daemon's pidfd, if the daemon gave it
  ipc::DeathWatch death_watch_;
  ipc::ClientSessionWords words_;
  std::atomic<std::uint64_t> hung_up_ns_{0};  // 0: not yet
};

}  // namespace simm::detail
