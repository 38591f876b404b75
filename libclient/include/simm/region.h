// Region: memory that batches read from and write to. It is made known to the daemon once; after
// that a page of a batch only names it (region, offset, length).
//
// How the daemon reaches the memory is the region's kind, and kind_reason() says in words why it is
// that one. A region belongs to the process's session with the daemon, so every Client of the
// process can use it. It survives the daemon: after a re-attach it is registered again by
// itself. A forked child may use it too: it attaches anew at its first call.
//
// Thread: any, concurrently. A Region object is a handle: copies name the same region, which is
// deregistered when deregister() is called or the last copy goes. Views outlive it harmlessly: they
// are then refused with invalid_state.
#pragma once

#include "simm/compiler.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "simm/expected.h"

namespace simm {

namespace detail {
class RegionRecord;
class Core;
}  // namespace detail

enum class RegionKind : std::uint8_t {
  automatic = 0,  // a wish only: the best that works
  shared = 1,     // a memory file that both processes map: no copy
  adopted = 2,    // a shared mapping that existed already, opened by the daemon: no copy
  staged = 3,     // private memory: libclient copies through a shared staging region, one more copy
  foreign = 4,    // private memory that the daemon's helper reads and writes; where configured
  gpu = 5,        // memory of a GPU that the daemon's helper reads and writes; where configured
};
// "shared", "adopted", ... Never null, static storage.
const char* region_kind_name(RegionKind kind) noexcept;

// A daemon may be alive but not run: stopped by a signal, a debugger, a frozen cgroup. This is what
// a get or put does then, when its deadline and the fence grace have passed. Until
// then the daemon might go on and still write into the caller's pages. Staged regions never have
// the problem: the staging memory is given up and the caller's pages were never within reach.
enum class StoppedDaemon : std::uint8_t {
  // Takes the pages of the operation back: private memory that the daemon can not reach replaces
  // their mapping in this process, at the same address and with the same content. The call then
  // returns `timeout`, and the region becomes staged. Where that is impossible (adopted memory
  // whose file can not be opened, no huge pages left): as `wait`.
  take_back = 0,
  // Does not return before the daemon runs on or has died. For memory whose physical pages are also
  // used by a device (registered with a GPU driver), which would not notice an exchange.
  wait = 1,
};

struct AllocateOptions {
  std::string name = "simm";  // shown in /proc/<pid>/maps and by `simmctl regions`
  bool huge_pages = false;    // wanted; falls back to normal pages when there are not enough
  int numa_node = -1;         // bind to this node; -1: where the threads that touch it run
  bool prefault = true;       // touch every page now, in parallel
  StoppedDaemon stopped_daemon = StoppedDaemon::take_back;
};

struct RegisterOptions {
  RegionKind kind = RegionKind::automatic;  // or insist on one
  bool allow_foreign = false;               // automatic: try foreign before staged
  StoppedDaemon stopped_daemon = StoppedDaemon::take_back;
};

class Region {
public:
  Region() noexcept = default;  // names nothing: data() null, size() 0

  [[nodiscard]] std::byte* data() const noexcept;
  [[nodiscard]] std::uint64_t size() const noexcept;  // bytes
  // As it is now: a daemon that could not take it up again after a restart makes it staged (one
  // with several tenants, which seals memory files).
  [[nodiscard]] RegionKind kind() const noexcept;
  [[nodiscard]] std::string kind_reason() const;  // one sentence
  [[nodiscard]] bool huge_pages() const noexcept;
  [[nodiscard]] bool valid() const noexcept;  // registered and not deregistered

  // Refuses new operations on the region and waits until its own operations in flight are
  // completed: at most their deadline plus the fence grace; see StoppedDaemon for the exception.
  // Then makes the daemon forget it, within connect_timeout_ms, after which the session is given
  // up. Memory that libclient allocated is unmapped with the last handle, so data() stays readable
  // until then. Safe twice and from several threads. ok also when the daemon is away: it has
  // forgotten it then.
  Outcome deregister();

private:
  friend class detail::Core;
  friend class View;
  Region(std::shared_ptr<detail::RegionRecord> record, std::uint32_t generation) noexcept
      : record_(std::move(record)), generation_(generation) {}
  std::shared_ptr<detail::RegionRecord> record_;
  std::uint32_t generation_ = 0;  // a record is used again for another region after its end
};

}  // namespace simm
