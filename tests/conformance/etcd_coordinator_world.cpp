#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "daemon/base/real_clock.h"
#include "daemon/etcd/etcd_coordinator.h"
#include "tests/conformance/coordinator_world.h"
#include "tests/support/etcd_process.h"
#include "tests/support/eventually.h"

namespace etcd_coordinator_world {

// One etcd for all cases; each has a cluster of its own in it.
simm::test_support::EtcdProcess& etcd() {
  static simm::test_support::EtcdProcess process;
  return process;
}

class World final : public conformance::CoordinatorWorld {
public:
  World() {
    static int worlds = 0;
    cluster_ = "world" + std::to_string(++worlds);
  }

  simm::cluster::Coordinator& restart() override {
    coordinator_.reset();
    simm::etcd::EtcdConfig config;
    config.endpoints = {simm::http::HttpEndpoint::parse(etcd().endpoints()[0]).value()};
    // Here nothing is about time, and the machine may be busy.
    config.call_ns = 60 * simm::base::kNsPerSecond;
    const simm::etcd::ElectionTimes patient{120, simm::base::kNsPerSecond,
                                            simm::base::kNsPerSecond / 2};
    coordinator_ = std::make_unique<simm::etcd::EtcdCoordinator>(
        simm::etcd::EtcdGateway::make(config).value(), clock_, cluster_, "me at 127.0.0.1:1",
        patient);
    coordinator_->start([] {});
    REQUIRE(simm::test_support::eventually([this] { return coordinator_->leadership().leads; }));
    return *coordinator_;
  }
  void lose() override { (void)etcd().control("del /simm/" + cluster_ + "/state"); }

private:
  const simm::base::RealClock clock_;
  std::string cluster_;
  std::unique_ptr<simm::etcd::EtcdCoordinator> coordinator_;
};

const conformance::CoordinatorRegistration kRegistration("etcd",
                                                         [] { return std::make_unique<World>(); });

}  // namespace etcd_coordinator_world
