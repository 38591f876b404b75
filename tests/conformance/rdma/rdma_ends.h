// RdmaEnds: the two ends of a connection in an RdmaWorld, with memory and with all that their ports
// have reported. The serving end reads and writes the memory of the asking one.
// Thread: the test's.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "tests/conformance/rdma/rdma_world.h"

namespace rdma_conformance {

using simm::Status;
using namespace simm::transport;  // NOLINT(google-build-using-namespace): a header of tests

constexpr std::size_t kMemoryBytes = 4 << 20;

struct RdmaEnd {
  explicit RdmaEnd(RdmaDevice& at)
      : device(at),
        port(device.make_port(1024).value()),
        own(kMemoryBytes),
        open(kMemoryBytes),
        own_registration(
            device.register_memory({own.data(), own.size()}, RemoteAccess::none).value()),
        open_registration(
            device.register_memory({open.data(), open.size()}, RemoteAccess::read_write).value()) {}

  std::unique_ptr<QueuePair> make(bool is_requester) {
    QueuePairConfig config;
    config.sends_max = 64;
    config.receives_max = 64;
    config.is_requester = is_requester;
    auto made = port->make_queue_pair(config);
    REQUIRE_MESSAGE(made.has_value(), made.error().context);
    return std::move(made).value();
  }
  LocalPart part(std::size_t offset, std::size_t bytes) {
    return {own.data() + offset, static_cast<std::uint32_t>(bytes), own_registration->local_key};
  }
  [[nodiscard]] RemotePart remote(std::size_t offset = 0) const {
    return {open_registration->remote_address + offset, open_registration->remote_key};
  }
  Work work(std::uint64_t id, WorkKind kind, std::size_t bytes, const RemotePart& where = {},
            bool is_signaled = true) {
    return {id, kind, is_signaled, 1, {part(0, bytes), {}}, where};
  }
  // Appends what has ended.
  void poll() {
    Completion some[7];
    while (const std::size_t count = port->poll(some))
      ended.insert(ended.end(), some, some + count);
  }
  std::vector<Completion> take() { return std::exchange(ended, {}); }

  RdmaDevice& device;
  std::unique_ptr<RdmaPort> port;
  std::vector<std::byte> own;
  std::vector<std::byte> open;
  std::unique_ptr<Registration> own_registration;
  std::unique_ptr<Registration> open_registration;
  std::unique_ptr<QueuePair> queue_pair;
  std::vector<Completion> ended;
};

struct RdmaEnds {
  explicit RdmaEnds(const RdmaWorldKind& kind, const RdmaWorldOptions& options = {})
      : world(kind.make(options)), server(world->serving()), requester(world->asking()) {
    connect();
  }
  // With new queue pairs; the old ones are destroyed.
  void connect() {
    server.queue_pair = server.make(false);
    requester.queue_pair = requester.make(true);
    const auto there = server.queue_pair->connect(requester.queue_pair->address());
    REQUIRE_MESSAGE(there.has_value(), there.error().context);
    const auto here = requester.queue_pair->connect(server.queue_pair->address());
    REQUIRE_MESSAGE(here.has_value(), here.error().context);
  }
  void turn() {
    world->turn();
    server.poll();
    requester.poll();
  }
  void turns(int count) {
    for (int i = 0; i < count; ++i) turn();
  }
  // Turns until it is so; false: it never was.
  template <typename Predicate>
  bool turn_until(Predicate is_so) {
    for (int left = world->patience_turns(); left > 0 && !is_so(); --left) turn();
    return is_so();
  }
  // Until that many have been reported at that end, and a little longer: nothing comes after them.
  std::vector<Completion> reported(RdmaEnd& end, std::size_t count) {
    turn_until([&] { return end.ended.size() >= count; });
    turns(kLittleLonger);
    CHECK(end.ended.size() == count);
    return end.take();
  }

  static constexpr int kLittleLonger = 60;

  std::unique_ptr<RdmaWorld> world;
  RdmaEnd server;
  RdmaEnd requester;
};

}  // namespace rdma_conformance
