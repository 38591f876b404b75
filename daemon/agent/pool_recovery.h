// PoolRecovery: reads back what an earlier daemon left in the pool, while the daemon is up already.
// All shards are read side by side, on as many threads as the host has CPUs.
//
// Owned by DataAgents; the stores outlive it, and nobody else touches them before end().
// Thread: control; `when_done` is called on a thread of this object.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/store/pool/recovery_crew.h"
#include "daemon/store/store.h"
#include "simm/expected.h"

namespace simm {

class PoolRecovery {
public:
  struct Shard {
    store::Store* store;
    store::ShardMemory memory;
  };
  explicit PoolRecovery(std::vector<Shard> shards);
  ~PoolRecovery() { stop(); }
  PoolRecovery(const PoolRecovery&) = delete;
  PoolRecovery& operator=(const PoolRecovery&) = delete;

  // `when_done` is called once, however it ends. Where no thread can be had all is done when this
  // returns.
  void begin(std::function<void()> when_done);
  // Ends it soon, with an error; what the memory proves stays proved. Waits for its threads.
  void stop();
  // When it is done: the first error of a shard, or all is well.
  Outcome end();

  // How far all shards are.
  [[nodiscard]] std::uint32_t percent() const noexcept;

private:
  void recover_all();

  const std::vector<Shard> shards_;
  std::vector<std::unique_ptr<store::RecoveryCrew>> crews_;  // one of each shard
  std::vector<Outcome> outcomes_;                            // the same
  std::thread thread_;
};

}  // namespace simm
