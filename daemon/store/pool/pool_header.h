// PoolHeader: the first page of the pool's table file: whose memory it is, of which shape, and how
// far its last life came. What is kept is used only when everything that must be equal is.
//
//   at      what
//   0       Shape: written once, last of all, when the files are new
//   1,024   Life, and at 2,048 a second one: the valid one with the greater sequence holds, so that
//           a process that is killed while it writes one leaves the other
//   + 56    behind each: the lineage of its epoch, with the same sequence. The previous release
//           does not write it, so a lineage of another sequence is unknown
//
// Nobody else writes there: the files are locked, or nobody else has them. Bytes that do not match
// their digest are refused, never trusted. Thread: control.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "daemon/base/ids.h"
#include "simm/expected.h"

namespace simm::store {

inline constexpr std::size_t kPoolHeaderBytes = 4096;

// Who the objects belong to: "alone", or a daemon of a cluster.
inline constexpr std::size_t kPoolOwnerBytesMax = 223;

// What must be equal for contents to be used.
struct PoolShape {
  std::uint64_t payload_bytes = 0;  // of one shard
  std::uint64_t table_bytes = 0;    // of one shard
  std::uint64_t shards = 0;
  std::uint64_t hash_seed = 0;     // wanted 0: whatever it was
  std::uint64_t boot = 0;          // of the machine
  std::uint64_t payload_file = 0;  // device and number of the other file, as one number
  std::string owner;
};

// What changes while a daemon lives.
struct PoolLife {
  std::uint64_t incarnation_high = 0;  // of the daemon in its cluster; 0: it is in none
  std::uint64_t incarnation_low = 0;
  base::Epoch epoch = 0;           // of the newest map under which objects were stored
  std::uint64_t lineage_high = 0;  // of that map; 0: unknown
  std::uint64_t lineage_low = 0;
  std::uint64_t lives = 1;    // how many daemons have used this memory, this one included
  bool is_running = true;     // false: it has ended in good order
  bool is_discarded = false;  // the contents are of no use any more
};

class PoolHeader {
public:
  // `page`: kPoolHeaderBytes zeroed or kept bytes, aligned for words, that outlive it.
  explicit PoolHeader(std::byte* page) noexcept : page_(page) {}

  // Of new memory. From now on it can be taken over.
  void begin(const PoolShape& shape, const PoolLife& life) noexcept;
  void write(const PoolLife& life) noexcept;

  struct Kept {
    std::uint64_t hash_seed = 0;
    PoolLife life;
  };
  // The error names the first field that differs, what was found and what is expected.
  [[nodiscard]] Expected<Kept> check(const PoolShape& wanted) const;

private:
  std::byte* page_;
};

}  // namespace simm::store
