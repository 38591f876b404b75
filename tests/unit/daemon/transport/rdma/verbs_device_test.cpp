// What of libibverbs can be seen without a device; the rest: tests/conformance/rdma_port_test.cpp.
#include "daemon/transport/rdma/device/verbs_device.h"

#include <doctest/doctest.h>

#include "daemon/transport/rdma/device/verbs_work_status.h"

namespace verbs_device_test {

using namespace simm;
using namespace simm::transport;

TEST_CASE("verbs device: one that is missing is named, and what there is instead") {
  RdmaDeviceConfig config;
  config.device = "no_such_device_7";
  const auto device = VerbsDevice::open(config);
  REQUIRE_FALSE(device.has_value());
  CHECK(device.status() == Status::unreachable);
  const std::string& text = device.error().context;
  CAPTURE(text);
  CHECK(text.find("no_such_device_7") == 0);
  const bool tells_why = text.find("this host has: ") != std::string::npos ||
                         text.find("ib_uverbs is not loaded") != std::string::npos;
  CHECK(tells_why);
}

TEST_CASE("verbs device: an error names device, verb, reason and remedy") {
  const Error error =
      verbs_error(Status::out_of_memory, "mlx5_0", "ibv_create_cq", ENOMEM, "have fewer");
  CHECK(error.status == Status::out_of_memory);
  CHECK(error.context == "mlx5_0: ibv_create_cq: Cannot allocate memory: have fewer");
}

TEST_CASE("verbs device: how a work ended") {
  CHECK(work_status(IBV_WC_SUCCESS) == WorkStatus::ok);
  CHECK(work_status(IBV_WC_WR_FLUSH_ERR) == WorkStatus::flushed);
  CHECK(work_status(IBV_WC_REM_ACCESS_ERR) == WorkStatus::remote_access);
  CHECK(work_status(IBV_WC_RETRY_EXC_ERR) == WorkStatus::peer_lost);
  CHECK(work_status(IBV_WC_RNR_RETRY_EXC_ERR) == WorkStatus::receiver_full);
  CHECK(work_status(IBV_WC_REM_INV_REQ_ERR) == WorkStatus::remote_failure);
  CHECK(work_status(IBV_WC_REM_OP_ERR) == WorkStatus::remote_failure);
  CHECK(work_status(IBV_WC_LOC_PROT_ERR) == WorkStatus::local_failure);
  CHECK(work_status(IBV_WC_GENERAL_ERR) == WorkStatus::local_failure);
}

}  // namespace verbs_device_test
