// ProbeFile: the file that the library liballocation_probe.so, preloaded into a daemon, counts the
// heap allocations of each of its threads into; a file for each daemon.
// tests/bench/allocation_probe.cpp has the same layout. Thread: the one that made it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace simm::bench {

// Heap allocations by the name of the thread.
using ThreadAllocations = std::map<std::string, std::uint64_t>;

class ProbeFile {
public:
  ProbeFile();
  ~ProbeFile();
  ProbeFile(const ProbeFile&) = delete;
  ProbeFile& operator=(const ProbeFile&) = delete;

  // False: errno says why the file could not be made.
  [[nodiscard]] bool is_open() const noexcept { return slots_ != nullptr; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  // What a daemon has to be started with.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> environment() const;

  // Allocations so far of the threads of `pid`; none is a count, too.
  [[nodiscard]] ThreadAllocations count(pid_t pid) const;

private:
  struct Slot;

  [[nodiscard]] std::uint64_t count_of(std::uint64_t thread_id) const;

  std::string path_ = "/tmp/simm-allocations.XXXXXX";
  int fd_ = -1;
  const Slot* slots_ = nullptr;
};

}  // namespace simm::bench
