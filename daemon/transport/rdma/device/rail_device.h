// RailDevice: a port that this daemon uses, whether it can be opened now or not. Behind it is the
// device as long as that is there: opened when its link comes up, given up when it is reset or
// taken out, and opened anew when it is back.
//
// Its thread listens to the device, and looks at it every 2 s. A device that has gone ends like
// this: the control thread ends every queue pair on it (state `ending`), then its memory is
// deregistered, then its ports are taken from the data agents, then it is closed. What hangs in a
// sick device keeps this thread waiting, and nobody else.
// Owned by RdmaRails; outlives its ports and registrations. Thread: as RdmaDevice says.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/counters.h"
#include "daemon/base/log.h"
#include "daemon/transport/rdma/device/rail_port.h"
#include "daemon/transport/rdma/device/rdma_device.h"
#include "ipc/fd.h"

namespace simm::transport {

// Between two looks at a device, and between two attempts to open it.
inline constexpr std::uint64_t kRailLookMs = 2000;

struct RailDeviceSetup {
  std::string device;  // "mlx5_0"
  std::uint32_t port = 1;
  std::function<Expected<std::unique_ptr<RdmaDevice>>()> open;
  base::Log& log;
  base::Counter is_open;  // 1 or 0
  base::Counter lost;     // times that the device had gone
  std::chrono::milliseconds look{kRailLookMs};
};

// What others do when it changes; on its thread.
struct RailDeviceEvents {
  std::function<void()> changed;     // its state() has
  std::function<void()> close_keys;  // nobody uses memory by it: deregister all; returns then
  std::function<void()> open_keys;   // memory can be registered
};

class RailDevice final : public RdmaDevice {
public:
  explicit RailDevice(RailDeviceSetup setup);
  ~RailDevice() override;

  // Once, before start(). Errors: why it is not open; it may be later.
  Outcome open();
  // From here on it opens and ends by itself. Once, when it has its ports. Errors: out_of_memory
  // (no thread).
  Outcome start(RailDeviceEvents events);
  // Nothing opens or ends any more. Idempotent.
  void stop() noexcept;

  // Why it is not open; empty: it is.
  [[nodiscard]] std::string trouble() const;

  [[nodiscard]] const RdmaDeviceInfo& info() const noexcept override { return info_; }
  [[nodiscard]] QueuePairAddress address() const noexcept override;
  [[nodiscard]] std::string caveat() const override;
  Outcome refresh() override;
  [[nodiscard]] RailState state() const noexcept override {
    return state_.load(std::memory_order_acquire);
  }
  [[nodiscard]] Expected<std::shared_ptr<const void>> hold() const override;
  Expected<std::unique_ptr<Registration>> register_memory(const MemoryRange& range,
                                                          RemoteAccess access) override;
  Expected<std::unique_ptr<RdmaPort>> make_port(std::uint32_t completions_max) override;

private:
  friend class RailPort;
  // Whose copies are counted: who has one uses the device.
  using Uses = std::shared_ptr<const char>;
  struct Held {
    RdmaDevice* device = nullptr;
    Uses uses;
  };

  void work();
  // False: it is to stop.
  bool sleep(int descriptor, std::chrono::milliseconds most) noexcept;
  void look();
  void look_at_link();
  void begin_to_end(const std::string& why);
  // True: it has ended.
  [[nodiscard]] bool try_to_end();
  void set_state(RailState state, const std::string& trouble);
  void log_address(const char* what) const;
  // Of RailPort.
  void forget(RailPort& port) noexcept;
  [[nodiscard]] Error closed_error() const;
  [[nodiscard]] Held held() const;
  static Expected<std::unique_ptr<RdmaPort>> make_inner(std::uint32_t completions_max,
                                                        RdmaDevice& device);

  const RailDeviceSetup setup_;
  const RdmaDeviceInfo info_;
  base::Counter is_open_;
  base::Counter lost_;
  RailDeviceEvents events_;
  const ipc::UniqueFd stop_;  // an eventfd
  std::atomic<RailState> state_{RailState::waiting};
  std::thread thread_;

  mutable std::mutex mutex_;  // of these
  std::unique_ptr<RdmaDevice> device_;
  Uses links_;  // whose queue pairs are on it
  Uses calls_;  // calls into it, and its registrations
  std::vector<RailPort*> ports_;
  std::string trouble_ = "it was not opened yet";

  // The thread's, while the device ends.
  std::weak_ptr<const char> links_left_;
  std::weak_ptr<const char> calls_left_;
  bool are_keys_closed_ = false;
};

}  // namespace simm::transport
