// What the files of the C interface share: the handles that simm/simm.h only declares, and how a
// call of it ends. Thread: any.
#pragma once

#include <cstdint>
#include <new>
#include <utility>

#include "libclient/last_error.h"
#include "simm/client.h"
#include "simm/simm.h"

struct simm_client {
  simm::Client client;
};
struct simm_region {
  simm::Region region;
};
struct simm_namespace {
  simm::Namespace name_space;
};
struct simm_gpu_lease {
  simm::GpuLease lease;
};
struct simm_key_follower {
  simm::KeyFollower follower;
};

namespace simm::detail {

inline int code(Status status) noexcept {
  return static_cast<int>(status);
}

inline int null_argument(const char* name) noexcept {
  return code(fail(Status::invalid_argument, "%s: NULL", name));
}

// A bit that means nothing here is a mistake, or means something to a newer library only.
inline bool known_flags(uint32_t flags, uint32_t known, const char* names) noexcept {
  if ((flags & ~known) == 0) return true;
  (void)fail(Status::invalid_argument, "flags = 0x%x: %s are known here", flags, names);
  return false;
}

// Runs a call that makes something; exceptions of the allocator end here.
template <typename Body>
int guarded(Body body) noexcept {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return code(fail(Status::out_of_memory, "no memory left in this process"));
  }
}

}  // namespace simm::detail
