#include "daemon/tools/simm-bench/probe_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "daemon/tools/simm-bench/subprocess.h"

namespace simm::bench {

struct ProbeFile::Slot {
  std::atomic<std::uint32_t> thread_id;
  std::uint32_t unused;
  std::atomic<std::uint64_t> allocations;
};

namespace {

constexpr std::size_t kSlots = 1024;
constexpr std::size_t kSlotBytes = 16;
constexpr std::size_t kFileBytes = kSlots * kSlotBytes;

}  // namespace

ProbeFile::ProbeFile() {
  static_assert(sizeof(Slot) == kSlotBytes);
  fd_ = mkostemp(path_.data(), O_CLOEXEC);
  if (fd_ < 0 || ftruncate(fd_, static_cast<off_t>(kFileBytes)) != 0) return;
  void* at = mmap(nullptr, kFileBytes, PROT_READ, MAP_SHARED, fd_, 0);
  if (at != MAP_FAILED) slots_ = static_cast<const Slot*>(at);
}

ProbeFile::~ProbeFile() {
  if (slots_ != nullptr) munmap(const_cast<Slot*>(slots_), kFileBytes);
  if (fd_ < 0) return;
  unlink(path_.c_str());
  close(fd_);
}

std::vector<std::pair<std::string, std::string>> ProbeFile::environment() const {
  return {{"LD_PRELOAD", program_path("liballocation_probe.so")}, {"SIMM_ALLOCATION_FILE", path_}};
}

ThreadAllocations ProbeFile::count(pid_t pid) const {
  ThreadAllocations counts;
  const std::filesystem::path tasks = "/proc/" + std::to_string(pid) + "/task";
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator(tasks, gone)) {
    std::ifstream comm(task.path() / "comm");
    std::string name;
    if (!std::getline(comm, name)) continue;
    counts[name] += count_of(std::stoul(task.path().filename().string()));
  }
  return counts;
}

std::uint64_t ProbeFile::count_of(std::uint64_t thread_id) const {
  for (std::size_t i = 0; i < kSlots; ++i) {
    if (slots_[i].thread_id.load() == thread_id) return slots_[i].allocations.load();
  }
  return 0;  // it has never allocated
}

}  // namespace simm::bench
