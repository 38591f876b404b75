// RdmaDevice: one port of an RDMA device, opened, with a protection domain: memory is registered
// here once, for all queue pairs of the daemon on that port. Seam: on libibverbs, and simulated.
// Owned by the composition root. Thread: any but data agents; it outlives its ports and
// registrations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "daemon/transport/rdma/device/rail_state.h"
#include "daemon/transport/rdma/device/rdma_port.h"
#include "simm/expected.h"

namespace simm::transport {

// Who may touch a registration besides this daemon.
enum class RemoteAccess : std::uint8_t {
  none = 0,  // the pool, message buffers: works of this end only
  // A client's region: the owners of objects READ from it and WRITE to it. Its addresses are drawn
  // by lot, at both ends of a device alike, so no LocalPart names it.
  read_write = 1,
};

// Memory to register. Of a dma-buf (dmabuf_descriptor >= 0), `base` is null and `offset` is where
// it begins in the dma-buf; `at` of a LocalPart counts from its first byte then.
struct MemoryRange {
  std::byte* base = nullptr;
  std::uint64_t bytes = 0;
  int dmabuf_descriptor = -1;
  std::uint64_t offset = 0;
};

// A registration (MR). Ends with the object, on a registrar thread; the caller has fenced all who
// use it.
class Registration {
public:
  virtual ~Registration() = default;
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;

  std::uint32_t local_key = 0;       // 0: remote access only; see RemoteAccess
  std::uint32_t remote_key = 0;      // 0: no remote access
  std::uint64_t remote_address = 0;  // of its first byte, as the other end names it; no pointer
  bool is_on_demand = false;         // not pinned: the device faults pages in (a reported fallback)

protected:
  Registration() = default;
};

// What a device can do, found by trying at its opening.
struct RdmaFeatures {
  bool dmabuf = false;
  bool relaxed_ordering = false;
  bool on_demand_paging = false;
  bool memory_windows = false;  // type 2
};

// What never changes of it.
struct RdmaDeviceInfo {
  std::string device;  // "mlx5_0"
  std::uint32_t port = 1;
  std::uint32_t queue_pairs_max = 0;
  std::uint32_t completions_max = 0;  // of one completion queue
  std::uint8_t reads_max = 0;
  RdmaFeatures features;

  [[nodiscard]] std::string name() const { return device + "/" + std::to_string(port); }
};

// What a device says by itself. changed: its link, or its addresses. gone: it was reset or taken
// out, and nothing works on it any more.
enum class DeviceEvent : std::uint8_t { none, changed, gone };

class RdmaDevice {
public:
  virtual ~RdmaDevice() = default;
  RdmaDevice(const RdmaDevice&) = delete;
  RdmaDevice& operator=(const RdmaDevice&) = delete;

  [[nodiscard]] virtual const RdmaDeviceInfo& info() const noexcept = 0;
  // What a queue pair of this port tells the other end, without what is its own; as of the last
  // refresh(). Queue pairs keep what it was when they were made.
  [[nodiscard]] virtual QueuePairAddress address() const noexcept = 0;
  // Reads the port's addresses and MTU anew: they change when its link goes down and comes back.
  // Before a queue pair is made. Errors: unreachable (its link is down), and those of opening it.
  virtual Outcome refresh() = 0;
  // What a person shall know of a port that works, as of the last refresh(); empty: nothing.
  [[nodiscard]] virtual std::string caveat() const { return {}; }
  // A device that can not go is always open.
  [[nodiscard]] virtual RailState state() const noexcept { return RailState::open; }
  // Before a queue pair is made, and until it is no more: so long the device is not closed. Null:
  // it never is. Errors: unreachable (it is not open, or is about to end).
  [[nodiscard]] virtual Expected<std::shared_ptr<const void>> hold() const {
    return std::shared_ptr<const void>();
  }
  // The worst that has happened since the last call; the descriptor is readable when there is some.
  // Less than 0: it has none. Thread: one.
  [[nodiscard]] virtual DeviceEvent take_event() noexcept { return DeviceEvent::none; }
  [[nodiscard]] virtual int event_descriptor() const noexcept { return -1; }

  // Errors: out_of_memory (RLIMIT_MEMLOCK, or the device has no more room), unsupported (a dma-buf
  // where the device takes none), invalid_argument, io_error; the text says what to do.
  virtual Expected<std::unique_ptr<Registration>> register_memory(const MemoryRange& range,
                                                                  RemoteAccess access) = 0;
  // A completion queue for queue pairs of at most `completions_max` works and receives together.
  virtual Expected<std::unique_ptr<RdmaPort>> make_port(std::uint32_t completions_max) = 0;

protected:
  RdmaDevice() = default;
};

}  // namespace simm::transport
