// Which descriptors memory of a GPU comes as.
#pragma once

#include <sys/stat.h>
#include <sys/sysmacros.h>

namespace simm::ipc {

// A descriptor of NVIDIA's driver: a character device of the major number that Linux gives it.
inline bool is_gpu_descriptor(int fd) noexcept {
  constexpr unsigned kNvidiaMajor = 195;
  struct stat about {};
  return ::fstat(fd, &about) == 0 && S_ISCHR(about.st_mode) && major(about.st_rdev) == kNvidiaMajor;
}

}  // namespace simm::ipc
