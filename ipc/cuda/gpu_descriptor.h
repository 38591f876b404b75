// Which descriptors memory of a GPU comes as.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

namespace simm::ipc {

// A descriptor of NVIDIA's driver: a character device of the major number that Linux gives it.
// What the kernel knows is enough: fstat() asks the file system, and that of a client may hang.
inline bool is_gpu_descriptor(int fd) noexcept {
  constexpr unsigned kNvidiaMajor = 195;
  struct statx about {};
  return ::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &about) == 0 &&
         S_ISCHR(about.stx_mode) && about.stx_rdev_major == kNvidiaMajor;
}

}  // namespace simm::ipc
