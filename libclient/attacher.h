// Attacher: one attempt to get a session, as a state machine that never blocks: connect, hello,
// map, and then everything that the process had registered (ipc/ATTACH.md). Whoever needs the
// session calls step() again when fd() is readable, or in later calls of the program.
// Owned by Link. Thread: under Link's control mutex.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ipc/control_message.h"
#include "ipc/fd_socket.h"
#include "libclient/region_record.h"
#include "libclient/session.h"
#include "simm/expected.h"

namespace simm::detail {

// One thing to make known to a new daemon before the session is used. The message's request id is
// the attacher's to fill. `apply` gets the reply and may ask for one more request.
struct RestoreTask {
  ipc::ClientMessage message;
  // Null: of no region. A region that has gone meanwhile is not asked for.
  RegionRecord* region = nullptr;
  std::uint32_t region_generation = 0;
  int fd = -1;  // goes along; open as long as the region is there
  std::function<std::optional<RestoreTask>(const ipc::DaemonMessage&)> apply;
};

class Attacher {
public:
  struct Settings {
    std::string socket_path;
    ipc::Hello hello;
    std::uint32_t generation = 0;  // of the session to be
    std::uint32_t lanes_min = 2;   // fewer are of no use
    // How long the daemon may leave a connection in its queue and then take for the handshake.
    std::uint64_t answer_timeout_ns = 0;
    // Called once the session is open.
    std::function<std::deque<RestoreTask>(std::uint32_t generation)> restore;
  };
  enum class State : std::uint8_t {
    connecting,
    waiting_welcome,
    waiting_opened,
    restoring,
    done,
    failed
  };

  explicit Attacher(Settings settings) : settings_(std::move(settings)) {}

  // Goes on as far as possible without waiting. `now_ns`: monotonic.
  State step(std::uint64_t now_ns);
  [[nodiscard]] State state() const noexcept { return state_; }
  // The socket to poll for reading while the state is none of the last two.
  [[nodiscard]] int fd() const noexcept { return socket_.fd(); }
  // failed: why. Whether a daemon was there (and did not answer in time or refused), or none.
  [[nodiscard]] const Error& error() const noexcept { return error_; }
  [[nodiscard]] bool found_daemon() const noexcept { return found_daemon_; }
  // done: the session.
  [[nodiscard]] std::shared_ptr<Session> take() noexcept { return std::move(session_); }

private:
  State fail(Error error);
  State connect(std::uint64_t now_ns);
  State on_message(std::span<const std::byte> packet, ipc::Received& received);
  State on_welcome(const ipc::Welcome& welcome, ipc::Received& received);
  State on_opened();
  State on_reply(const ipc::DaemonMessage& message);
  State send_restores();
  // False after it went to `failed`.
  bool send(const ipc::ClientMessage& message, std::span<const int> fds = {});
  // Maps the session memory: the daemon's file, or an own one (kClientMemory) that goes into `file`
  // if it is invalid. False after it went to `failed`.
  bool map_memory(const ipc::Welcome& welcome, ipc::UniqueFd& file);

  Settings settings_;
  State state_ = State::connecting;
  Error error_;
  bool found_daemon_ = false;
  std::uint64_t give_up_ns_ = 0;
  ipc::FdSocket socket_;
  ipc::BellSocket bell_{-1};
  ipc::Mapping memory_;
  ipc::UniqueFd process_;
  ipc::DeathWatch death_watch_;
  ipc::Welcome welcome_;
  std::shared_ptr<Session> session_;
  std::deque<RestoreTask> waiting_;               // to be sent
  std::vector<std::optional<RestoreTask>> sent_;  // by request id - 1
  std::size_t unanswered_ = 0;
};

}  // namespace simm::detail
