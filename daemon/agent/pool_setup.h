// The memory of the pool as the configuration wants it: how long its parts are, and which kind it
// is. Where it can not be had, the error says what a person has to change.
// Thread: start-up.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/config.h"
#include "daemon/control/service_manager.h"
#include "daemon/store/pool/pool_memory.h"
#include "simm/expected.h"

namespace simm {

struct PoolSetup {
  const base::Config& config;
  bool clustered;                 // there are other daemons
  bool has_clients;               // false: a storage daemon
  bool files_are_kept;            // by the service manager
  std::string owner;              // see store::PoolShape
  std::uint64_t hash_seed;        // 0: any
  std::uint64_t fresh_hash_seed;  // for new memory
  // See store::PoolConfig.
  std::function<void(std::uint64_t taken_bytes)> on_taken;
};

// Null: a node of a cluster that leaves all objects to others. `handed`: see take_pool_files().
Expected<std::unique_ptr<store::PoolMemory>> make_pool(const PoolSetup& setup,
                                                       std::vector<store::PoolFile> handed);

// What is the pool's among the inherited descriptors; the others stay.
std::vector<store::PoolFile> take_pool_files(std::vector<control::InheritedSocket>& inherited);

// How much of the pool one shard has: whole huge pages.
std::uint64_t shard_bytes_of(std::uint64_t pool_bytes, std::uint32_t shards) noexcept;

}  // namespace simm
