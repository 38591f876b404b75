#include "daemon/cluster/hello/hello_dialer.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace simm::cluster {

HelloDialer::HelloDialer(const ClusterSecret& secret, const HelloSelf& self,
                         const HelloRequest& request, base::Random& random)
    : HelloMachine(secret, self, random, HelloType::challenge), request_(request) {
  SIMM_CHECK(is_for_daemon(request.purpose) || request.target.is_set());
  HelloMessage& hello = seen_.hello;
  hello = make_hello_message<HelloMessage>(HelloType::hello);
  hello.version_min = self.version_min;
  hello.version_max = self.version_max;
  hello.role = static_cast<std::uint8_t>(self.role);
  hello.purpose = static_cast<std::uint8_t>(request.purpose);
  hello.has_secret = secret.is_secret() ? 1 : 0;
  hello.features = self.features;
  hello.nonce = draw_nonce();
  hello.incarnation = wire_incarnation(self.incarnation);
  hello.target = wire_incarnation(request.target);
  hello.link = request.link;
  hello.shard = request.shard;
  hello.cluster = wire_name(self.cluster);
  hello.name = wire_name(self.name);
  post(hello);
}

void HelloDialer::on_message(HelloType type, std::span<const std::byte> message) {
  if (type == HelloType::refusal) {
    const auto refusal = hello_message_from<RefusalMessage>(message);
    if (!is_sent_refusal(refusal.refusal)) return fail(HelloRefusal::garbage);
    note_peer_versions(refusal.version_min, refusal.version_max);
    return fail(static_cast<HelloRefusal>(refusal.refusal), true);
  }
  if (type == HelloType::challenge) {
    return on_challenge(hello_message_from<ChallengeMessage>(message));
  }
  if (type == HelloType::path) return end();
  on_verdict(hello_message_from<VerdictMessage>(message));
}

void HelloDialer::on_challenge(const ChallengeMessage& challenge) {
  const bool is_sane = challenge.version >= self_.version_min &&
                       challenge.version <= self_.version_max && challenge.reserved0 == 0 &&
                       challenge.reserved1 == 0 && (challenge.features & ~self_.features) == 0;
  if (!is_sane) return fail(HelloRefusal::garbage);
  seen_.challenge = challenge;
  seen_.proof = make_hello_message<ProofMessage>(HelloType::proof);
  seen_.proof.fingerprint = self_.hash_seed_fingerprint;
  seen_.proof.mac = seen_.dialer_mac(secret_);
  post(seen_.proof);
  expect(HelloType::verdict);
}

void HelloDialer::on_verdict(const VerdictMessage& verdict) {
  seen_.verdict = verdict;
  // Before a single field of it is believed.
  if (!same_bytes(verdict.mac, seen_.acceptor_mac(secret_))) return fail(HelloRefusal::impostor);
  if (verdict.refusal != 0) {
    const bool is_known = is_sent_refusal(verdict.refusal);
    return fail(is_known ? static_cast<HelloRefusal>(verdict.refusal) : HelloRefusal::garbage,
                is_known);
  }
  HelloPeer peer;
  peer.incarnation = incarnation_of(verdict.incarnation);
  const auto name = name_of(verdict.name);
  const bool reserved_is_zero = std::all_of(
      std::begin(verdict.reserved), std::end(verdict.reserved), [](auto b) { return b == 0; });
  if (!name || !reserved_is_zero || !is_known_role(verdict.role) || !peer.incarnation.is_set()) {
    return fail(HelloRefusal::garbage);
  }
  if (peer.incarnation == self_.incarnation && !may_reach_itself(request_.purpose)) {
    return fail(HelloRefusal::itself);
  }
  if (request_.target.is_set() && peer.incarnation != request_.target) {
    return fail(HelloRefusal::impostor);
  }
  peer.role = static_cast<ClusterRole>(verdict.role);
  peer.name = *name;
  peer_ = std::move(peer);
  if (!has_path_proof(request_.purpose)) return end();
  post_path();
  expect(HelloType::path);
}

void HelloDialer::end() {
  finish({std::move(peer_), request_, seen_.challenge.version, seen_.challenge.features,
          FrameKeys{seen_.key_from_dialer(secret_), seen_.key_from_acceptor(secret_)}});
}

}  // namespace simm::cluster
