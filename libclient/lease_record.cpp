#include "libclient/lease_record.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string>
#include <utility>

#include "ipc/cuda/driver.h"
#include "ipc/cuda/gpu_name.h"
#include "libclient/core.h"
#include "libclient/last_error.h"
#include "libclient/line.h"
#include "libclient/no_cancel.h"
#include "simm/gpu_lease.h"

namespace simm::detail {

namespace {

Error refused(const ipc::LeaseReply& reply) {
  return {reply.status, "lend memory of a GPU: " + reply.reason};
}

}  // namespace

Expected<std::array<std::uint8_t, 16>> gpu_uuid_of(std::string_view gpu) {
  if (const auto uuid = ipc::parse_gpu_name(gpu)) return *uuid;
  int number = 0;
  const auto [end, failure] = std::from_chars(gpu.data(), gpu.data() + gpu.size(), number);
  if (failure != std::errc() || end != gpu.data() + gpu.size() || number < 0) {
    return Error{Status::invalid_argument,
                 "gpu = \"" + std::string(is_line(gpu) ? gpu.substr(0, 100) : "") +
                     "\": a number, as this process counts its GPUs, or GPU-... as nvidia-smi -L "
                     "names them"};
  }
  const cuda::Driver* const driver = cuda::Driver::find();
  if (driver == nullptr) {
    return Error{Status::unsupported, "gpu = " + std::string(gpu) +
                                          ": this process has loaded no driver of GPUs yet: do "
                                          "that first, or name the GPU as nvidia-smi -L does"};
  }
  cuda::Device device = 0;
  cuda::Uuid own{};
  if (driver->device_get(&device, number) != cuda::kSuccess ||
      driver->device_get_uuid(&own, device) != cuda::kSuccess) {
    return Error{Status::invalid_argument,
                 "gpu = " + std::string(gpu) + ": this process has no such GPU"};
  }
  std::array<std::uint8_t, 16> uuid{};
  std::copy(std::begin(own.bytes), std::end(own.bytes), uuid.begin());
  return uuid;
}

Expected<std::unique_ptr<LeaseRecord>> LeaseRecord::lend(std::shared_ptr<Core> core,
                                                         const Terms& terms) {
  Link& link = core->link();
  (void)link.ready_to_set_up();
  const std::shared_ptr<Session> session = link.session();
  if (session != nullptr && (session->welcome().extensions & ipc::kGpuLeases) == 0) {
    return Error{Status::unsupported, "lend memory of a GPU: the daemon, of version " +
                                          session->welcome().daemon_version +
                                          ", knows no leases: update it"};
  }
  std::uint32_t generation = 0;
  const Expected<ipc::DaemonMessage> message = link.request(
      ipc::GpuLend{0, terms.uuid, terms.bytes, terms.notice_ms}, {}, terms.answer_ms, generation);
  if (!message) return message.error();
  const auto& reply = std::get<ipc::LeaseReply>(*message);
  if (reply.status != Status::ok) return refused(reply);
  return std::unique_ptr<LeaseRecord>(
      new LeaseRecord(std::move(core), terms, generation, reply.lease));
}

LeaseRecord::~LeaseRecord() {
  const NoCancel no_cancel;
  (void)reclaim();
}

std::uint64_t LeaseRecord::bytes() const noexcept {
  const bool holds =
      !is_over_.load(std::memory_order_relaxed) && core_->link().generation() == generation_;
  return holds ? terms_.bytes : 0;
}

Outcome LeaseRecord::reclaim() {
  if (is_over_.exchange(true)) return Done{};
  // Another session is there, or none: the lease has ended with its own.
  if (core_->link().generation() != generation_) return Done{};
  std::uint32_t generation = 0;
  const Expected<ipc::DaemonMessage> message = core_->link().request(
      ipc::GpuReclaim{0, number_}, {}, terms_.notice_ms + terms_.answer_ms, generation);
  if (generation != generation_ || message.status() == Status::unreachable) return Done{};
  if (!message) return message.error();
  const auto& reply = std::get<ipc::LeaseReply>(*message);
  if (reply.status != Status::ok) return refused(reply);
  return Done{};
}

}  // namespace simm::detail

namespace simm {

GpuLease::GpuLease(std::shared_ptr<detail::LeaseRecord> record) noexcept
    : record_(std::move(record)) {}
GpuLease::GpuLease(GpuLease&&) noexcept = default;
GpuLease& GpuLease::operator=(GpuLease&&) noexcept = default;
GpuLease::~GpuLease() = default;

std::uint64_t GpuLease::bytes() const noexcept {
  return record_ == nullptr ? 0 : record_->bytes();
}

Outcome GpuLease::reclaim() {
  detail::forget_last_error();
  Outcome over = record_ == nullptr ? Done{} : record_->reclaim();
  if (!over) return detail::fail(std::move(over).error());
  return over;
}

}  // namespace simm
