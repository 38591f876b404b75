// HelloMachine: one end of a hello as bytes in and bytes out, without I/O, time or threads; the
// part that both ends share. Whoever drives it reads at most wanted() bytes and feeds them, sends
// what outgoing() holds, and keeps the deadline. It never wants a byte that follows the hello, so
// the bare socket can be handed on afterwards. Bounded: a fixed buffer, nothing grows with what the
// peer sends.
// Owned by one connection that is being made. Thread: its owner's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "daemon/cluster/hello/hello.h"
#include "daemon/cluster/hello/hello_transcript.h"
#include "simm/check.h"

namespace simm::cluster {

class HelloMachine {
public:
  enum class State : std::uint8_t { going, done, failed };

  virtual ~HelloMachine() = default;
  HelloMachine(const HelloMachine&) = delete;
  HelloMachine& operator=(const HelloMachine&) = delete;

  // How many bytes it takes at most now; 0 when the hello is over.
  [[nodiscard]] std::size_t wanted() const noexcept;
  // At most wanted() bytes.
  void feed(std::span<const std::byte> bytes);

  // What is to be sent; also when it is over (a verdict or refusal is still on its way then).
  [[nodiscard]] std::span<const std::byte> outgoing() const noexcept { return outgoing_; }
  void sent(std::size_t bytes);

  [[nodiscard]] State state() const noexcept { return state_; }
  // The peer has said who it is; whether that is true is another matter.
  [[nodiscard]] bool has_heard_hello() const noexcept { return expected_ != HelloType::hello; }
  // Both ends have proved themselves, and the path to the other one has not yet.
  [[nodiscard]] bool is_proving_path() const noexcept {
    return state_ == State::going && expected_ == HelloType::path;
  }
  // When failed.
  [[nodiscard]] HelloRefusal refusal() const noexcept { return refusal_; }
  // When failed: what happened, who said so, and the remedy, for a person. The same words for every
  // peer: what the peer claims stands in peer_claim().
  [[nodiscard]] std::string explanation() const;
  // When failed for its protocol version: which versions each end speaks, in brackets; else empty.
  [[nodiscard]] std::string peer_claim() const;
  // When done.
  [[nodiscard]] const HelloResult& result() const noexcept { return result_; }

protected:
  HelloMachine(const ClusterSecret& secret, const HelloSelf& self, base::Random& random,
               HelloType expected);

  // A whole message of the expected type, or a refusal where one may come.
  virtual void on_message(HelloType type, std::span<const std::byte> message) = 0;
  // May a refusal come instead of the expected message?
  [[nodiscard]] virtual bool may_be_refused() const noexcept = 0;

  template <typename Message>
  void post(const Message& message) {
    const auto bytes = std::as_bytes(std::span(&message, std::size_t{1}));
    outgoing_.insert(outgoing_.end(), bytes.begin(), bytes.end());
  }
  void post_path();
  // Of a connection of that purpose, when the challenge is known.
  [[nodiscard]] bool has_path_proof(HelloPurpose purpose) const noexcept;
  void expect(HelloType type) noexcept { expected_ = type; }
  void finish(HelloResult result);
  void fail(HelloRefusal refusal, bool by_peer = false) noexcept;
  void note_peer_versions(std::uint16_t min, std::uint16_t max) noexcept {
    peer_version_min_ = min;
    peer_version_max_ = max;
  }
  Nonce draw_nonce() noexcept;

  const ClusterSecret& secret_;
  const HelloSelf& self_;
  HelloTranscript seen_;

private:
  // The header of what is coming, checked; false: garbage.
  [[nodiscard]] bool header_fits() const noexcept;
  [[nodiscard]] HelloHeader header() const noexcept;
  void take_zeros(std::span<const std::byte> bytes);

  base::Random& random_;
  State state_ = State::going;
  HelloType expected_;
  HelloRefusal refusal_ = HelloRefusal::none;
  bool refused_by_peer_ = false;
  std::uint16_t peer_version_min_ = 0;
  std::uint16_t peer_version_max_ = 0;
  std::array<std::byte, kHelloMessageBytesMax> incoming_{};
  std::size_t filled_ = 0;
  std::size_t zeros_left_ = 0;  // of a path message
  std::vector<std::byte> outgoing_;
  HelloResult result_;
};

// Copies a message out of bytes that have its size.
template <typename Message>
Message hello_message_from(std::span<const std::byte> bytes) noexcept {
  SIMM_CHECK(bytes.size() == sizeof(Message));
  Message message;
  std::memcpy(&message, bytes.data(), sizeof(message));
  return message;
}

}  // namespace simm::cluster
