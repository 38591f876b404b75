#include "daemon/transport/rdma/device/verbs_device.h"

#include <endian.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "daemon/base/random.h"
#include "daemon/transport/rdma/device/verbs_kind.h"
#include "daemon/transport/rdma/device/verbs_library.h"
#include "daemon/transport/rdma/device/verbs_port.h"

namespace simm::transport {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr std::uint64_t kHugePageBytes = 2 << 20;

class VerbsRegistration final : public Registration {
public:
  explicit VerbsRegistration(VerbsHandle<ibv_mr> region) : region_(std::move(region)) {}

private:
  VerbsHandle<ibv_mr> region_;
};

Expected<VerbsHandle<ibv_context>> open_context(const std::string& name) {
  if (Outcome loaded = load_verbs_library(); !loaded) {
    return Error{loaded.error().status, name + ": " + loaded.error().context};
  }
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  if (devices == nullptr) {
    return verbs_error(Status::unreachable, name, "ibv_get_device_list", errno,
                       "this host has no RDMA, or the kernel module ib_uverbs is not loaded");
  }
  ibv_context* context = nullptr;
  int error = ENODEV;
  std::string names;
  for (int i = 0; i < count; ++i) {
    const std::string found = ibv_get_device_name(devices[i]);
    names += (names.empty() ? "" : ", ") + found;
    if (found != name) continue;
    context = ibv_open_device(devices[i]);
    error = errno;
  }
  ibv_free_device_list(devices);
  if (context != nullptr) return VerbsHandle<ibv_context>(context);
  if (error == ENODEV) {
    return Error{Status::unreachable, name + ": no such RDMA device; this host has: " +
                                          (names.empty() ? "none" : names)};
  }
  const bool is_denied = error == EACCES || error == EPERM;
  return verbs_error(is_denied ? Status::permission_denied : Status::io_error, name,
                     "ibv_open_device", error,
                     "the daemon needs to read and write /dev/infiniband/uverbs*");
}

std::uint16_t bytes_of(ibv_mtu mtu) {
  return static_cast<std::uint16_t>(128u << static_cast<unsigned>(mtu));
}

// One by one: libibverbs's call for all of them finds none where a device has room for too many.
std::vector<GidEntry> read_gids(ibv_context* context, std::uint32_t port, int places) {
  std::vector<GidEntry> gids;
  for (int index = 0; index < places; ++index) {
    ibv_gid_entry found{};
    const auto place = static_cast<std::uint32_t>(index);
    if (ibv_query_gid_ex(context, port, place, &found, 0) != 0) continue;
    GidEntry entry;
    std::copy_n(found.gid.raw, entry.gid.size(), entry.gid.begin());
    entry.index = index;
    if (found.gid_type == IBV_GID_TYPE_ROCE_V1) entry.kind = GidKind::roce_v1;
    if (found.gid_type == IBV_GID_TYPE_ROCE_V2) entry.kind = GidKind::roce_v2;
    gids.push_back(entry);
  }
  return gids;
}

std::vector<std::uint16_t> read_partitions(ibv_context* context, std::uint32_t port, int places) {
  std::vector<std::uint16_t> keys;
  for (int index = 0; index < places; ++index) {
    __be16 key = 0;
    const bool is_read = ibv_query_pkey(context, static_cast<std::uint8_t>(port), index, &key) == 0;
    keys.push_back(is_read ? be16toh(key) : std::uint16_t{0});
  }
  return keys;
}

std::string lock_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "unknown";
  if (limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return std::to_string(limit.rlim_cur) + " bytes";
}

}  // namespace

Expected<std::unique_ptr<VerbsDevice>> VerbsDevice::open(const RdmaDeviceConfig& config,
                                                         const QueuePairReaperReport& report) {
  auto context = open_context(config.device);
  if (!context) return std::move(context).error();
  std::unique_ptr<VerbsDevice> device(new VerbsDevice(config, std::move(context).value()));
  const int events = device->event_descriptor();
  if (::fcntl(events, F_SETFL, ::fcntl(events, F_GETFL) | O_NONBLOCK) != 0) {
    return system_error(config.device + ": fcntl of its event descriptor", errno);
  }
  device->info_.device = config.device;
  device->info_.port = config.port;
  if (auto read = device->read_limits(); !read) return std::move(read).error();
  if (auto read = device->refresh(); !read) return std::move(read).error();
  device->domain_.reset(ibv_alloc_pd(device->context()));
  if (!device->domain_) {
    return verbs_error(Status::io_error, config.device, "ibv_alloc_pd", errno,
                       "the device has no room for another user");
  }
  if (auto tried = device->try_queue_pair(); !tried) return std::move(tried).error();
  device->try_features();
  auto started = device->reaper_.start(config.device, report);
  if (!started) return std::move(started).error();
  return device;
}

Outcome VerbsDevice::refresh() {
  auto read = read_port();
  if (!read) return std::move(read).error();
  const std::lock_guard<std::mutex> lock(place_mutex_);
  place_ = *read;
  return Done{};
}

Expected<VerbsDevice::Place> VerbsDevice::read_port() const {
  ibv_port_attr port{};
  const bool is_number = config_.port >= 1 && config_.port <= 255;
  const int error = is_number
                        ? ibv_query_port(context(), static_cast<std::uint8_t>(config_.port), &port)
                        : EINVAL;
  if (error != 0) {
    return verbs_error(Status::invalid_argument, config_.device, "ibv_query_port", error,
                       "has it a port " + std::to_string(config_.port) + "?");
  }
  const std::string_view unusable =
      unusable_kind(context()->device->transport_type, port.link_layer);
  if (!unusable.empty()) {
    return Error{Status::unsupported, config_.device + ": " + std::string(unusable)};
  }
  if (port.state != IBV_PORT_ACTIVE) {
    return Error{Status::unreachable, config_.device + ": port " + std::to_string(config_.port) +
                                          " is " + ibv_port_state_str(port.state) +
                                          ": set its link up"};
  }
  Place place;
  QueuePairAddress& address = place.address;
  address.is_ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
  address.lid = address.is_ethernet ? std::uint16_t{0} : port.lid;
  address.mtu_bytes = bytes_of(port.active_mtu);
  if (config_.mtu_bytes != 0) address.mtu_bytes = std::min(config_.mtu_bytes, address.mtu_bytes);
  address.reads_in = info_.reads_max;
  const LinkLayer link = address.is_ethernet ? LinkLayer::ethernet : LinkLayer::infiniband;
  auto gid =
      choose_gid(read_gids(context(), config_.port, port.gid_tbl_len), link, config_.gid_index);
  if (!gid) {
    return Error{gid.error().status, config_.device + ": " + gid.error().context};
  }
  address.gid = gid->gid;
  place.gid_index = gid->index;
  place.needs_global_header = (port.flags & IBV_QPF_GRH_REQUIRED) != 0;
  auto partition = choose_partition(read_partitions(context(), config_.port, port.pkey_tbl_len),
                                    config_.partition_key, config_.partition_key_index);
  if (!partition) {
    return Error{partition.error().status, config_.device + ": " + partition.error().context};
  }
  place.partition = *partition;
  return place;
}

std::string VerbsDevice::caveat() const {
  if (place().partition.is_full()) return {};
  return "the port is a limited member of its partition: it reaches full members only; make it a "
         "full one in the subnet manager";
}

Outcome VerbsDevice::read_limits() {
  ibv_device_attr_ex limits{};
  if (const int error = ibv_query_device_ex(context(), nullptr, &limits); error != 0) {
    return verbs_error(Status::io_error, config_.device, "ibv_query_device_ex", error,
                       "its driver may be of another version than the kernel");
  }
  const ibv_device_attr& base = limits.orig_attr;
  info_.queue_pairs_max = static_cast<std::uint32_t>(std::max(base.max_qp, 0));
  info_.completions_max = static_cast<std::uint32_t>(std::max(base.max_cqe, 0));
  info_.reads_max = static_cast<std::uint8_t>(
      std::clamp(std::min(base.max_qp_rd_atom, base.max_qp_init_rd_atom), 0, 255));
  constexpr unsigned kWindows = IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  info_.features.memory_windows = (base.device_cap_flags & kWindows) != 0;
  constexpr std::uint32_t kWorks =
      IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
  info_.features.on_demand_paging =
      (limits.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0 &&
      (limits.odp_caps.per_transport_caps.rc_odp_caps & kWorks) == kWorks;
  return Done{};
}

// Before the pool is registered with a device that then connects to nobody.
Outcome VerbsDevice::try_queue_pair() {
  const VerbsHandle<ibv_cq> completions(ibv_create_cq(context(), 1, nullptr, nullptr, 0));
  if (!completions) {
    return verbs_error(Status::io_error, config_.device, "ibv_create_cq", errno,
                       "the device has no room for another user");
  }
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = completions.get();
  wanted.cap.max_send_wr = wanted.cap.max_recv_wr = 1;
  wanted.cap.max_send_sge = wanted.cap.max_recv_sge = 1;
  wanted.qp_type = IBV_QPT_RC;
  const VerbsHandle<ibv_qp> tried(ibv_create_qp(domain(), &wanted));
  if (tried) return Done{};
  const int error = errno;
  const bool is_unknown = error == EOPNOTSUPP || error == EINVAL || error == ENOSYS;
  return verbs_error(is_unknown ? Status::unsupported : Status::io_error, config_.device,
                     "ibv_create_qp", error,
                     is_unknown ? "the device makes no reliable connected queue pairs"
                                : "the device has no room for another user");
}

void VerbsDevice::try_features() {
  // A descriptor that is none: whoever looks at it could have taken a good one.
  errno = 0;
  const VerbsHandle<ibv_mr> none(
      ibv_reg_dmabuf_mr(domain(), 0, kPageBytes, 0, -1, IBV_ACCESS_LOCAL_WRITE));
  info_.features.dmabuf = errno == EBADF;
  void* const page =
      ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (config_.relaxed_ordering) {
    const VerbsHandle<ibv_mr> tried(
        ibv_reg_mr_iova2(domain(), page, kPageBytes, reinterpret_cast<std::uint64_t>(page),
                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING));
    info_.features.relaxed_ordering = tried != nullptr;
  }
  ::munmap(page, kPageBytes);
}

VerbsHandle<ibv_mr> VerbsDevice::try_register(const MemoryRange& range, std::uint64_t address,
                                              int access) {
  if (info_.features.relaxed_ordering) access |= IBV_ACCESS_RELAXED_ORDERING;
  ibv_mr* const region = range.dmabuf_descriptor >= 0
                             ? ibv_reg_dmabuf_mr(domain(), range.offset, range.bytes, address,
                                                 range.dmabuf_descriptor, access)
                             : ibv_reg_mr_iova2(domain(), range.base, range.bytes, address,
                                                static_cast<unsigned>(access));
  return VerbsHandle<ibv_mr>(region);
}

Expected<std::unique_ptr<Registration>> VerbsDevice::register_memory(const MemoryRange& range,
                                                                     RemoteAccess access) {
  const bool is_dmabuf = range.dmabuf_descriptor >= 0;
  if (range.bytes == 0 || is_dmabuf != (range.base == nullptr)) {
    return Error{Status::invalid_argument, config_.device + ": there is no memory to register"};
  }
  if (is_dmabuf && !info_.features.dmabuf) {
    return Error{Status::unsupported,
                 config_.device + ": the device or its driver takes no dma-buf"};
  }
  std::uint64_t address = reinterpret_cast<std::uint64_t>(range.base);
  int rights = IBV_ACCESS_LOCAL_WRITE;
  if (access == RemoteAccess::read_write) {
    constexpr std::uint64_t kPlaces = (std::uint64_t{1} << 47) / kHugePageBytes;
    const std::uint64_t place = is_dmabuf ? range.offset : address;
    rights |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    address =
        (1 + base::SystemRandom().below(kPlaces - 1)) * kHugePageBytes + place % kHugePageBytes;
  }
  VerbsHandle<ibv_mr> region = try_register(range, address, rights);
  int error = errno;
  bool is_on_demand = false;
  const bool may_page = config_.on_demand_paging && info_.features.on_demand_paging;
  if (!region && error == ENOMEM && !is_dmabuf && may_page) {
    region = try_register(range, address, rights | IBV_ACCESS_ON_DEMAND);
    is_on_demand = region != nullptr;
  }
  if (!region) return registration_error(range, error);
  const std::uint32_t local_key = region->lkey;
  const std::uint32_t remote_key = region->rkey;
  std::unique_ptr<Registration> made = std::make_unique<VerbsRegistration>(std::move(region));
  made->is_on_demand = is_on_demand;
  if (access == RemoteAccess::none) {
    made->local_key = local_key;
  } else {
    made->remote_key = remote_key;
    made->remote_address = address;
  }
  return made;
}

Error VerbsDevice::registration_error(const MemoryRange& range, int errno_value) const {
  Status status = Status::io_error;
  std::string remedy = "registering " + std::to_string(range.bytes) + " bytes";
  switch (errno_value) {
    case ENOMEM:
      status = Status::out_of_memory;
      remedy += ": the daemon may lock " + lock_limit() +
                " in memory (RLIMIT_MEMLOCK): raise LimitMEMLOCK= of its systemd unit; if that is "
                "high enough, the device has no more room: register fewer regions";
      if (info_.features.on_demand_paging && !config_.on_demand_paging) {
        remedy += "; or let the device page memory in, slowly, with rdma.on_demand_paging";
      }
      break;
    case EOPNOTSUPP:
      status = Status::unsupported;
      remedy += ": the device or the kernel can not do that";
      break;
    case EFAULT:
    case EINVAL:
    case EBADF:
      status = Status::invalid_argument;
      remedy += ": not all of it is memory that can be locked";
      break;
    default:
      break;
  }
  return verbs_error(status, config_.device,
                     range.dmabuf_descriptor >= 0 ? "ibv_reg_dmabuf_mr" : "ibv_reg_mr_iova2",
                     errno_value, remedy);
}

DeviceEvent VerbsDevice::take_event() noexcept {
  DeviceEvent worst = DeviceEvent::none;
  ibv_async_event event{};
  errno = 0;
  while (ibv_get_async_event(context(), &event) == 0) {
    worst = std::max(worst, device_event(event.event_type));
    // What is destroyed waits for that.
    ibv_ack_async_event(&event);
    errno = 0;
  }
  if (errno == EIO || errno == ENODEV) {
    // The kernel has taken the device from this process, and destroyed all that was on it.
    reaper_.on_device_gone();
    return DeviceEvent::gone;
  }
  // A driver that can not do that waits until the device is closed, and says nothing.
  return is_listed() ? worst : DeviceEvent::gone;
}

bool VerbsDevice::is_listed() const noexcept {
  int count = 0;
  ibv_device** const devices = ibv_get_device_list(&count);
  if (devices == nullptr) return false;
  const bool is_there = std::find(devices, devices + count, context()->device) != devices + count;
  ibv_free_device_list(devices);
  return is_there;
}

Expected<std::unique_ptr<RdmaPort>> VerbsDevice::make_port(std::uint32_t completions_max) {
  auto port = VerbsPort::make(*this, completions_max);
  if (!port) return std::move(port).error();
  return std::unique_ptr<RdmaPort>(std::move(port).value());
}

}  // namespace simm::transport
