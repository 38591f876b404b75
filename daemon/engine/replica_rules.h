// ReplicaRules: what an engine knows of namespaces that are kept twice (base/replica.h): which
// operations are for both copies, which copy a read asks, and what the answers of both mean.
//
// Writes go to both copies. A read is a miss when both copies are: it asks the owner of the object
// first, and then the owner of the replica, where the first one can not be reached or has nothing.
// One read in kReplicaFirstOneIn begins with the replicas. So replicas of what is used are used,
// too, and are evicted no sooner than objects.
// Owned by the Engine. Thread: its data agent.
#pragma once

#include <cstdint>
#include <utility>

#include "daemon/base/replica.h"
#include "daemon/engine/operation.h"

namespace simm::engine {

class ReplicaRules {
public:
  static constexpr std::uint32_t kReplicaFirstOneIn = 8;

  // From now on; at set-up.
  void use(base::ReplicatedNamespaces name_spaces) { name_spaces_ = std::move(name_spaces); }

  // Whether the operation is one of a client on objects that are kept twice.
  [[nodiscard]] bool apply_to(const Operation& operation) const noexcept {
    if (name_spaces_.empty() || operation.is_replica || operation.header.is_moved) return false;
    return name_spaces_.has(operation.header.tenant, operation.header.name_space);
  }
  // Of a read to which the rules apply: whether it begins with the replicas. Asked once.
  [[nodiscard]] bool begins_with_replicas() noexcept {
    if (++reads_ < kReplicaFirstOneIn) return false;
    reads_ = 0;
    return true;
  }
  // Whether a page with this answer, which is not a good one, asks the other copy.
  [[nodiscard]] static bool asks_other(Status status) noexcept;

  // The page names the other copy from now on.
  static void turn(transport::PageRequest& page) noexcept {
    page.hash = base::replica_of(page.hash);
    page.group = base::mirrored_group(page.group);
  }
  // The answer of a write, from those of both copies (engine/public_status.h). A replica that is
  // not there makes no put fail, and one pinned copy is a pin. But an object that a remove may have
  // left is not removed, and the same holds for an unpin. `is_of_one_map`: both answers are of
  // owners under one map. Else a removed object may have been copied by the one owner to another
  // new one.
  [[nodiscard]] static transport::PageReply join(ipc::Opcode opcode, transport::PageReply object,
                                                 transport::PageReply replica,
                                                 bool is_of_one_map) noexcept;

private:
  base::ReplicatedNamespaces name_spaces_;
  std::uint32_t reads_ = 0;
};

}  // namespace simm::engine
