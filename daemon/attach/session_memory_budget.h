// SessionMemoryBudget: how much session memory that this daemon made may exist, by tenant and in
// all. Its pages count in the daemon's memory cgroup for as long as anybody keeps a descriptor or a
// mapping, and a client can do that after its session. So the bytes count until the kernel says
// that nobody has the file any more. The news is inotify's IN_DELETE_SELF. For a file without a
// name it comes when the last open file is gone, mappings and O_PATH descriptors included.
//
// A file that the kernel does not watch, because all watches are taken, counts for
// kUnwatchedKeptNs after its session; so does one whose news were lost.
// Owned by the composition root; outlives sessions. Thread: control.
#pragma once

#include <cstdint>
#include <map>

#include "daemon/attach/tenant_rules.h"
#include "daemon/base/clock.h"
#include "daemon/base/config.h"
#include "daemon/base/counters.h"
#include "daemon/control/asio.h"
#include "daemon/control/readiness.h"
#include "ipc/fd.h"
#include "simm/expected.h"

namespace simm::control {

// The whole daemon's bound, in those of a tenant.
inline constexpr std::uint64_t kSessionMemoryDaemonShare = 4;
// A tenant with no more than its bound divided by this is not refused for what others have.
inline constexpr std::uint64_t kSessionMemoryOwnPart = 16;
inline constexpr std::uint64_t kUnwatchedKeptNs = 600'000'000'000;

class SessionMemoryBudget {
public:
  struct Bounds {
    std::uint64_t tenant_bytes = 0;
    std::uint64_t daemon_bytes = 0;
    // What all sessions of a tenant on one socket need with session.lanes_default lanes, and as
    // many more as may be in their handshake. At most a quarter of the memory that the daemon may
    // use, and half of it for all tenants.
    static Bounds of(const base::Config& config, std::uint64_t usable_bytes) noexcept;
  };

  SessionMemoryBudget(boost::asio::io_context& io, const base::Clock& clock, Bounds bounds,
                      base::CounterSet& counters);
  ~SessionMemoryBudget();

  // May a session memory of `bytes` bytes be made? out_of_memory, with limit, value and remedy.
  Outcome admit(const Tenant& tenant, std::uint64_t bytes);
  // It was made. Before anybody else has the file. -1: it is being made.
  void add(const Tenant& tenant, std::uint64_t session_id, std::uint64_t bytes, int fd);
  // What was being made is there. Before anybody else has the file. Its session may have been over
  // for so long that it does not count any more.
  void watch(std::uint64_t session_id, int fd);
  // What was being made could not be made.
  void forget(std::uint64_t session_id);
  // The session is over, and this daemon lets go of its memory. Unknown sessions are ignored.
  void end(std::uint64_t session_id);

  [[nodiscard]] std::uint64_t bytes_of(const Tenant& tenant) const;
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

private:
  struct Entry {
    std::uint64_t tenant = 0;
    std::uint64_t bytes = 0;
    int watch = -1;
    bool is_over = false;       // the session is
    base::TimeNs until_ns = 0;  // without news: when it stops counting; 0: it does not
  };
  using Entries = std::map<std::uint64_t, Entry>;  // by session

  void listen();
  // Takes all the news that the kernel has.
  void read_news();
  void forget_unwatched();
  // The kernel had more news than it keeps: of sessions that are over, none may come any more.
  void on_news_lost();
  void erase(Entries::iterator entry);

  const base::Clock& clock_;
  const Bounds bounds_;
  base::Counter kept_;
  ipc::UniqueFd news_;  // inotify; invalid where the kernel gives none
  Readiness readable_;
  Entries entries_;
  std::map<int, std::uint64_t> sessions_by_watch_;
  std::map<std::uint64_t, std::uint64_t> bytes_by_tenant_;
  std::uint64_t bytes_ = 0;
};

}  // namespace simm::control
