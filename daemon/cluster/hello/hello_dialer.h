// HelloDialer: the end that connected. Its first bytes are there at once; it proves itself first
// and believes nothing of the peer until the verdict's MAC is right.
// `secret`, `self` and `random` outlive it. Thread: its owner's.
#pragma once

#include "daemon/cluster/hello/hello_machine.h"

namespace simm::cluster {

class HelloDialer final : public HelloMachine {
public:
  HelloDialer(const ClusterSecret& secret, const HelloSelf& self, const HelloRequest& request,
              base::Random& random);

private:
  void on_message(HelloType type, std::span<const std::byte> message) override;
  [[nodiscard]] bool may_be_refused() const noexcept override { return true; }
  void on_challenge(const ChallengeMessage& challenge);
  void on_verdict(const VerdictMessage& verdict);
  void end();

  const HelloRequest request_;
  HelloPeer peer_;  // since the verdict
};

}  // namespace simm::cluster
