// MemoryFile: a memory-backed file (memfd, tmpfs or hugetlbfs) that two processes map.
//
// Made here for session memory and for shared regions, or received from a client and inspected
// before anything else touches it. A descriptor from outside may be a pipe, a device, or a file of
// a FUSE file system whose every access blocks. So nothing but fcntl sees it until it is known to
// be a file in memory, and nothing but fstat and fstatfs until it is known to be a regular one.
//
// The seal sequence of session memory:
//   create      size fixed, pages present, then F_SEAL_GROW | F_SEAL_SHRINK: nobody can truncate it
//   both map
//   seal_final  F_SEAL_FUTURE_WRITE | F_SEAL_SEAL: mappings that exist keep working, while punching
//               holes, pwrite and new writable mappings fail with EPERM for everybody
//   seal_whole  all four at once, of a file that came from outside; then first_hole() tells whether
//               all pages are there, and they stay there
// Without the last step a client could punch out pages. The daemon would fault them in again at its
// own expense or, with the file system full, die of SIGBUS.
//
// Thread: any, one at a time. Errors name the call that failed.
#pragma once

#include <cstdint>
#include <string>

#include "ipc/fd.h"
#include "simm/expected.h"

namespace simm::ipc {

struct MemoryFileSpec {
  std::string name;         // shown in /proc/<pid>/maps as "/memfd:<name>"
  std::uint64_t bytes = 0;  // rounded up to whole pages
  bool huge_pages = false;  // wanted; falls back to normal pages when there are not enough
  bool prefault = false;    // allocate every page now (huge pages always are)
};

class MemoryFile {
public:
  // Makes a memfd that is sealed against growing and shrinking. no_space when the pages that were
  // asked for do not exist: never a later SIGBUS.
  static Expected<MemoryFile> create(const MemoryFileSpec& spec);

  // Takes a descriptor from outside. invalid_argument for anything but a regular file on tmpfs or
  // hugetlbfs, permission_denied for one that is not open for reading and writing; closes it then.
  static Expected<MemoryFile> inspect(UniqueFd fd);
  // Whether it is a descriptor of memory at all. Anything else may hang whoever does so much as
  // close it, so inspect() is not for those from somebody who is not trusted.
  [[nodiscard]] static bool is_memory(int fd) noexcept;

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint64_t page_bytes() const noexcept { return page_bytes_; }
  [[nodiscard]] bool huge_pages() const noexcept { return huge_pages_; }
  [[nodiscard]] UniqueFd release() noexcept { return std::move(fd_); }

  // Seals of the file as fcntl(F_GET_SEALS) tells them; 0 for a file that has none (not a memfd).
  [[nodiscard]] unsigned seals() const noexcept;
  // True when nobody can shrink it any more: touching its pages can not meet a truncation.
  [[nodiscard]] bool cannot_shrink() const noexcept;

  // The last step of the seal sequence, see above. Waits while anybody writes to the file.
  Outcome seal_final();
  Outcome seal_whole();
  // The first byte that no page holds; the file's size when it is whole. Waits as seal_final().
  [[nodiscard]] Expected<std::uint64_t> first_hole() const;

private:
  MemoryFile(UniqueFd fd, std::uint64_t bytes, std::uint64_t page_bytes, bool huge) noexcept
      : fd_(std::move(fd)), bytes_(bytes), page_bytes_(page_bytes), huge_pages_(huge) {}
  static Expected<MemoryFile> create_with(const MemoryFileSpec& spec, bool huge);
  Outcome seal(unsigned seals);

  UniqueFd fd_;
  std::uint64_t bytes_ = 0;
  std::uint64_t page_bytes_ = 0;
  bool huge_pages_ = false;
};

}  // namespace simm::ipc
