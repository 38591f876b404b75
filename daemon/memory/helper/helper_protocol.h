// What the daemon and its privileged helper say to each other: fixed structs over a SEQPACKET
// socket pair. Both ends are ours and of one build; sizes are checked all the same.
#pragma once

#include <cstdint>
#include <type_traits>

namespace simm::memory {

enum class HelperOp : std::uint32_t {
  adopt = 1,  // with the client's pidfd; answered with the file
  spawn = 2,  // with the client's pidfd, the worker's end of the jobs, the bounce file and the
              // arena; answered with the worker's pidfd
  kill = 3,   // of `worker`; not answered
};

struct HelperRequest {
  std::uint64_t request_id = 0;
  HelperOp op = HelperOp::adopt;
  std::uint32_t worker = 0;  // spawn: the name of the new worker; kill: whom
  // The client, as the kernel recorded it when it connected.
  std::int32_t pid = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t reserved = 0;
  std::uint64_t start_time_ticks = 0;
  // adopt: the range in the client's address space. spawn: length of the arena.
  std::uint64_t address = 0;
  std::uint64_t length = 0;
};
static_assert(std::is_trivially_copyable_v<HelperRequest> && sizeof(HelperRequest) == 56);

struct HelperReply {
  std::uint64_t request_id = 0;
  std::int32_t status = 0;  // simm::Status
  std::uint32_t reserved = 0;
  std::uint64_t file_offset = 0;  // adopt: of the range's first byte in the file
  char reason[232] = {};          // why not, zero-terminated
};
static_assert(std::is_trivially_copyable_v<HelperReply> && sizeof(HelperReply) == 256);

// How long the helper may take for one answer; whoever works on it is killed then.
inline constexpr std::uint64_t kHelperAnswerNs = 500'000'000;

}  // namespace simm::memory
