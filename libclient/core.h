// Core: everything libclient keeps for the process on one socket: the link to the daemon, the
// lanes, regions, namespaces and asynchronous batches. Clients, Regions and batches share it.
//
// A Core lives as long as the process. It counts its users: with the last one the session ends, and
// the next one attaches anew. CoreRegistry owns it.
// Thread: any. A data call takes no lock and allocates nothing, once its lane is bound.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "libclient/async_engines.h"
#include "libclient/fork_mutex.h"
#include "libclient/lane_driver.h"
#include "libclient/lane_pool.h"
#include "libclient/link.h"
#include "libclient/namespace_record.h"
#include "libclient/region_table.h"
#include "simm/client.h"
#include "simm/expected.h"

namespace simm::detail {

class Core {
public:
  Core(std::string socket_path, std::string manager_address);

  // A use of the core, open from now until the pointer and its copies are gone.
  static Expected<std::shared_ptr<Core>> open(Core& core, const ClientOptions& options);

  // ---- data ----
  // Fills in what the options say: flags, deadline, namespace. Not ok: the run is stopped with it.
  Status prepare(BatchRun& run, const CallOptions& options, std::uint32_t default_timeout_ms,
                 std::uint64_t floor_bytes_per_s) noexcept;
  // Carries a prepared run out and returns its outcome.
  Status carry_out(BatchRun& run, bool reattach) noexcept;
  [[nodiscard]] AsyncEngines& engines() noexcept { return engines_; }

  // ---- control ----
  static Expected<Region> add_region(const std::shared_ptr<Core>& core, RegionMemory memory);
  Outcome deregister(RegionRecord& record);
  Expected<Namespace> open_namespace(std::string_view name, const NamespaceKind& kind);

  [[nodiscard]] Link& link() noexcept { return link_; }
  [[nodiscard]] ClientStats stats() const noexcept;

  void before_fork() noexcept;
  void after_fork_parent() noexcept;
  void after_fork_child() noexcept;

private:
  Outcome acquire(const ClientOptions& options);
  void release() noexcept;
  std::deque<RestoreTask> restore(std::uint32_t generation);
  Outcome register_with_daemon(RegionRecord& record);
  // Under namespace_mutex_. Null: not open.
  NamespaceRecord* find_namespace(std::string_view name, const NamespaceKind& kind) noexcept;
  NamespaceRecord& keep_namespace(std::string_view name, const NamespaceKind& kind);
  bool bind(Lane& lane) noexcept;
  static bool name_space_known(const Lane& lane, const BatchRun& run) noexcept;
  void run_on(Lane& lane, BatchRun& run) noexcept;
  void await_staging(Lane& lane, BatchRun& run) noexcept;
  void end_overdue(Lane& lane, BatchRun& run, std::uint64_t now_ns) noexcept;
  void abandon(Lane& lane, BatchRun& run, Status reason) noexcept;

  Link link_;
  RegionTable regions_;
  LanePool pool_;
  StagingMaker staging_;
  LaneDriver driver_;
  AsyncEngines engines_;

  ForkMutex open_mutex_;  // fork() does not wait for it while Link::opening()
  std::atomic<std::uint32_t> users_{0};
  ClientOptions options_;  // the session's part of them: the first user's

  ForkMutex namespace_mutex_;
  std::deque<NamespaceRecord> namespaces_;  // never shrinks
};

}  // namespace simm::detail
