// HelloAcceptor: the end that was connected to. Until the dialer has proved itself it says nothing
// about this daemon but the protocol versions it speaks, and does nothing that costs more than one
// MAC. After the proof it checks that it is the one who was meant; that answer carries a MAC.
// `secret`, `self` and `random` outlive it. Thread: its owner's.
#pragma once

#include <functional>

#include "daemon/cluster/hello/hello_machine.h"

namespace simm::cluster {

class HelloAcceptor final : public HelloMachine {
public:
  // Of a dialer that has proved itself and is welcome otherwise: whether there is room for what it
  // wants.
  using HasRoom = std::function<bool(const HelloPeer& peer, const HelloRequest& request)>;

  HelloAcceptor(const ClusterSecret& secret, const HelloSelf& self, base::Random& random,
                HasRoom has_room = nullptr);

private:
  void on_message(HelloType type, std::span<const std::byte> message) override;
  [[nodiscard]] bool may_be_refused() const noexcept override { return false; }
  void on_hello(const HelloMessage& hello);
  void on_proof(const ProofMessage& proof);
  // What only a dialer that proved itself is told.
  [[nodiscard]] HelloRefusal judge() const;
  void welcome();
  void refuse(HelloRefusal refusal);

  const HasRoom has_room_;
  HelloPeer peer_;
  HelloRequest request_;
};

}  // namespace simm::cluster
