#include "daemon/cluster/hello/hello_machine.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace simm::cluster {

HelloMachine::HelloMachine(const ClusterSecret& secret, const HelloSelf& self, base::Random& random,
                           HelloType expected)
    : secret_(secret), self_(self), random_(random), expected_(expected) {
  SIMM_CHECK(self.incarnation.is_set());
}

HelloHeader HelloMachine::header() const noexcept {
  HelloHeader header;
  std::memcpy(&header, incoming_.data(), sizeof(header));
  return header;
}

std::size_t HelloMachine::wanted() const noexcept {
  if (state_ != State::going) return 0;
  if (zeros_left_ > 0) return zeros_left_;
  // The header was checked before anything behind it is wanted: `bytes` is a size of ours.
  const std::size_t whole = filled_ < sizeof(HelloHeader) ? sizeof(HelloHeader) : header().bytes;
  return whole - filled_;
}

bool HelloMachine::header_fits() const noexcept {
  const HelloHeader got = header();
  const auto type = static_cast<HelloType>(got.type);
  const bool is_awaited = type == expected_ || (type == HelloType::refusal && may_be_refused());
  return got.magic == kHelloMagic && is_awaited && got.reserved == 0 &&
         got.bytes == hello_bytes_of(type);
}

void HelloMachine::feed(std::span<const std::byte> bytes) {
  SIMM_CHECK(bytes.size() <= wanted());
  if (zeros_left_ > 0) return take_zeros(bytes);
  std::copy(bytes.begin(), bytes.end(), incoming_.begin() + static_cast<std::ptrdiff_t>(filled_));
  filled_ += bytes.size();
  if (filled_ < sizeof(HelloHeader)) return;
  if (!header_fits()) return fail(HelloRefusal::garbage);
  if (static_cast<HelloType>(header().type) == HelloType::path) {
    zeros_left_ = header().bytes - std::exchange(filled_, 0);
    return;
  }
  if (filled_ < header().bytes) return;
  const std::size_t whole = std::exchange(filled_, 0);
  on_message(static_cast<HelloType>(header().type), std::span(incoming_).first(whole));
}

// Nothing of them is kept.
void HelloMachine::take_zeros(std::span<const std::byte> bytes) {
  const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
  if (!std::all_of(bytes.begin(), bytes.end(), is_zero)) return fail(HelloRefusal::garbage);
  zeros_left_ -= bytes.size();
  if (zeros_left_ == 0) on_message(HelloType::path, {});
}

void HelloMachine::post_path() {
  post(HelloHeader{kHelloMagic, static_cast<std::uint16_t>(HelloType::path), 0,
                   static_cast<std::uint32_t>(kPathMessageBytes)});
  outgoing_.resize(outgoing_.size() + kPathMessageBytes - sizeof(HelloHeader));
}

bool HelloMachine::has_path_proof(HelloPurpose purpose) const noexcept {
  const bool is_for_long = purpose == HelloPurpose::control || purpose == HelloPurpose::data;
  return (seen_.challenge.features & kFeaturePathProof) != 0 && is_for_long;
}

void HelloMachine::sent(std::size_t bytes) {
  SIMM_CHECK(bytes <= outgoing_.size());
  outgoing_.erase(outgoing_.begin(), outgoing_.begin() + static_cast<std::ptrdiff_t>(bytes));
}

void HelloMachine::finish(HelloResult result) {
  result_ = std::move(result);
  state_ = State::done;
}

void HelloMachine::fail(HelloRefusal refusal, bool by_peer) noexcept {
  state_ = State::failed;
  refusal_ = refusal;
  refused_by_peer_ = by_peer;
}

std::string HelloMachine::explanation() const {
  return (refused_by_peer_ ? "the peer refuses: " : "") + std::string(refusal_text(refusal_));
}

std::string HelloMachine::peer_claim() const {
  if (refusal_ != HelloRefusal::version) return "";
  const auto range = [](std::uint16_t min, std::uint16_t max) {
    return std::to_string(min) + " to " + std::to_string(max);
  };
  return " (the peer speaks " + range(peer_version_min_, peer_version_max_) + ", this daemon " +
         range(self_.version_min, self_.version_max) + ")";
}

Nonce HelloMachine::draw_nonce() noexcept {
  std::array<std::uint64_t, kNonceBytes / sizeof(std::uint64_t)> words;
  for (std::uint64_t& word : words) word = random_.next();
  return std::bit_cast<Nonce>(words);
}

}  // namespace simm::cluster
