// GpuLease: memory of a GPU that this process lends to the daemon, which keeps copies of objects
// there meanwhile. An engine lends what it has freed when it goes to sleep, and reclaims it before
// it wakes. Thread: any.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "simm/expected.h"

namespace simm {

namespace detail {
class LeaseRecord;
}  // namespace detail

class GpuLease {
public:
  GpuLease() noexcept = default;  // of nothing
  GpuLease(GpuLease&&) noexcept;
  GpuLease& operator=(GpuLease&&) noexcept;
  ~GpuLease();  // reclaims it

  // Bytes that are lent; 0 when the lease is over: reclaimed, or the session with the daemon has
  // ended, which took the lease with it.
  [[nodiscard]] std::uint64_t bytes() const noexcept;

  // The memory is free again when this returns ok. Safe twice. ok also when the daemon is away: its
  // processes have let go of the memory by then. timeout: not within the notice; the lease is over
  // all the same, and its memory on its way back. It waits for nobody who uses the copies.
  Outcome reclaim();

private:
  friend class Client;
  explicit GpuLease(std::shared_ptr<detail::LeaseRecord> record) noexcept;
  std::shared_ptr<detail::LeaseRecord> record_;  // this lease's alone
};

}  // namespace simm
