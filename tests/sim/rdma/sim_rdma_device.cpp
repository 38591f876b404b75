#include "tests/sim/rdma/sim_rdma_device.h"

#include <sys/mman.h>

#include <cerrno>
#include <iterator>
#include <limits>
#include <utility>

#include "simm/check.h"
#include "tests/sim/rdma/sim_queue_pair.h"
#include "tests/sim/rdma/sim_rdma_fabric.h"
#include "tests/sim/rdma/sim_rdma_port.h"

namespace simm::sim {
namespace {

constexpr std::uint64_t kPageBytes = 4096;

}  // namespace

SimRegistration::SimRegistration(SimRdmaDevice& at, std::byte* first,
                                 const transport::MemoryRange& what)
    : device(at), memory(first), range(what) {
  ++device.registrations_;
  device.registered_bytes_ += range.bytes;
}

SimRegistration::~SimRegistration() {
  device.by_local_key_.erase(local_key);
  device.by_remote_key_.erase(remote_key);
  device.registered_bytes_ -= range.bytes;
  --device.registrations_;
  if (range.dmabuf_descriptor >= 0) ::munmap(memory, range.bytes);
}

SimRdmaDevice::SimRdmaDevice(SimRdmaFabric& fabric, std::uint32_t index,
                             const SimDeviceConfig& config)
    : fabric_(fabric), config_(config) {
  SIMM_CHECK(index < 65536);
  address_.gid = {0,
                  0,
                  0,
                  0,
                  0,
                  0,
                  0,
                  0,
                  0,
                  0,
                  0xff,
                  0xff,
                  10,
                  0,
                  static_cast<std::uint8_t>(index >> 8),
                  static_cast<std::uint8_t>(index)};
  address_.lid = config.is_ethernet ? std::uint16_t{0} : static_cast<std::uint16_t>(index);
  address_.mtu_bytes = config.mtu_bytes;
  address_.reads_in = config.reads_max;
  address_.is_ethernet = config.is_ethernet;
  info_.device = config.name;
  info_.queue_pairs_max = config.queue_pairs_max;
  info_.completions_max = config.completions_max;
  info_.reads_max = config.reads_max;
  info_.features = config.features;
}

SimRdmaDevice::~SimRdmaDevice() {
  SIMM_CHECK(ports_ == 0);
  SIMM_CHECK(registrations_ == 0);
  fabric_.forget(*this);
}

Expected<std::unique_ptr<transport::Registration>> SimRdmaDevice::register_memory(
    const transport::MemoryRange& range, transport::RemoteAccess access) {
  const bool is_dmabuf = range.dmabuf_descriptor >= 0;
  if (range.bytes == 0 || is_dmabuf != (range.base == nullptr)) {
    return Error{Status::invalid_argument, config_.name + ": nothing to register"};
  }
  if (is_dmabuf && !config_.features.dmabuf) {
    return Error{Status::unsupported, config_.name + ": takes no dma-buf"};
  }
  if (range.bytes > config_.registered_bytes_max - registered_bytes_) {
    return Error{Status::out_of_memory, config_.name + ": raise registered_bytes_max"};
  }
  std::byte* memory = range.base;
  if (is_dmabuf) {
    void* const mapped = ::mmap(nullptr, range.bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                                range.dmabuf_descriptor, static_cast<off_t>(range.offset));
    if (mapped == MAP_FAILED) return system_error("mmap of a simulated dma-buf", errno);
    memory = static_cast<std::byte*>(mapped);
  }
  auto registration = std::make_unique<SimRegistration>(*this, memory, range);
  if (access == transport::RemoteAccess::none) {
    registration->local_key = new_key();
    by_local_key_[registration->local_key] = registration.get();
  } else {
    const std::uint64_t place = is_dmabuf ? range.offset : reinterpret_cast<std::uint64_t>(memory);
    registration->remote_key = new_key();
    registration->remote_address =
        fabric_.dice_.between(1, std::uint64_t{1} << 35) * kPageBytes + place % kPageBytes;
    by_remote_key_[registration->remote_key] = registration.get();
  }
  return std::unique_ptr<transport::Registration>(std::move(registration));
}

Expected<std::unique_ptr<transport::RdmaPort>> SimRdmaDevice::make_port(
    std::uint32_t completions_max) {
  if (completions_max == 0 || completions_max > config_.completions_max) {
    return Error{Status::out_of_memory, config_.name + ": has no such completion queue"};
  }
  return std::unique_ptr<transport::RdmaPort>(
      std::make_unique<SimRdmaPort>(*this, completions_max));
}

void SimRdmaDevice::fail_queue_pair(std::uint32_t number) {
  queue_pair(number).fail();
}

void SimRdmaDevice::fail_some_queue_pair() {
  if (queue_pairs_.empty()) return;
  const std::uint64_t which = fabric_.dice_.between(0, queue_pairs_.size() - 1);
  std::next(queue_pairs_.begin(), static_cast<std::ptrdiff_t>(which))->second->fail();
}

void SimRdmaDevice::fail_all_queue_pairs() {
  for (const auto& [number, queue_pair] : queue_pairs_) queue_pair->fail();
}

void SimRdmaDevice::refuse_posts(std::uint32_t number, std::size_t works) {
  queue_pair(number).posts_left_ = works;
}

void SimRdmaDevice::allow_posts(std::uint32_t number) {
  queue_pair(number).posts_left_ = std::numeric_limits<std::size_t>::max();
}

SimQueuePair& SimRdmaDevice::queue_pair(std::uint32_t number) {
  const auto found = queue_pairs_.find(number);
  SIMM_CHECK(found != queue_pairs_.end());
  return *found->second;
}

std::byte* SimRdmaDevice::local(const transport::LocalPart& part) const {
  const auto found = by_local_key_.find(part.key);
  SIMM_CHECK(found != by_local_key_.end());  // never registered, or not any more
  const SimRegistration& registration = *found->second;
  const std::uint64_t base = reinterpret_cast<std::uint64_t>(registration.range.base);
  const std::uint64_t at = reinterpret_cast<std::uint64_t>(part.at);
  SIMM_CHECK(at >= base);
  SIMM_CHECK(part.bytes <= registration.range.bytes);
  SIMM_CHECK(at - base <= registration.range.bytes - part.bytes);
  // SAFETY: the part is within the registration, by the checks above.
  return registration.memory + (at - base);
}

std::byte* SimRdmaDevice::remote(const transport::RemotePart& part, std::uint64_t bytes) const {
  const auto found = by_remote_key_.find(part.key);
  if (found == by_remote_key_.end()) return nullptr;
  const SimRegistration& registration = *found->second;
  if (part.address < registration.remote_address || bytes > registration.range.bytes) {
    return nullptr;
  }
  const std::uint64_t offset = part.address - registration.remote_address;
  if (offset > registration.range.bytes - bytes) return nullptr;
  // SAFETY: the range is within the registration, by the checks above.
  return registration.memory + offset;
}

std::uint32_t SimRdmaDevice::take_number() {
  if (used_numbers_.empty() || fabric_.dice_.percent(30)) return next_number_++;
  std::swap(used_numbers_[fabric_.dice_.between(0, used_numbers_.size() - 1)],
            used_numbers_.back());
  const std::uint32_t number = used_numbers_.back();
  used_numbers_.pop_back();
  return number;
}

std::uint32_t SimRdmaDevice::new_key() {
  for (;;) {
    const auto key = fabric_.dice_.between32(1, ~std::uint32_t{0});
    if (!by_local_key_.contains(key) && !by_remote_key_.contains(key)) return key;
  }
}

}  // namespace simm::sim
