// ChunkRegistrar: registers memory with NICs, a chunk of 1 GiB at a time, on threads of its own:
// pinning a GiB takes long, and a NIC may take longer. First what data agents asked for, then in
// the background what each range wants from the start, rail by rail, from its first byte on; of
// several ranges a chunk of each in turn.
//
// What it costs: bytes of clients' regions are charged to the pin budgets of session, tenant and
// daemon when they are mapped, for all NICs together, so nothing is charged here again. A rail has
// a bound of its own on registrations, of which NICs have a fixed number, and the kernel one on
// locked memory. Absent pages of a client are made present on demand only, and within its session's
// TouchBudget. What is refused is `failed`: said once, counted, and tried again when it is used
// after a while, never by itself.
//
// What a range had with one rail is deregistered in one go, and with several rails at the same
// time: by these threads before they register more, and by the thread that ends the range. So a
// terabyte on eight NICs goes as fast as on one.
//
// A rail may end and come back (rail_device.h): its cells are `absent` meanwhile.
//
// Owned by the composition root; outlives its ranges; the devices outlive it.
// Thread: made, started and stopped on control; add() and the ends of ranges on control/registrar;
// progress() any.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/error_log.h"
#include "daemon/base/log.h"
#include "daemon/transport/rdma/device/rail_counters.h"
#include "daemon/transport/rdma/device/rdma_device.h"
#include "daemon/transport/rdma/registration/rail_progress.h"
#include "daemon/transport/rdma/registration/registered_range.h"
#include "simm/expected.h"

namespace simm::transport {

// With one rail; as many as the regions and bytes of clients that a daemon maps by default need.
inline constexpr std::uint64_t kRegistrationsMax = 131'072;
inline constexpr base::TimeNs kRegistrationRetryNs = 5 * base::kNsPerSecond;
inline constexpr std::uint32_t kRegistrarThreadsMax = 4;

struct RegistrarConfig {
  std::uint32_t threads =
      std::clamp<std::uint32_t>(std::thread::hardware_concurrency(), 1, kRegistrarThreadsMax);
  std::uint64_t registrations_max = kRegistrationsMax;
  base::TimeNs retry_ns = kRegistrationRetryNs;
};

struct RegistrarEnvironment {
  const base::Clock& clock;
  base::ErrorLog& errors;
  base::Log& log;
  base::CounterSet& counters;
};

class ChunkRegistrar {
public:
  // 1 .. kRailsMax rails; their order is that of all RailSets and ChunkTables.
  ChunkRegistrar(const RegistrarConfig& config, const std::vector<RdmaDevice*>& rails,
                 const RegistrarEnvironment& environment);
  // No range is left.
  ~ChunkRegistrar();
  ChunkRegistrar(const ChunkRegistrar&) = delete;
  ChunkRegistrar& operator=(const ChunkRegistrar&) = delete;

  // Once. Fewer threads than configured when the system refuses one; out_of_memory when it has no
  // thread or descriptor at all.
  Outcome start();
  // Returns when what is under way has ended. Nothing is registered any more, ranges may still go.
  void stop() noexcept;

  [[nodiscard]] std::unique_ptr<RegisteredRange> add(const RangeSpec& spec);
  // The rail's device is about to be closed: deregisters all that it knows, and registers nothing
  // with it until open_rail(). Then what was wanted is again. No data agent reads keys of that rail
  // meanwhile. Thread: one for each rail.
  void close_rail(std::uint32_t rail);
  void open_rail(std::uint32_t rail);
  [[nodiscard]] std::vector<RailProgress> progress() const;
  [[nodiscard]] std::uint32_t rails() const noexcept {
    return static_cast<std::uint32_t>(rails_.size());
  }

private:
  friend class RegisteredRange;
  struct Rail {
    RdmaDevice* device = nullptr;
    bool is_open = true;
    std::uint32_t under_way = 0;  // of registrations
    std::uint64_t claimed = 0;    // registrations that there are, and that are being made
    RailProgress progress;
    RailCounters counters;
  };
  // One cell that a thread works on.
  struct Job {
    RegisteredRange* range = nullptr;
    std::uint32_t chunk = 0;
    std::uint32_t rail = 0;
    bool is_asked = false;  // else in the background
    bool has_room = true;   // the rail may have one registration more
  };
  using Made = Expected<std::unique_ptr<Registration>>;
  // What a range that ends had with one rail. Owned by who ends the range, until it is over.
  struct Farewell {
    std::vector<std::unique_ptr<Registration>> registrations;
    bool is_over = false;
  };

  void work();
  // Without the lock: what takes long. Null: put off until somebody asks.
  Made register_chunk(const Job& job);
  void report(const Job& job, const Error& why);
  void release(RegisteredRange& range);
  // Deregisters what was taken from `farewells_`. The lock is held before and after, not meanwhile.
  void say(Farewell& farewell, std::unique_lock<std::mutex>& lock);
  // All of a range's cells of that rail are absent; what it had there is moved to `gone`.
  void forget_rail(RegisteredRange& range, std::uint32_t rail,
                   std::vector<std::unique_ptr<Registration>>& gone);

  // Under the lock. take(): false when there is nothing to do until `look_at_ns`.
  bool take(Job& job, base::TimeNs& look_at_ns);
  bool take_asked(Job& job);
  bool take_background(Job& job);
  [[nodiscard]] Job job_of(RegisteredRange& range, std::uint64_t cell) const;
  void collect_wishes(RegisteredRange& range, base::TimeNs now_ns);
  bool is_wish_due(RegisteredRange& range, std::uint64_t cell, base::TimeNs now_ns);
  void begin(Job& job);
  void finish(const Job& job, Made made);
  void add_progress(std::uint32_t rail, const RegisteredRange::RailBytes& more, bool is_less);

  const RegistrarConfig config_;
  const base::Clock& clock_;
  base::ErrorLog& errors_;
  base::Log& log_;
  WorkBell bell_;
  mutable std::mutex mutex_;  // of all below but the threads
  std::condition_variable ended_;
  std::uint32_t closing_ = 0;  // rails whose registrations are being ended
  std::vector<Rail> rails_;
  std::vector<RegisteredRange*> ranges_;
  // Ranges with cells that agents have asked for, and with cells of the background that are left,
  // in turn: a large one does not keep the others waiting.
  std::deque<RegisteredRange*> asked_;
  std::deque<RegisteredRange*> background_;
  std::deque<Farewell*> farewells_;  // that no thread has taken yet
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace simm::transport
