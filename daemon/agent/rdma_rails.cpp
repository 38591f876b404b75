#include "daemon/agent/rdma_rails.h"

#include <algorithm>
#include <utility>

#include "daemon/transport/rdma/device/nic_choice.h"
#include "daemon/transport/rdma/device/verbs_device.h"
#include "ipc/range.h"

namespace simm {
namespace {

using transport::RailSet;

transport::RdmaDeviceConfig device_config(const base::Config& config, const transport::Nic& nic) {
  transport::RdmaDeviceConfig result;
  result.device = nic.device;
  result.port = nic.port;
  result.gid_index = config.rdma.gid_index;
  result.partition_key_index = static_cast<std::uint16_t>(config.rdma.partition_key_index);
  result.service_level = static_cast<std::uint8_t>(config.rdma.service_level);
  result.traffic_class = static_cast<std::uint8_t>(config.rdma.traffic_class);
  result.timeout = static_cast<std::uint8_t>(config.rdma.timeout);
  result.retry_count = static_cast<std::uint8_t>(config.rdma.retry_count);
  result.mtu_bytes = static_cast<std::uint16_t>(config.rdma.mtu_bytes);
  result.relaxed_ordering = config.rdma.relaxed_ordering;
  return result;
}

RailSet all_rails(std::size_t count) noexcept {
  return count == 0 ? 0 : ~RailSet{0} >> (32 - count);
}

}  // namespace

Expected<std::unique_ptr<RdmaRails>> RdmaRails::open(
    const base::Config& config, const transport::NicTable& nics,
    const transport::RegistrarEnvironment& environment) {
  if (config.rdma.mode == base::RdmaMode::off) return std::unique_ptr<RdmaRails>();
  const bool is_required = config.rdma.mode == base::RdmaMode::require;
  std::string trouble;
  for (const std::string& problem : transport::nic_problems(nics)) {
    if (is_required) return Error{Status::invalid_argument, "rdma.mode = require: " + problem};
    trouble = problem;
  }
  std::unique_ptr<RdmaRails> made(new RdmaRails());
  std::vector<std::size_t> rails;
  for (std::size_t i = 0; i < nics.nics().size(); ++i) {
    const transport::Nic& nic = nics.nics()[i];
    if (!nic.is_usable() || rails.size() == transport::kRailsMax) continue;
    const transport::RailCounters counters(environment.counters, rails.size());
    const transport::QueuePairReaperReport report{&environment.log, counters.ends_refused,
                                                  counters.ends_given_up};
    auto device = transport::VerbsDevice::open(device_config(config, nic), report);
    if (!device) {
      trouble = device.error().context;
      environment.log.warning("rdma", "a port is not used", {{"why", trouble}});
      continue;
    }
    environment.log.info("rdma", "port",
                         {{"device", (*device)->info().device},
                          {"port", (*device)->info().port},
                          {"gid", transport::gid_text((*device)->address().gid)},
                          {"mtu", (*device)->address().mtu_bytes}});
    made->devices_.push_back(std::move(*device));
    made->traits_.push_back({nic.speed_mbit_s, nic.numa_node});
    rails.push_back(i);
  }
  if (rails.empty()) {
    if (!is_required) return std::unique_ptr<RdmaRails>();
    return Error{Status::unsupported, "rdma.mode = require: no RDMA port can be used" +
                                          (trouble.empty() ? "" : ": " + trouble) +
                                          "; simmctl nics lists them, \"auto\" goes on without"};
  }
  made->registrar_ = std::make_unique<transport::ChunkRegistrar>(transport::RegistrarConfig{},
                                                                 made->devices(), environment);
  made->regions_ = std::make_unique<transport::RegionNics>(*made->registrar_, nics, rails);
  Outcome started = made->registrar_->start();
  if (!started) return std::move(started).error();
  return made;
}

RdmaRails::~RdmaRails() {
  pool_range_.reset();
  if (registrar_ != nullptr) registrar_->stop();
}

std::vector<transport::RdmaDevice*> RdmaRails::devices() const {
  std::vector<transport::RdmaDevice*> all;
  for (const auto& device : devices_) all.push_back(device.get());
  return all;
}

void RdmaRails::serve(std::span<std::byte> pool) {
  pool_ = pool;
  transport::RangeSpec spec;
  spec.memory.base = pool.data();
  spec.memory.bytes = pool.size();
  spec.background = all_rails(devices_.size());
  pool_range_ = registrar_->add(spec);
}

transport::KeysFound RdmaRails::pool_keys(std::size_t rail) const noexcept {
  if (pool_range_ == nullptr) return transport::KeysFound::later;
  return pool_range_->chunks().find_whole(static_cast<std::uint32_t>(rail));
}

std::unique_ptr<transport::RegisteredRange> RdmaRails::add_own(std::span<std::byte> memory) {
  transport::RangeSpec spec;
  spec.memory.base = memory.data();
  spec.memory.bytes = memory.size();
  spec.access = transport::RemoteAccess::read_write;
  spec.background = all_rails(devices_.size());
  return registrar_->add(spec);
}

std::size_t RdmaRails::local(
    std::uint16_t rail, std::byte* at, std::uint64_t bytes,
    std::span<transport::LocalPart, transport::Work::kPartsMax> parts) const noexcept {
  if (pool_range_ == nullptr || at < pool_.data()) return 0;
  const auto offset = static_cast<std::uint64_t>(at - pool_.data());
  if (!ipc::range_within(offset, bytes, pool_.size())) return 0;
  transport::KeyedSpan span;
  if (pool_range_->chunks().find(rail, offset, bytes, span) != transport::KeysFound::all) return 0;
  for (std::size_t i = 0; i < span.part_count; ++i) {
    const transport::KeyedPart& part = span.parts[i];
    parts[i] = {at, static_cast<std::uint32_t>(part.bytes), part.keys.local_key};
    at += part.bytes;
  }
  return span.part_count;
}

std::size_t RdmaRails::remote(
    std::uint16_t rail, const memory::Slice& slice,
    std::span<transport::wire::RemoteTarget, transport::wire::kTargetsOfPageMax> targets)
    const noexcept {
  transport::ChunkTable* const chunks =
      slice.region == nullptr ? nullptr : transport::chunks_of(*slice.region);
  if (chunks == nullptr) return 0;
  transport::KeyedSpan span;
  if (chunks->find(rail, slice.offset, slice.length, span) != transport::KeysFound::all) return 0;
  for (std::size_t i = 0; i < span.part_count; ++i) {
    const transport::KeyedPart& part = span.parts[i];
    targets[i] = {part.keys.remote_address, part.bytes, part.keys.remote_key, 0};
  }
  return span.part_count;
}

transport::KeysFound RdmaRails::look(std::uint16_t rail,
                                     const memory::Slice& slice) const noexcept {
  const transport::ChunkTable* const chunks =
      slice.region == nullptr ? nullptr : transport::chunks_of(*slice.region);
  if (chunks == nullptr) return transport::KeysFound::failed;
  return chunks->look(rail, slice.offset, slice.length);
}

}  // namespace simm
