#include "daemon/agent/rdma_rails.h"

#include <algorithm>
#include <utility>

#include "daemon/transport/rdma/device/nic_choice.h"
#include "daemon/transport/rdma/device/verbs_device.h"
#include "daemon/transport/rdma/device/verbs_library.h"
#include "ipc/range.h"

namespace simm {
namespace {

using transport::RailSet;
using transport::RailState;

transport::RdmaDeviceConfig device_config(const base::Config& config, const transport::Nic& nic) {
  transport::RdmaDeviceConfig result;
  result.device = nic.device;
  result.port = nic.rail_port();
  result.gid_index = nic.gid_index.value_or(config.rdma.gid_index);
  result.partition_key =
      static_cast<std::uint16_t>(nic.partition_key.value_or(config.rdma.partition_key));
  result.partition_key_index = static_cast<std::uint16_t>(config.rdma.partition_key_index);
  result.service_level = static_cast<std::uint8_t>(config.rdma.service_level);
  result.traffic_class =
      static_cast<std::uint8_t>(nic.traffic_class.value_or(config.rdma.traffic_class));
  result.timeout = static_cast<std::uint8_t>(config.rdma.timeout);
  result.retry_count = static_cast<std::uint8_t>(config.rdma.retry_count);
  result.mtu_bytes = static_cast<std::uint16_t>(config.rdma.mtu_bytes);
  result.relaxed_ordering = config.rdma.relaxed_ordering;
  result.on_demand_paging = config.rdma.on_demand_paging;
  return result;
}

// The ports that become rails: all that are chosen, or of too many those that are up, first.
std::vector<std::size_t> chosen(const std::vector<transport::Nic>& nics) {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < nics.size(); ++i) {
    if (nics[i].is_chosen) all.push_back(i);
  }
  if (all.size() <= transport::kRailsMax) return all;
  std::stable_partition(all.begin(), all.end(),
                        [&nics](std::size_t i) { return nics[i].is_usable(); });
  all.resize(transport::kRailsMax);
  std::sort(all.begin(), all.end());
  return all;
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
  if (is_required) {
    // Where no port is known nobody else would say what is missing.
    Outcome loaded = transport::load_verbs_library();
    if (!loaded) {
      return Error{loaded.error().status, "rdma.mode = require: " + loaded.error().context};
    }
  }
  std::string trouble;
  for (const std::string& problem : transport::nic_problems(nics)) {
    if (is_required) return Error{Status::invalid_argument, "rdma.mode = require: " + problem};
    trouble = problem;
  }
  std::unique_ptr<RdmaRails> made(new RdmaRails());
  std::vector<transport::Nic> all = nics.nics();
  std::vector<std::size_t> rails;
  for (const std::size_t i : chosen(all)) {
    const std::size_t before = made->devices_.size();
    made->add(config, all[i], environment.log, environment.counters);
    if (made->devices_.size() > before) rails.push_back(i);
  }
  const auto is_open = [](const auto& device) { return device->state() == RailState::open; };
  const bool any_open = std::any_of(made->devices_.begin(), made->devices_.end(), is_open);
  if (is_required && !any_open) {
    for (const transport::RailProgress& rail : made->unusable_) trouble = rail.trouble;
    for (const auto& device : made->devices_) trouble = device->trouble();
    return Error{Status::unsupported, "rdma.mode = require: no RDMA port can be used" +
                                          (trouble.empty() ? "" : ": " + trouble) +
                                          "; simmctl nics lists them, \"auto\" goes on without"};
  }
  if (rails.empty()) return std::unique_ptr<RdmaRails>();
  made->registrar_ = std::make_unique<transport::ChunkRegistrar>(transport::RegistrarConfig{},
                                                                 made->devices(), environment);
  // A port that opens later is near to its memory as well.
  for (const std::size_t i : rails) all[i].state = transport::NicState::active;
  made->regions_ = std::make_unique<transport::RegionNics>(
      *made->registrar_, transport::NicTable(all, nics.gpus(), nics.nodes()), rails);
  for (std::uint32_t rail = 0; rail < made->devices_.size(); ++rail) {
    if (!is_open(made->devices_[rail])) made->registrar_->close_rail(rail);
  }
  Outcome started = made->registrar_->start();
  if (!started) return std::move(started).error();
  return made;
}

void RdmaRails::add(const base::Config& config, const transport::Nic& nic, base::Log& log,
                    base::CounterSet& counters) {
  const transport::RailCounters counted(counters, devices_.size());
  const transport::QueuePairReaperReport report{&log, counted.ends_refused, counted.ends_given_up};
  const transport::RdmaDeviceConfig wanted = device_config(config, nic);
  const auto open = [wanted, report]() -> Expected<std::unique_ptr<transport::RdmaDevice>> {
    auto opened = transport::VerbsDevice::open(wanted, report);
    if (!opened) return std::move(opened).error();
    return std::unique_ptr<transport::RdmaDevice>(std::move(*opened));
  };
  auto rail = std::make_unique<transport::RailDevice>(transport::RailDeviceSetup{
      wanted.device, wanted.port, open, log, counted.is_open, counted.lost});
  Outcome opened = rail->open();
  if (!opened && opened.error().status == Status::unsupported) {
    unusable_.push_back(
        {.name = rail->info().name(), .state = "unusable", .trouble = rail->trouble()});
    return;
  }
  // A link that is down has no speed yet: as fast as the others.
  std::uint64_t speed = nic.speed_mbit_s;
  for (const transport::RailTraits& other : traits_) {
    if (nic.state != transport::NicState::active) speed = std::max(speed, other.speed);
  }
  traits_.push_back({speed, nic.numa_node});
  devices_.push_back(std::move(rail));
}

Outcome RdmaRails::start(const std::function<void()>& changed) {
  for (std::uint32_t rail = 0; rail < devices_.size(); ++rail) {
    Outcome started =
        devices_[rail]->start({changed, [this, rail] { registrar_->close_rail(rail); },
                               [this, rail] { registrar_->open_rail(rail); }});
    if (!started) return started;
  }
  return Done{};
}

void RdmaRails::stop() noexcept {
  for (const auto& device : devices_) device->stop();
}

std::vector<transport::RailProgress> RdmaRails::progress() const {
  std::vector<transport::RailProgress> all = registrar_->progress();
  for (std::size_t rail = 0; rail < all.size(); ++rail) {
    all[rail].state = transport::rail_state_name(devices_[rail]->state());
    all[rail].trouble = devices_[rail]->trouble();
  }
  all.insert(all.end(), unusable_.begin(), unusable_.end());
  return all;
}

RdmaRails::~RdmaRails() {
  stop();
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
