#include "daemon/cluster/hello/hello_transcript.h"

namespace simm::cluster {
namespace {

using Label = std::array<char, 16>;
constexpr Label kDialerProof = {"simm proof dial"};
constexpr Label kAcceptorProof = {"simm proof acpt"};
constexpr Label kDialerKey = {"simm frame dial"};
constexpr Label kAcceptorKey = {"simm frame acpt"};

template <typename T>
std::span<const std::byte> all_of(const T& message) noexcept {
  return std::as_bytes(std::span(&message, std::size_t{1}));
}

Mac key_with(const Label& label, const HelloTranscript& seen,
             const ClusterSecret& secret) noexcept {
  return mac_of(secret.key(), {all_of(label), all_of(seen.hello), all_of(seen.challenge),
                               all_of(seen.proof), all_of(seen.verdict)});
}

}  // namespace

Mac HelloTranscript::dialer_mac(const ClusterSecret& secret) const noexcept {
  return mac_of(secret.key(), {all_of(kDialerProof), all_of(hello), all_of(challenge),
                               all_of(proof).first(offsetof(ProofMessage, mac))});
}

Mac HelloTranscript::acceptor_mac(const ClusterSecret& secret) const noexcept {
  return mac_of(secret.key(),
                {all_of(kAcceptorProof), all_of(hello), all_of(challenge), all_of(proof),
                 all_of(verdict).first(offsetof(VerdictMessage, mac))});
}

Mac HelloTranscript::key_from_dialer(const ClusterSecret& secret) const noexcept {
  return key_with(kDialerKey, *this, secret);
}

Mac HelloTranscript::key_from_acceptor(const ClusterSecret& secret) const noexcept {
  return key_with(kAcceptorKey, *this, secret);
}

}  // namespace simm::cluster
