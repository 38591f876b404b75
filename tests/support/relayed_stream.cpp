#include "tests/support/relayed_stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <utility>

#include "daemon/transport/tcp/wire.h"

namespace simm::test_support {

bool RelayedStream::take(int socket, const RelayTrouble& trouble, Time now) {
  std::array<std::byte, 16384> buffer{};
  const ssize_t got = ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  if (got == 0) return false;
  if (trouble.swallows) has_lost_ = true;
  if (has_lost_ || is_cut_short_) return true;
  std::vector<std::byte> bytes(buffer.begin(), buffer.begin() + got);
  if (trouble.damage_every_bytes != 0) damage(bytes, trouble.damage_every_bytes);
  if (trouble.forges_rosters && !has_forged_) forge_roster(bytes);
  if (bytes.empty()) return true;
  free_ = std::max(free_, now);
  if (trouble.bytes_per_s != 0) {
    free_ += std::chrono::nanoseconds(1'000'000'000 * bytes.size() / trouble.bytes_per_s);
  }
  held_bytes_ += bytes.size();
  held_.push_back({free_ + trouble.delay, std::move(bytes)});
  return true;
}

void RelayedStream::damage(std::vector<std::byte>& bytes, std::uint64_t every_bytes) {
  if (until_damage_ == 0) until_damage_ = 1 + random_() % (2 * every_bytes);
  if (until_damage_ > bytes.size()) {
    until_damage_ -= bytes.size();
    return;
  }
  const auto at = static_cast<std::ptrdiff_t>(until_damage_ - 1);
  until_damage_ = 0;
  ++damages_;
  switch (random_() % 4) {
    case 0: {
      const auto rest = bytes.end() - (bytes.begin() + at);
      const auto count = static_cast<std::ptrdiff_t>(1 + random_() % 64);
      bytes.erase(bytes.begin() + at, bytes.begin() + at + std::min(count, rest));
      break;
    }
    case 1:
      bytes.erase(bytes.begin() + at, bytes.end());
      is_cut_short_ = true;
      break;
    default:
      bytes[static_cast<std::size_t>(at)] ^= std::byte{1} << (random_() % 8);
      break;
  }
}

// Without the key nobody makes a seal that fits: the header is that of the true one.
void RelayedStream::forge_roster(std::vector<std::byte>& bytes) {
  namespace wire = transport::wire;
  constexpr std::size_t kFrameBytes = sizeof(wire::FrameHeader) + sizeof(wire::RosterBody);
  for (std::size_t at = 0; at + kFrameBytes <= bytes.size(); ++at) {
    wire::FrameHeader header;
    std::memcpy(&header, bytes.data() + at, sizeof header);
    const auto kind = static_cast<wire::FrameKind>(header.kind);
    if (header.magic != wire::kMagic || kind != wire::FrameKind::roster) continue;
    wire::RosterBody roster;
    std::memcpy(&roster, bytes.data() + at + sizeof header, sizeof roster);
    roster.statement = ~std::uint64_t{0};
    roster.count = 1;
    std::fill(std::begin(roster.links), std::end(roster.links), std::uint64_t{0});
    roster.links[0] = roster.link;
    std::vector<std::byte> forged(kFrameBytes);
    std::memcpy(forged.data(), &header, sizeof header);
    std::memcpy(forged.data() + sizeof header, &roster, sizeof roster);
    bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(at + kFrameBytes), forged.begin(),
                 forged.end());
    has_forged_ = true;
    ++damages_;
    return;
  }
}

bool RelayedStream::give(int socket, Time now) {
  while (!held_.empty() && held_.front().due <= now) {
    const std::vector<std::byte>& bytes = held_.front().bytes;
    const ssize_t sent = ::send(socket, bytes.data() + first_given_bytes_,
                                bytes.size() - first_given_bytes_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    const auto sent_bytes = static_cast<std::size_t>(sent);
    given_bytes_ += sent_bytes;
    held_bytes_ -= sent_bytes;
    first_given_bytes_ += sent_bytes;
    if (first_given_bytes_ < bytes.size()) return true;
    held_.pop_front();
    first_given_bytes_ = 0;
  }
  return true;
}

}  // namespace simm::test_support
