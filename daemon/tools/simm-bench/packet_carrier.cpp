#include "daemon/tools/simm-bench/packet_carrier.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>

namespace simm::bench {
namespace {

constexpr std::size_t kPacketBytesMax = 65'536;

base::TimeNs monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<base::TimeNs>(now.tv_sec) * base::kNsPerSecond +
         static_cast<base::TimeNs>(now.tv_nsec);
}

}  // namespace

PacketCarrier::PacketCarrier(NetworkControl& control, const std::vector<ipc::UniqueFd>& devices,
                             std::uint32_t first_address, std::uint64_t seed)
    : control_(control),
      devices_(devices),
      first_address_(first_address),
      packet_(kPacketBytesMax) {
  const std::size_t ways = devices.size() * devices.size();
  for (std::size_t i = 0; i < ways; ++i) lines_.emplace_back(seed * 1'000'003 + i);
  for (const ipc::UniqueFd& device : devices) polled_.push_back({device.get(), POLLIN, 0});
}

void PacketCarrier::run() {
  for (;;) {
    wait();
    for (std::size_t host = 0; host < devices_.size(); ++host) {
      constexpr int kPacketsPerTurn = 64;
      for (int i = 0; i < kPacketsPerTurn && take_from(host); ++i) {
      }
    }
    deliver();
  }
}

void PacketCarrier::wait() {
  timespec left{};
  if (!under_way_.empty()) {
    const base::TimeNs now = monotonic_ns();
    const base::TimeNs due_ns = std::max(under_way_.top().arrives_ns, now) - now;
    left.tv_sec = static_cast<time_t>(due_ns / base::kNsPerSecond);
    left.tv_nsec = static_cast<long>(due_ns % base::kNsPerSecond);
  }
  ppoll(polled_.data(), polled_.size(), under_way_.empty() ? nullptr : &left, nullptr);
}

// False: the host has nothing more to send now.
bool PacketCarrier::take_from(std::size_t from) {
  const ssize_t got = read(devices_[from].get(), packet_.data(), packet_.size());
  if (got <= 0) return false;
  const auto bytes = static_cast<std::size_t>(got);
  const std::size_t hosts = devices_.size();
  const std::size_t to = destination(bytes);
  if (to == hosts) return true;
  LineControl& way = control_.ways[from][to];
  base::TimeNs arrives_ns = 0;
  const PacketFate fate =
      lines_[from * hosts + to].offer(way.shape(), monotonic_ns(), bytes, arrives_ns);
  way.packets[static_cast<std::size_t>(fate)].fetch_add(1, std::memory_order_relaxed);
  if (fate != PacketFate::arrives) return true;
  std::vector<std::byte> copy;
  if (!spare_.empty()) {
    copy = std::move(spare_.back());
    spare_.pop_back();
  }
  copy.assign(packet_.begin(), packet_.begin() + got);
  under_way_.push({arrives_ns, number_++, to, std::move(copy)});
  return true;
}

void PacketCarrier::deliver() {
  while (!under_way_.empty() && under_way_.top().arrives_ns <= monotonic_ns()) {
    // The queue gives its elements as constants; this one goes next.
    Packet arrived = std::move(const_cast<Packet&>(under_way_.top()));
    under_way_.pop();
    const ssize_t done =
        write(devices_[arrived.to].get(), arrived.bytes.data(), arrived.bytes.size());
    // A host that takes nothing loses it, as on a real line.
    if (done >= 0) spare_.push_back(std::move(arrived.bytes));
  }
}

// The host that the packet is for; none of ours: as many as there are.
std::size_t PacketCarrier::destination(std::size_t bytes) const {
  constexpr std::size_t kHeaderBytes = 20;
  constexpr std::size_t kDestinationAt = 16;
  const bool is_ipv4 = bytes >= kHeaderBytes && (std::to_integer<unsigned>(packet_[0]) >> 4) == 4;
  if (!is_ipv4) return devices_.size();
  std::uint32_t address = 0;
  std::memcpy(&address, packet_.data() + kDestinationAt, sizeof address);
  const std::uint32_t host = ntohl(address) - first_address_;
  return std::min<std::size_t>(host, devices_.size());
}

}  // namespace simm::bench
