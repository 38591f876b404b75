// What a process has mapped, as /proc/<pid>/maps tells it: the check that comes before a client's
// existing mapping is opened.
//
// A range qualifies when every mapping in it is `rw-s` (shared, and the process may write it), they
// follow each other without a gap, and all of them show one file at contiguous offsets.
// Thread: any; used by the adoption helper.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string_view>

#include "simm/expected.h"

namespace simm::memory {

struct MapsLine {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;  // one past the last byte
  std::uint64_t file_offset = 0;
  dev_t device = 0;
  ino_t inode = 0;
  bool is_shared_writable = false;  // exactly "rw-s"
};

// One line of the file; false when it has another form.
bool parse_maps_line(std::string_view line, MapsLine& result) noexcept;

// Where in which file a range of a process lies.
struct SharedRange {
  MapsLine first;                 // the mapping that holds the first byte
  std::uint64_t file_offset = 0;  // of the first byte
};

// Collects the lines of one file in order and decides.
class SharedRangeFinder {
public:
  // `length` > 0; address + length does not overflow.
  SharedRangeFinder(std::uint64_t address, std::uint64_t length) noexcept
      : address_(address), next_(address), end_(address + length) {}

  // False: the decision has been made, no more lines are needed.
  bool add(const MapsLine& line) noexcept;
  // The range, or permission_denied with the rule that it broke.
  [[nodiscard]] Expected<SharedRange> result() const;

private:
  const std::uint64_t address_;
  std::uint64_t next_;  // all before it qualifies
  const std::uint64_t end_;
  SharedRange range_;
  const char* refusal_ = nullptr;
};

// Reads the maps of a process and finds the range in them.
Expected<SharedRange> find_shared_range(pid_t pid, std::uint64_t address, std::uint64_t length);

}  // namespace simm::memory
