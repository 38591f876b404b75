// HelloTranscript: what both ends of a hello have seen so far, and everything that is computed from
// it: the two proofs and the keys of the connection. Each input begins with a label of its own, so
// that no value can stand in for another, in particular not the acceptor's proof for the dialer's.
// Messages have fixed sizes, so no input can be split in two ways.
// Owned by a HelloDialer or HelloAcceptor. Thread: its owner's.
#pragma once

#include "daemon/cluster/hello/hello.h"

namespace simm::cluster {

struct HelloTranscript {
  HelloMessage hello{};
  ChallengeMessage challenge{};
  ProofMessage proof{};
  VerdictMessage verdict{};

  // Over hello, challenge and the proof up to its MAC.
  [[nodiscard]] Mac dialer_mac(const ClusterSecret& secret) const noexcept;
  // Over hello, challenge, proof and the verdict up to its MAC.
  [[nodiscard]] Mac acceptor_mac(const ClusterSecret& secret) const noexcept;
  // Of a finished hello: from all four messages.
  [[nodiscard]] Mac key_from_dialer(const ClusterSecret& secret) const noexcept;
  [[nodiscard]] Mac key_from_acceptor(const ClusterSecret& secret) const noexcept;
};

}  // namespace simm::cluster
