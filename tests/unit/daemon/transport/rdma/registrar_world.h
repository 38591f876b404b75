// A ChunkRegistrar on fake devices, for tests.
#pragma once

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/real_clock.h"
#include "daemon/transport/rdma/registration/chunk_registrar.h"
#include "fake_rdma_device.h"

namespace registrar_world {

using namespace simm;
using namespace simm::transport;
using fake_rdma::FakeRdmaDevice;

inline constexpr std::uint64_t kGiB = kRegisteredChunkBytes;

// What a thread does happens within this, however busy the machine is.
inline void until(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!holds()) {
    REQUIRE(std::chrono::steady_clock::now() < end);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// An address that nobody reads: registering is an entry in a book here.
inline std::byte* nowhere(std::uint64_t at) {
  return reinterpret_cast<std::byte*>(at);  // NOLINT: never dereferenced
}

struct World {
  explicit World(std::uint32_t threads = 1, std::size_t rails = 2,
                 base::TimeNs retry_ns = 3600 * base::kNsPerSecond,
                 std::uint64_t registrations_max = kRegistrationsMax)
      : errors(clock), log(clock, base::LogLevel::error) {
    std::vector<RdmaDevice*> devices;
    for (std::size_t i = 0; i < rails; ++i) {
      rdma.push_back(std::make_unique<FakeRdmaDevice>("fake_" + std::to_string(i), i == 0));
      devices.push_back(rdma.back().get());
    }
    const RegistrarConfig config{threads, registrations_max, retry_ns};
    registrar = std::make_unique<ChunkRegistrar>(
        config, devices, RegistrarEnvironment{clock, errors, log, counters});
  }

  void start() {
    const Outcome started = registrar->start();
    REQUIRE(started.has_value());
  }

  std::unique_ptr<RegisteredRange> add(std::uint64_t bytes, RailSet background,
                                       RemoteAccess access = RemoteAccess::none) {
    RangeSpec spec;
    spec.memory.base = nowhere(kBase);
    spec.memory.bytes = bytes;
    spec.access = access;
    spec.background = background;
    return registrar->add(spec);
  }

  // Asks until it is there; the registrar's work is under way meanwhile.
  static void await(RegisteredRange& range, std::uint32_t rail, std::uint64_t offset,
                    KeysFound wanted) {
    KeyedSpan span;
    until([&] { return range.chunks().find(rail, offset, 1, span) == wanted; });
  }

  // Not aligned to anything.
  static constexpr std::uint64_t kBase = (std::uint64_t{1} << 44) + 0x1230;

  base::RealClock clock;
  base::ErrorLog errors;
  base::Log log;
  base::CounterSet counters;
  std::vector<std::unique_ptr<FakeRdmaDevice>> rdma;
  std::unique_ptr<ChunkRegistrar> registrar;
};

}  // namespace registrar_world
