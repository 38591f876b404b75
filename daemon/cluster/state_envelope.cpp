#include "daemon/cluster/state_envelope.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "daemon/base/hash.h"

namespace simm::cluster {
namespace {

constexpr std::array<char, 8> kMagic = {'s', 'i', 'm', 'm', 's', 't', 'a', 't'};
constexpr std::uint32_t kVersion = 1;

struct StateHeader {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t zero = 0;
  std::uint64_t epoch = 0;
  std::uint64_t bytes = 0;
  std::uint64_t state_digest = 0;
  std::uint64_t header_digest = 0;

  [[nodiscard]] std::uint64_t own_digest() const {
    return base::payload_digest(this, offsetof(StateHeader, header_digest));
  }
};
static_assert(sizeof(StateHeader) == kEnvelopeBytes);
static_assert(offsetof(StateHeader, epoch) == 16 && offsetof(StateHeader, state_digest) == 32);

}  // namespace

std::vector<std::byte> seal_state(const StoredState& state) {
  StateHeader header;
  header.epoch = state.epoch;
  header.bytes = state.bytes.size();
  header.state_digest = base::payload_digest(state.bytes.data(), state.bytes.size());
  header.header_digest = header.own_digest();
  std::vector<std::byte> sealed(sizeof header + state.bytes.size());
  // SAFETY: sealed has room for the header, and behind that for the state.
  std::memcpy(sealed.data(), &header, sizeof header);
  std::copy(state.bytes.begin(), state.bytes.end(), sealed.begin() + sizeof header);
  return sealed;
}

Expected<StoredState> open_state(std::span<const std::byte> sealed, const std::string& where,
                                 const std::string& remedy) {
  const auto untrusted = [&](Status status, const std::string& what) {
    return Error{status, where + " " + what + "; " + remedy};
  };
  StateHeader header;
  if (sealed.size() < sizeof header) return untrusted(Status::corrupt, "is cut short");
  // SAFETY: sealed has at least the header's size.
  std::memcpy(&header, sealed.data(), sizeof header);
  if (header.magic != kMagic) {
    return untrusted(Status::incompatible, "is no manager's state (another magic)");
  }
  if (header.version != kVersion) {
    return Error{Status::incompatible, where + " has format version " +
                                           std::to_string(header.version) +
                                           ", this release knows " + std::to_string(kVersion) +
                                           ": run the release that wrote it, or a newer one"};
  }
  if (header.header_digest != header.own_digest() || header.zero != 0) {
    return untrusted(Status::corrupt, "has a damaged header");
  }
  if (header.epoch == 0 || header.bytes > kStateBytesMax ||
      sealed.size() != sizeof header + header.bytes) {
    return untrusted(Status::corrupt, "has " + std::to_string(sealed.size()) +
                                          " bytes, its header speaks of " +
                                          std::to_string(header.bytes));
  }
  const auto bytes = sealed.subspan(sizeof header);
  if (base::payload_digest(bytes.data(), bytes.size()) != header.state_digest) {
    return untrusted(Status::corrupt, "does not match its checksum");
  }
  return StoredState{header.epoch, {bytes.begin(), bytes.end()}};
}

Outcome check_state(base::Epoch expected, const StoredState& state) {
  if (state.epoch > expected && state.bytes.size() <= kStateBytesMax) return Done{};
  return Error{Status::invalid_argument, "manager state of epoch " + std::to_string(state.epoch) +
                                             " and " + std::to_string(state.bytes.size()) +
                                             " bytes after epoch " + std::to_string(expected)};
}

}  // namespace simm::cluster
