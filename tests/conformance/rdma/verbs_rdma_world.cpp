#include <doctest/doctest.h>
#include <unistd.h>

#include <sstream>

#include "daemon/transport/rdma/device/verbs_device.h"
#include "tests/conformance/rdma/rdma_world.h"

namespace rdma_conformance {
namespace {

using simm::transport::RdmaDeviceConfig;
using simm::transport::VerbsDevice;

class VerbsRdmaWorld final : public RdmaWorld {
public:
  VerbsRdmaWorld(const std::string& serving, const std::string& asking,
                 const RdmaWorldOptions& options)
      : serving_(open(serving, options)), asking_(open(asking, options)) {}

  simm::transport::RdmaDevice& serving() override { return *serving_; }
  simm::transport::RdmaDevice& asking() override { return *asking_; }
  void turn() override { ::usleep(1000); }
  // An emulated machine, perhaps: 30 seconds and more.
  [[nodiscard]] int patience_turns() const override { return 30'000; }

private:
  static std::unique_ptr<VerbsDevice> open(const std::string& name,
                                           const RdmaWorldOptions& options) {
    RdmaDeviceConfig config;
    config.device = name;
    if (options.gives_up_soon) config.rnr_retry = 2;
    auto device = VerbsDevice::open(config);
    REQUIRE_MESSAGE(device.has_value(), device.error().context);
    return std::move(device).value();
  }

  std::unique_ptr<VerbsDevice> serving_;
  std::unique_ptr<VerbsDevice> asking_;
};

}  // namespace

RdmaWorldKind verbs_world(const std::string& names) {
  std::istringstream words(names);
  std::string serving;
  std::string asking;
  words >> serving >> asking;
  return {"verbs, " + serving + " and " + asking,
          [serving, asking](const RdmaWorldOptions& options) {
            return std::make_unique<VerbsRdmaWorld>(serving, asking, options);
          }};
}

}  // namespace rdma_conformance
