// FakeRail: an RDMA port of a daemon on which queue pairs are made and connected, and nothing is
// moved: for tests of who is connected to whom. Its knobs may be turned at any time. Thread: any;
// a queue pair is its user's.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

#include "daemon/transport/rdma/device/rdma_device.h"

namespace fake_rail {

using namespace simm;
using namespace simm::transport;

struct Knobs {
  std::atomic<std::size_t> live{0};        // queue pairs
  std::atomic<std::uint32_t> made{0};      // since the beginning; the last one's number
  std::atomic<bool> takes_no_more{false};  // queue pairs are refused
  std::atomic<bool> refuses_to_connect{false};
  std::atomic<bool> is_down{false};
  std::atomic<RailState> state{RailState::open};
  std::atomic<DeviceEvent> event{DeviceEvent::none};
  std::atomic<std::uint8_t> network{0};   // of its address, from the next refresh() on
  std::atomic<bool> hangs{false};         // whoever connects waits until it does not
  std::atomic<std::uint32_t> waiting{0};  // ... so many
};

class FakeQueuePair final : public QueuePair {
public:
  FakeQueuePair(Knobs& knobs, QueuePairAddress address) : knobs_(knobs), address_(address) {
    address_.number = ++knobs.made;
    address_.first_packet = 1000 + address_.number;
    ++knobs.live;
  }
  ~FakeQueuePair() override { --knobs_.live; }

  [[nodiscard]] const QueuePairAddress& address() const noexcept override { return address_; }
  Outcome connect(const QueuePairAddress& other) override {
    ++knobs_.waiting;
    while (knobs_.hangs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    --knobs_.waiting;
    if (knobs_.refuses_to_connect) return Error{Status::io_error, "this port connects to nobody"};
    far = other;
    return Done{};
  }
  [[nodiscard]] std::uint32_t reads_max() const noexcept override { return 1; }
  [[nodiscard]] std::size_t post(std::span<const Work>) noexcept override { return 0; }
  [[nodiscard]] bool post_receive(std::uint64_t, const LocalPart&) noexcept override {
    return false;
  }
  void fail() noexcept override {}
  void destroy() noexcept override {}

  std::optional<QueuePairAddress> far;

private:
  Knobs& knobs_;
  QueuePairAddress address_;
};

class FakePort final : public RdmaPort {
public:
  FakePort(Knobs& knobs, const RdmaDevice& device) : knobs_(knobs), device_(device) {}
  Expected<std::unique_ptr<QueuePair>> make_queue_pair(const QueuePairConfig&) override {
    if (knobs_.takes_no_more) return Error{Status::out_of_memory, "this port is full"};
    return std::unique_ptr<QueuePair>(new FakeQueuePair(knobs_, device_.address()));
  }
  [[nodiscard]] std::size_t poll(std::span<Completion>) noexcept override { return 0; }
  [[nodiscard]] bool prepare_sleep() noexcept override { return true; }
  [[nodiscard]] int event_descriptor() const noexcept override { return -1; }

private:
  Knobs& knobs_;
  const RdmaDevice& device_;
};

class FakeRail : public RdmaDevice {
public:
  // With the IPv4 address 10.0.`network`.`host`.
  FakeRail(std::uint8_t network, std::uint8_t host, bool is_ethernet = true) {
    info_.device = "rail-" + std::to_string(network);
    knobs.network = network;
    address_.gid = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, network, host};
    address_.mtu_bytes = 1024;
    address_.reads_in = 16;
    address_.is_ethernet = is_ethernet;
  }
  [[nodiscard]] const RdmaDeviceInfo& info() const noexcept override { return info_; }
  [[nodiscard]] QueuePairAddress address() const noexcept override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return address_;
  }
  Outcome refresh() override {
    if (knobs.is_down) return Error{Status::unreachable, info_.device + ": its link is down"};
    const std::lock_guard<std::mutex> lock(mutex_);
    address_.gid[14] = knobs.network;
    return Done{};
  }
  [[nodiscard]] RailState state() const noexcept override { return knobs.state; }
  [[nodiscard]] DeviceEvent take_event() noexcept override {
    return knobs.event.exchange(DeviceEvent::none);
  }
  Expected<std::unique_ptr<Registration>> register_memory(const MemoryRange&,
                                                          RemoteAccess) override {
    struct Nothing final : Registration {};
    return std::unique_ptr<Registration>(new Nothing());
  }
  Expected<std::unique_ptr<RdmaPort>> make_port(std::uint32_t) override {
    return std::unique_ptr<RdmaPort>(new FakePort(knobs, *this));
  }

  Knobs knobs;

private:
  RdmaDeviceInfo info_;
  mutable std::mutex mutex_;
  QueuePairAddress address_;
};

}  // namespace fake_rail
