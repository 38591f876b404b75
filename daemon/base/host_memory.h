// HostMemory: how much memory a daemon may use: what the machine has, and what its control group
// leaves of it (cgroup v2 "memory.max" or v1 "memory.limit_in_bytes", of the group and of every
// one above it). Read once at start. Files that are not there limit nothing.
// Thread: any.
#pragma once

#include <cstdint>
#include <string>

namespace simm::base {

class HostMemory {
public:
  // `root` is the directory that stands for "/": tests bring their own /proc and /sys.
  static HostMemory read(const std::string& root = "");

  [[nodiscard]] std::uint64_t usable_bytes() const noexcept { return bytes_; }
  // Who says so: "this machine has 24.0 GiB", "the control group /simm.slice allows 4.0 GiB".
  [[nodiscard]] const std::string& origin() const noexcept { return origin_; }

private:
  void limit(std::uint64_t bytes, const std::string& who);

  std::uint64_t bytes_ = 0;
  std::string origin_;
};

}  // namespace simm::base
