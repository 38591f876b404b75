#include "daemon/cluster/hello/hello_acceptor.h"

#include <algorithm>
#include <utility>

namespace simm::cluster {
namespace {

// What no dialer of ours sends, whatever its version and configuration.
bool is_sane(const HelloMessage& hello) noexcept {
  const bool is_control = hello.purpose == static_cast<std::uint8_t>(HelloPurpose::control) ||
                          hello.purpose == static_cast<std::uint8_t>(HelloPurpose::report);
  const bool is_data = hello.purpose == static_cast<std::uint8_t>(HelloPurpose::data) ||
                       hello.purpose == static_cast<std::uint8_t>(HelloPurpose::queue_pair);
  const bool reserved_is_zero =
      hello.reserved0 == 0 && hello.reserved1 == 0 && hello.reserved2 == 0;
  return hello.version_min <= hello.version_max && is_known_role(hello.role) &&
         hello.has_secret <= 1 && reserved_is_zero && incarnation_of(hello.incarnation).is_set() &&
         ((is_control && hello.link == 0 && hello.shard == 0) ||
          (is_data && incarnation_of(hello.target).is_set()));
}

}  // namespace

HelloAcceptor::HelloAcceptor(const ClusterSecret& secret, const HelloSelf& self,
                             base::Random& random, HasRoom has_room)
    : HelloMachine(secret, self, random, HelloType::hello), has_room_(std::move(has_room)) {}

void HelloAcceptor::on_message(HelloType type, std::span<const std::byte> message) {
  if (type == HelloType::hello) return on_hello(hello_message_from<HelloMessage>(message));
  if (type == HelloType::path) {
    post_path();
    return welcome();
  }
  on_proof(hello_message_from<ProofMessage>(message));
}

void HelloAcceptor::on_hello(const HelloMessage& hello) {
  const auto cluster = name_of(hello.cluster);
  const auto name = name_of(hello.name);
  if (!is_sane(hello) || !cluster || !name) return fail(HelloRefusal::garbage);
  if (hello.version_min > self_.version_max || hello.version_max < self_.version_min) {
    note_peer_versions(hello.version_min, hello.version_max);
    return refuse(HelloRefusal::version);
  }
  if (*cluster != self_.cluster) return refuse(HelloRefusal::cluster_name);
  if ((hello.has_secret != 0) != secret_.is_secret()) return refuse(HelloRefusal::secret_missing);

  peer_ = {incarnation_of(hello.incarnation), static_cast<ClusterRole>(hello.role), *name};
  request_ = {static_cast<HelloPurpose>(hello.purpose), incarnation_of(hello.target), hello.shard,
              hello.link};
  seen_.hello = hello;
  seen_.challenge = make_hello_message<ChallengeMessage>(HelloType::challenge);
  seen_.challenge.version = std::min(hello.version_max, self_.version_max);
  seen_.challenge.features = hello.features & self_.features;
  seen_.challenge.nonce = draw_nonce();
  post(seen_.challenge);
  expect(HelloType::proof);
}

void HelloAcceptor::on_proof(const ProofMessage& proof) {
  seen_.proof = proof;
  if (!same_bytes(proof.mac, seen_.dialer_mac(secret_))) return refuse(HelloRefusal::proof);
  const HelloRefusal refusal = judge();
  seen_.verdict = make_hello_message<VerdictMessage>(HelloType::verdict);
  seen_.verdict.refusal = static_cast<std::uint32_t>(refusal);
  seen_.verdict.role = static_cast<std::uint8_t>(self_.role);
  seen_.verdict.incarnation = wire_incarnation(self_.incarnation);
  seen_.verdict.name = wire_name(self_.name);
  seen_.verdict.mac = seen_.acceptor_mac(secret_);
  post(seen_.verdict);
  if (refusal != HelloRefusal::none) return fail(refusal);
  if (has_path_proof(request_.purpose)) return expect(HelloType::path);
  welcome();
}

void HelloAcceptor::welcome() {
  finish({peer_, request_, seen_.challenge.version, seen_.challenge.features,
          FrameKeys{seen_.key_from_acceptor(secret_), seen_.key_from_dialer(secret_)}});
}

HelloRefusal HelloAcceptor::judge() const {
  if (peer_.incarnation == self_.incarnation && !may_reach_itself(request_.purpose)) {
    return HelloRefusal::itself;
  }
  if (seen_.proof.fingerprint != self_.hash_seed_fingerprint) return HelloRefusal::hash_seed;
  if (request_.target.is_set() && request_.target != self_.incarnation) {
    return HelloRefusal::target;
  }
  const bool is_for_shard = !is_for_daemon(request_.purpose);
  if (is_for_shard && request_.shard >= self_.shards) return HelloRefusal::shard;
  if (has_room_ != nullptr && !has_room_(peer_, request_)) return HelloRefusal::no_room;
  return HelloRefusal::none;
}

void HelloAcceptor::refuse(HelloRefusal refusal) {
  auto message = make_hello_message<RefusalMessage>(HelloType::refusal);
  message.refusal = static_cast<std::uint32_t>(refusal);
  message.version_min = self_.version_min;
  message.version_max = self_.version_max;
  post(message);
  fail(refusal);
}

}  // namespace simm::cluster
