// Client: a process's way to the node daemon: get, put, exists, remove, pin; one page or a batch of
// any length, synchronous or asynchronous.
//
//   auto client = simm::Client::connect();             // finds the daemon's socket by itself
//   auto region = client->allocate_region(64 << 20);   // memory that the daemon shares
//   auto put = client->put("key", simm::View(*region, 0, 4096));
//   auto got = client->get("key", simm::View(*region, 4096, 4096));
//
// However many Clients a process opens on one socket, it has one session with the daemon: they
// share its lanes, regions and namespaces. It ends with the last Client, Region and pending batch.
//
// Thread: any, concurrently, except destruction and move. A synchronous call borrows a lane for its
// time; when all are taken, further callers wait for one inside their deadline.
//
// Waiting is bounded: a call returns by its deadline plus the fence grace of 100 ms, whatever has
// died. When it has returned, nothing touches its pages any more. A daemon that is stopped but
// alive costs 100 ms more. The one exception is memory that can not be taken back from such a
// daemon: see StoppedDaemon.
//
// Daemon gone: calls in flight complete with `unreachable`, and so does every later call,
// within microseconds, until a daemon is there again. Calls then re-attach on their way (at most
// one try per 100 ms, no thread), register all regions and open all namespaces again.
//
// Cancellation: pthread_cancel() ends a thread after its call, never in the middle of one. The
// thread ends at its next cancellation point behind the call. Callbacks are part of the call.
//
// Fork: the child has no session (its copy is closed at fork, the parent is untouched); its first
// call attaches anew. Batches in flight at fork belong to the parent alone.
//
// No exception leaves a method, apart from what a callback throws. That leaves poll() or wait(),
// and the next of these calls the callbacks that were not called.
#pragma once

#include "simm/compiler.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "simm/batch.h"
#include "simm/expected.h"
#include "simm/gpu_lease.h"
#include "simm/key_follower.h"
#include "simm/region.h"

namespace simm {

namespace detail {
class CompletionQueue;
class PageList;
struct CAccess;
}  // namespace detail

// How a synchronous call waits for its completion.
enum class WaitMode : std::uint8_t {
  spin = 0,      // never sleeps: lowest latency, a core per waiting thread
  adaptive = 1,  // spins for about as long as it recently paid off, then sleeps
  event = 2,     // sleeps at once
};

struct ClientOptions {
  // Empty: $SIMM_SOCKET, else the first that exists of /run/simm/simm.sock,
  // $XDG_RUNTIME_DIR/simm/simm.sock and /tmp/simm-<uid>/simm.sock.
  std::string socket_path;
  std::string name;         // shown by `simmctl sessions`; empty: the program's name
  std::uint32_t lanes = 8;  // 2 to 64; the daemon may grant fewer
  std::uint32_t async_lanes =
      2;  // of these, for asynchronous batches; at least 1, fewer than lanes
  WaitMode wait = WaitMode::adaptive;
  std::string manager_address;  // "host:port": the daemon refuses when its own is another one
  // How long a call without a timeout of its own waits when nothing moves
  // (CallOptions::timeout_ms).
  std::uint32_t sync_timeout_ms = 1000;
  std::uint32_t async_timeout_ms = 3000;
  std::uint64_t floor_bytes_per_s = 400'000'000;  // 0: no allowance for the size of a batch
  std::uint32_t connect_timeout_ms = 5000;        // attach, and each control request
  std::uint64_t staging_bytes = 32ull << 20;      // per lane that has moved staged memory
  bool reattach = true;  // false: once the daemon has gone, calls stay `unreachable`
};
// lanes, async_lanes, wait, name and staging_bytes are the session's: the first Client of a process
// on a socket (and manager address) decides them. A further one is refused (invalid_argument) when
// it asks for another value of the first three or of staging_bytes, unless that is the default. Its
// name is not shown. The rest is each Client's own.

// Counters of the process's session, since it was first opened. A racing snapshot.
struct ClientStats {
  std::uint64_t submissions = 0;
  std::uint64_t pages = 0;
  std::uint64_t pages_ok = 0;
  std::uint64_t bytes_moved = 0;
  std::uint64_t bytes_staged = 0;        // copied by libclient
  std::uint64_t timeouts = 0;            // pages
  std::uint64_t unreachable = 0;         // pages
  std::uint64_t lane_waits = 0;          // calls that found every lane taken
  std::uint64_t attaches = 0;            // sessions opened, the first one included
  std::uint64_t taken_back = 0;          // slices taken back from a stopped daemon
  std::uint64_t bytes_made_present = 0;  // of views whose untouched memory libclient faulted in
};

class Client {
public:
  // unreachable: no daemon (the text names the socket and how to start one); incompatible: another
  // protocol version; permission_denied; invalid_argument: the field, its value and its range.
  static Expected<Client> connect(const ClientOptions& options = {});

  // Calls of a Client that was moved from answer invalid_state.
  Client(Client&& other) noexcept;
  Client& operator=(Client&& other) noexcept;
  // Waits for this Client's asynchronous batches, at most their deadlines plus the fence grace.
  // Where memory of a batch can not be taken back from a stopped daemon (StoppedDaemon), waits
  // until the daemon runs on or dies. Their callbacks are not called any more.
  ~Client();

  // ---- memory ----
  // Memory that the daemon shares: a sealed memory file. no_space, out_of_memory: a daemon's limit.
  Expected<Region> allocate_region(std::uint64_t bytes, const AllocateOptions& options = {});
  // Memory that exists. With `automatic`: adopted if the daemon has one tenant and can open its
  // mapping, else staged.
  // Memory of a GPU (cuMemCreate with POSIX descriptors, one allocation) becomes `gpu`, where the
  // daemon has gpu.enabled; else unsupported, with the remedy. A put of it waits until the GPU has
  // done what this process queued on any stream before. A get is complete when it returns: work
  // that is queued then sees its bytes.
  // The memory must outlive the region. It may be read-only:
  // a get into such memory is invalid_argument. While the daemon is away `automatic` is staged: the
  // daemon adopts the memory when it is back.
  Expected<Region> register_region(void* address, std::uint64_t bytes,
                                   const RegisterOptions& options = {});
  // A memory file (memfd, tmpfs, hugetlbfs) of the caller, who keeps `fd`. `address`: where the
  // caller has mapped [offset, offset + bytes) of it (MAP_SHARED, else invalid_argument); null:
  // libclient maps it.
  Expected<Region> register_fd(int fd, std::uint64_t offset, std::uint64_t bytes,
                               void* address = nullptr, const RegisterOptions& options = {});

  // Lends memory of a GPU on which this process has, or had, a region. The caller has freed it:
  // what is not free is not lent. `gpu`: "GPU-..." as nvidia-smi -L says, or a number as this
  // process counts them. bytes: 64 MiB at least. notice_ms: how long a reclaim may take, 1 to
  // 10,000. permission_denied: the daemon's configuration does not name the GPU for this tenant.
  // out_of_memory: so much is not free, or gpu.lend_bytes_max. unsupported: an older daemon, or
  // gpu.enabled is off. The lease ends with the session, and is not made again after a restart of
  // the daemon.
  Expected<GpuLease> lend_gpu(std::string_view gpu, std::uint64_t bytes,
                              std::uint32_t notice_ms = 1000);

  // name: 1 to 255 bytes, a line of text. The same name gives the same namespace; options are the
  // handle's own.
  Expected<Namespace> open_namespace(std::string_view name, const NamespaceOptions& options = {});
  // One whose keys are hashes of the values, so that a key has one value for ever. Then a copy on
  // this node does not become too old: reads are served without asking the owner. A put of a key
  // that is there leaves the old value and succeeds, with PutMode::replace too. All who use the
  // namespace should open it so, or their daemons say so (namespaces[].immutable). A daemon of an
  // older release takes the namespace for a mutable one.
  Expected<Namespace> open_immutable_namespace(std::string_view name,
                                               const NamespaceOptions& options = {});

  // What becomes of the keys of a namespace, by default the default one (simm/key_follower.h). Asks
  // nothing yet: KeyFollower::read() does.
  Expected<KeyFollower> follow_keys(const Namespace& name_space = {},
                                    const FollowOptions& options = {});

  // ---- one page ----
  // get and exists: not_found when the key is absent. put: no_space, unreachable, ...
  PageResult put(std::string_view key, const View& value, const CallOptions& options = {});
  PageResult get(std::string_view key, const View& target, const CallOptions& options = {});
  PageResult exists(std::string_view key, const CallOptions& options = {});
  Status remove(std::string_view key, const CallOptions& options = {});
  // Keeps the object, and those placed together with it, from eviction until unpin, removal or the
  // end of its daemon. no_space: the tenant's budget for pins is used up.
  Status pin(std::string_view key, const CallOptions& options = {});
  // ok also when it is not pinned.
  Status unpin(std::string_view key, const CallOptions& options = {});
  // A round trip through a lane that does nothing: is the daemon there, how far is it away?
  Status ping(const CallOptions& options = {});

  // ---- batches: lists of any length, results[i] answers items[i] ----
  // ok: carried out, each page has its own result: `timeout` where its owner did not answer in
  // time. Else why it was not, and each page that was not carried out has that status as its
  // result. results.size() must equal the list's length.
  Status put(std::span<const Item> items, std::span<PageResult> results,
             const CallOptions& options = {});
  Status get(std::span<const Item> items, std::span<PageResult> results,
             const CallOptions& options = {});
  Status exists(std::span<const std::string_view> keys, std::span<PageResult> results,
                const CallOptions& options = {});
  Status remove(std::span<const std::string_view> keys, std::span<PageResult> results,
                const CallOptions& options = {});
  Status pin(std::span<const std::string_view> keys, std::span<PageResult> results,
             const CallOptions& options = {});
  Status unpin(std::span<const std::string_view> keys, std::span<PageResult> results,
               const CallOptions& options = {});
  // The same with a report (simm/batch.h). incompatible: the report is of a newer header, and asks
  // for something that this library does not know.
  Status put(std::span<const Item> items, std::span<PageResult> results, const CallOptions& options,
             const CallReport& report);
  Status get(std::span<const Item> items, std::span<PageResult> results, const CallOptions& options,
             const CallReport& report);
  Status exists(std::span<const std::string_view> keys, std::span<PageResult> results,
                const CallOptions& options, const CallReport& report);
  Status remove(std::span<const std::string_view> keys, std::span<PageResult> results,
                const CallOptions& options, const CallReport& report);
  Status pin(std::span<const std::string_view> keys, std::span<PageResult> results,
             const CallOptions& options, const CallReport& report);
  Status unpin(std::span<const std::string_view> keys, std::span<PageResult> results,
               const CallOptions& options, const CallReport& report);

  // ---- asynchronous batches ----
  // The list, the keys in it, the memory and `results` must stay until the batch has completed.
  // With a callback it completes by a call of it, inside poll() or wait() of this Client; without
  // one, by drain(). A callback may start batches, poll, drain, and destroy the Client. Nothing
  // happens behind the caller's back: there is no thread. So a batch advances (further submissions
  // of a long list, staging copies) in calls of poll(), drain() and wait() only. Waits for nothing.
  // It copies bytes of staged regions itself, about 8 MiB a call, and faults in memory that is not
  // present. out_of_memory: kPendingBatchesMax of this Client are pending.
  using Callback = std::function<void(const Completed&)>;
  static constexpr std::size_t kPendingBatchesMax = 65'536;
  Expected<std::uint64_t> put_async(std::span<const Item> items, std::span<PageResult> results,
                                    const CallOptions& options = {}, Callback callback = {});
  Expected<std::uint64_t> get_async(std::span<const Item> items, std::span<PageResult> results,
                                    const CallOptions& options = {}, Callback callback = {});
  Expected<std::uint64_t> exists_async(std::span<const std::string_view> keys,
                                       std::span<PageResult> results,
                                       const CallOptions& options = {}, Callback callback = {});
  Expected<std::uint64_t> remove_async(std::span<const std::string_view> keys,
                                       std::span<PageResult> results,
                                       const CallOptions& options = {}, Callback callback = {});
  // The same with a report (CallReport); the callback may be empty.
  Expected<std::uint64_t> put_async(std::span<const Item> items, std::span<PageResult> results,
                                    const CallOptions& options, Callback callback,
                                    const CallReport& report);
  Expected<std::uint64_t> get_async(std::span<const Item> items, std::span<PageResult> results,
                                    const CallOptions& options, Callback callback,
                                    const CallReport& report);
  Expected<std::uint64_t> exists_async(std::span<const std::string_view> keys,
                                       std::span<PageResult> results, const CallOptions& options,
                                       Callback callback, const CallReport& report);
  Expected<std::uint64_t> remove_async(std::span<const std::string_view> keys,
                                       std::span<PageResult> results, const CallOptions& options,
                                       Callback callback, const CallReport& report);
  // Readable (poll, epoll, select) while poll() or drain() has something to do. To take note of a
  // daemon that has gone is something, too. The same descriptor for the
  // life of the Client, across re-attaches; never read it. -1 if it can not be made.
  [[nodiscard]] int completion_fd();
  // Advances this Client's batches and calls the callbacks of those that are done. Returns how
  // many.
  std::size_t poll();
  // Advances, and takes completed batches without callback: at most out.size(). Returns how many.
  std::size_t drain(std::span<Completed> out);
  // Sleeps until a batch is done, nothing is pending, or the time has passed. Calls the callbacks
  // of those that are done, as poll() does; those without one stay for drain(). Ends also when
  // pages were told of (CallReport::on_page), and when another thread has handed back a batch that
  // this thread has started, since it last started one or waited.
  void wait(std::uint32_t timeout_ms);
  // The same until at least so many are done: those that lie ready for drain(), callbacks that this
  // call has called, and batches of this thread that another one has handed back. Ends earlier when
  // no other is pending. Returns how many are done. Fewer of them wake nobody: the thread sleeps
  // on, also where completion_fd() is readable already. An answer of the daemon that arrives
  // meanwhile wakes the thread for the moment that it takes.
  std::size_t wait_at_least(std::size_t count, std::uint32_t timeout_ms);
  [[nodiscard]] std::size_t pending() const noexcept;  // batches not yet handed back
  // Advances. Has that pending batch completed? Its memory is free then; the batch itself is still
  // handed back by poll() or drain(). False for a ticket that is not pending.
  [[nodiscard]] bool has_completed(std::uint64_t ticket);
  // Ends a pending batch early; waits for nothing. Pages that are done keep their results. Pages
  // that the daemon does not have yet end as `cancelled`. So do those that it has, when it can not
  // reach their memory: exists, remove and staged regions; what it does for them may still happen.
  // A page of another region ends with the daemon's answer, at the latest by the batch's deadline.
  // The batch is handed back as always, once, and nothing touches its memory any more then. Its
  // status is `cancelled` when a page was cancelled. not_found: it has ended already.
  Status cancel(std::uint64_t ticket);

  // ---- about ----
  [[nodiscard]] bool attached() const noexcept;  // false: the daemon is away, or not yet back
  [[nodiscard]] const std::string& socket_path() const noexcept;
  [[nodiscard]] std::uint64_t max_value_bytes() const noexcept;  // the daemon's limit; 0 if away
  [[nodiscard]] ClientStats stats() const noexcept;

private:
  friend struct detail::CAccess;
  Client(std::shared_ptr<detail::Core> core, const ClientOptions& options);
  Status call(std::uint8_t opcode, const detail::PageList& pages, const CallOptions& options,
              std::span<char> error_text = {});
  Expected<std::uint64_t> start(std::uint8_t opcode, const detail::PageList& pages,
                                const CallOptions& options, Callback callback,
                                const CallReport& report);

  std::shared_ptr<detail::Core> core_;
  ClientOptions options_;
  std::unique_ptr<detail::CompletionQueue> queue_;
};

}  // namespace simm
