#include "daemon/tools/simm-bench/emulated_network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "daemon/tools/simm-bench/network_guest.h"
#include "daemon/tools/simm-bench/packet_carrier.h"

namespace simm::bench {
namespace {

constexpr std::uint32_t kFirstAddress = (10u << 24) | (78u << 16) | 1u;  // 10.78.0.1
constexpr int kQueuedPackets = 10'000;  // of a device, until we read: no packet is lost there

template <typename Request>
bool control(int fd, unsigned long name, Request& request) {
  return ioctl(fd, name, &request) == 0;
}

sockaddr ipv4(std::uint32_t host_order) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(host_order);
  sockaddr generic{};
  static_assert(sizeof generic == sizeof address);
  std::memcpy(&generic, &address, sizeof generic);
  return generic;
}

ifreq named(const char* device) {
  ifreq request{};
  std::strncpy(request.ifr_name, device, sizeof request.ifr_name - 1);
  return request;
}

bool bring_up(int socket, const char* device) {
  ifreq request = named(device);
  if (!control(socket, SIOCGIFFLAGS, request)) return false;
  request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP | IFF_RUNNING);
  return control(socket, SIOCSIFFLAGS, request);
}

// The TUN device of a host, in the namespace that this thread is in.
Expected<ipc::UniqueFd> make_device(std::size_t host, std::uint32_t mtu_bytes) {
  constexpr const char* kTun = "/dev/net/tun";
  ipc::UniqueFd device(open(kTun, O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (!device) return system_error(kTun, errno);
  const ipc::UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request = named("tun0");
  request.ifr_flags = IFF_TUN | IFF_NO_PI;
  bool is_set = control(device.get(), TUNSETIFF, request);
  request = named("tun0");
  request.ifr_mtu = static_cast<int>(mtu_bytes);
  is_set = is_set && control(socket.get(), SIOCSIFMTU, request);
  request = named("tun0");
  request.ifr_qlen = kQueuedPackets;
  is_set = is_set && control(socket.get(), SIOCSIFTXQLEN, request);
  request = named("tun0");
  request.ifr_addr = ipv4(kFirstAddress + static_cast<std::uint32_t>(host));
  is_set = is_set && control(socket.get(), SIOCSIFADDR, request);
  request = named("tun0");
  request.ifr_netmask = ipv4(0xffffff00u);
  is_set = is_set && control(socket.get(), SIOCSIFNETMASK, request);
  is_set = is_set && bring_up(socket.get(), "lo") && bring_up(socket.get(), "tun0");
  if (!is_set) return system_error("tun0", errno);
  return device;
}

}  // namespace

void EmulatedNetwork::Unmap::operator()(NetworkControl* control) const noexcept {
  munmap(control, sizeof(NetworkControl));
}

Expected<EmulatedNetwork> EmulatedNetwork::start(std::size_t hosts, std::uint64_t seed,
                                                 std::uint32_t mtu_bytes) {
  if (hosts < 2 || hosts > kEmulatedHostsMax) {
    return Error{Status::invalid_argument, "hosts " + std::to_string(hosts) + ": from 2 to " +
                                               std::to_string(kEmulatedHostsMax)};
  }
  std::vector<ipc::UniqueFd> networks;
  std::vector<ipc::UniqueFd> devices;
  for (std::size_t host = 0; host < hosts; ++host) {
    const Expected<NetworkGuest> guest = NetworkGuest::enter("");
    if (!guest) return guest.error();
    Expected<ipc::UniqueFd> device = make_device(host, mtu_bytes);
    if (!device) return device.error();
    Expected<ipc::UniqueFd> network = NetworkGuest::current();
    if (!network) return network.error();
    devices.push_back(std::move(*device));
    networks.push_back(std::move(*network));
  }
  void* const mapping = mmap(nullptr, sizeof(NetworkControl), PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) return system_error("mmap", errno);
  ControlMapping control(new (mapping) NetworkControl);
  const pid_t parent = getpid();
  const pid_t carrier = fork();
  if (carrier < 0) return system_error("fork", errno);
  if (carrier == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 1);  // packets are due to the microsecond
    if (getppid() != parent) _exit(1);
    PacketCarrier(*control, devices, kFirstAddress, seed).run();
  }
  return EmulatedNetwork(std::move(networks), std::move(control), carrier);
}

EmulatedNetwork::EmulatedNetwork(std::vector<ipc::UniqueFd> networks, ControlMapping control,
                                 pid_t carrier)
    : networks_(std::move(networks)), control_(std::move(control)), carrier_(carrier) {}

EmulatedNetwork::EmulatedNetwork(EmulatedNetwork&& other) noexcept
    : networks_(std::move(other.networks_)),
      control_(std::move(other.control_)),
      carrier_(std::exchange(other.carrier_, -1)) {}

EmulatedNetwork::~EmulatedNetwork() {
  if (carrier_ <= 0) return;
  kill(carrier_, SIGKILL);
  waitpid(carrier_, nullptr, 0);
}

std::string EmulatedNetwork::path(std::size_t host) const {
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(networks_[host].get());
}

std::string EmulatedNetwork::address(std::size_t host) {
  return "10.78.0." + std::to_string(host + 1);
}

void EmulatedNetwork::shape(std::size_t from, std::size_t to, const LineShape& shape) {
  LineControl& way = control_->ways.at(from).at(to);
  way.delay_ns = shape.delay_ns;
  way.bytes_per_s = shape.bytes_per_s;
  way.queue_bytes = shape.queue_bytes;
  way.loss_ppm = shape.loss_ppm;
  way.reorder_ppm = shape.reorder_ppm;
  way.packet_bytes_max = shape.packet_bytes_max;
}

void EmulatedNetwork::shape_all(const LineShape& shape) {
  for (std::size_t from = 0; from < networks_.size(); ++from) {
    for (std::size_t to = 0; to < networks_.size(); ++to) this->shape(from, to, shape);
  }
}

std::uint64_t EmulatedNetwork::packets(std::size_t from, std::size_t to, PacketFate fate) const {
  return control_->ways.at(from).at(to).packets[static_cast<std::size_t>(fate)];
}

}  // namespace simm::bench
