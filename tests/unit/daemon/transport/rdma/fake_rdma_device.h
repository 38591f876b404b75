// FakeRdmaDevice: registers memory in a book, for tests of registering: it says what is registered,
// can be slow, can be stopped before it answers, and can fail. Thread: any.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/transport/rdma/device/rdma_device.h"

namespace fake_rdma {

using namespace simm;
using namespace simm::transport;

class FakeRdmaDevice final : public RdmaDevice {
public:
  struct Seen {
    MemoryRange range;
    RemoteAccess access = RemoteAccess::none;
  };

  explicit FakeRdmaDevice(const std::string& name, bool takes_dmabuf = true) {
    info_.device = name;
    info_.features.dmabuf = takes_dmabuf;
  }

  [[nodiscard]] const RdmaDeviceInfo& info() const noexcept override { return info_; }
  [[nodiscard]] QueuePairAddress address() const noexcept override { return {}; }
  Outcome refresh() override { return Done{}; }

  Expected<std::unique_ptr<Registration>> register_memory(const MemoryRange& range,
                                                          RemoteAccess access) override {
    const auto wait = std::chrono::microseconds(slow_us.load());
    if (wait.count() > 0) std::this_thread::sleep_for(wait);
    std::unique_lock<std::mutex> lock(mutex_);
    ++at_the_gate_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return is_open_; });
    --at_the_gate_;
    seen_.push_back({range, access});
    if (failure) {
      if (auto why = failure(range)) return std::move(*why);
    }
    if (range.dmabuf_descriptor >= 0 && !info_.features.dmabuf) {
      return Error{Status::unsupported, "this device takes no dma-buf"};
    }
    ++live_;
    const auto key = static_cast<std::uint32_t>(seen_.size());
    return std::unique_ptr<Registration>(new Book(*this, key, access));
  }
  Expected<std::unique_ptr<RdmaPort>> make_port(std::uint32_t) override {
    return Error{Status::unsupported, "it only registers"};
  }

  // Where the key's registration begins, as the other end names it.
  static std::uint64_t remote_address(std::uint32_t key) { return std::uint64_t{key} << 40; }

  // Closed: who registers waits inside until it is opened.
  void close_gate() { set_gate(false); }
  void open_gate() { set_gate(true); }
  void await_at_gate(std::size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    const bool are_there = changed_.wait_for(lock, std::chrono::seconds(30),
                                             [this, count] { return at_the_gate_ >= count; });
    if (!are_there) is_open_ = true;  // or the test could not end
    REQUIRE(are_there);
  }
  [[nodiscard]] std::vector<Seen> seen() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return seen_;
  }
  [[nodiscard]] std::size_t live() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return live_;
  }

  std::atomic<std::uint32_t> slow_us{0};
  // Set while nothing ends; called before each registration ends. Empty: it ends at once.
  std::function<void()> on_end;
  // Set while nobody registers; nothing: it works.
  std::function<std::unique_ptr<Error>(const MemoryRange&)> failure;

private:
  class Book final : public Registration {
  public:
    Book(FakeRdmaDevice& device, std::uint32_t key, RemoteAccess access) : device_(device) {
      local_key = key;
      remote_key = access == RemoteAccess::none ? 0 : key + 1'000'000;
      remote_address = FakeRdmaDevice::remote_address(key);
    }
    ~Book() override {
      if (device_.on_end) device_.on_end();
      const std::lock_guard<std::mutex> lock(device_.mutex_);
      --device_.live_;
    }

  private:
    FakeRdmaDevice& device_;
  };

  void set_gate(bool is_open) {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_open_ = is_open;
    changed_.notify_all();
  }

  RdmaDeviceInfo info_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = true;
  std::size_t at_the_gate_ = 0;
  std::size_t live_ = 0;
  std::vector<Seen> seen_;
};

}  // namespace fake_rdma
