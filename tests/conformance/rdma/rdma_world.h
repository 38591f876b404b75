// RdmaWorld: two devices that reach each other, of one implementation of the RDMA seam. Every scene
// of rdma_port_test.cpp plays in each of them.
// Thread: the test's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/transport/rdma/device/rdma_device.h"

namespace rdma_conformance {

struct RdmaWorldOptions {
  bool gives_up_soon = false;  // a message without a receive fails after some repeats
};

class RdmaWorld {
public:
  virtual ~RdmaWorld() = default;
  RdmaWorld(const RdmaWorld&) = delete;
  RdmaWorld& operator=(const RdmaWorld&) = delete;

  virtual simm::transport::RdmaDevice& serving() = 0;
  virtual simm::transport::RdmaDevice& asking() = 0;
  // A moment passes.
  virtual void turn() = 0;
  // Turns after which what has not happened does not happen.
  [[nodiscard]] virtual int patience_turns() const = 0;

protected:
  RdmaWorld() = default;
};

struct RdmaWorldKind {
  std::string name;
  std::function<std::unique_ptr<RdmaWorld>(const RdmaWorldOptions&)> make;
};

// Those that are played in: of real devices, where SIMM_RDMA_DEVICES="rxe0 rxe1" names two that
// reach each other; else simulated ones, of so many seeds.
std::vector<RdmaWorldKind> rdma_worlds(std::uint64_t seeds);

RdmaWorldKind sim_world(std::uint64_t seed);
// `names`: as above.
RdmaWorldKind verbs_world(const std::string& names);

}  // namespace rdma_conformance
