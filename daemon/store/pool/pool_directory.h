// PoolDirectory: a directory of tmpfs or hugetlbfs that holds the pool of one daemon in files, so
// that it outlives the process: "payload", "table", "lock", which the daemon holds while it lives,
// and "holder-PID-START", which says who that is. The directory (0700) and the files (0600) are
// this user's and nobody else's, and no symbolic link is followed: who could write there could put
// any bytes into any object. Thread: control.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "ipc/fd.h"
#include "simm/expected.h"

namespace simm::store {

class PoolDirectory {
public:
  // Makes the directory if there is none, and takes the lock. Errors say what to do;
  // invalid_state: another daemon has it, which is named. A former holder that is still ending is
  // waited for, up to a minute: until its end its devices may write into the pool.
  static Expected<PoolDirectory> open(const std::string& path);
  PoolDirectory(PoolDirectory&&) noexcept = default;
  PoolDirectory& operator=(PoolDirectory&&) = delete;
  // The holder's name stays: a daemon that stops may have given up queue pairs, which end with its
  // process.
  ~PoolDirectory() = default;

  [[nodiscard]] bool is_hugetlbfs() const noexcept { return huge_; }
  // Files are multiples of it.
  [[nodiscard]] std::uint64_t page_bytes() const noexcept { return page_bytes_; }

  // An existing file, open for reading and writing: regular, this user's alone, of `bytes` bytes of
  // which as many as `reserved` have memory. not_found: there is none; else why it is of no use.
  [[nodiscard]] Expected<ipc::UniqueFd> open_file(const char* name, std::uint64_t bytes,
                                                  std::uint64_t reserved) const;
  // A new file, zeroed, in place of what has that name; without memory, see reserve().
  [[nodiscard]] Expected<ipc::UniqueFd> create_file(const char* name, std::uint64_t bytes) const;
  // Takes memory for all of `file` from the file system, so that no access to it can fail for want
  // of room, whoever fills it. no_space says how much there is. `memory` is the whole file, mapped;
  // with several `threads` they make its pages present. The kernel takes memory by itself one page
  // after the other, and leaves it to be zeroed later. `on_taken` is told after each step, on this
  // thread, how many bytes there are; it may be empty.
  [[nodiscard]] Outcome reserve(int file, std::span<std::byte> memory, std::uint32_t threads,
                                const std::function<void(std::uint64_t)>& on_taken) const;
  void remove_file(const char* name) const noexcept;

private:
  PoolDirectory() = default;
  [[nodiscard]] Outcome take_lock();
  // What has no memory yet, in order; what has some is kept.
  [[nodiscard]] Outcome fill_up(int file, std::uint64_t bytes,
                                const std::function<void(std::uint64_t)>& on_taken) const;
  [[nodiscard]] Error no_room(int file, std::uint64_t bytes) const;
  [[nodiscard]] std::string where(const char* name) const { return path_ + "/" + name; }

  std::string path_;
  ipc::UniqueFd directory_;
  ipc::UniqueFd lock_;  // of the open file: held until the last copy of this descriptor is closed
  bool huge_ = false;
  std::uint64_t page_bytes_ = 0;
};

}  // namespace simm::store
