#include "daemon/memory/helper/process_pulse.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <string_view>

#include "ipc/fd.h"

namespace simm::memory {
namespace {

// The start of a small file of a thread; empty: it can not be read.
std::string_view read_start(pid_t pid, pid_t thread, const char* name,
                            std::array<char, 256>& text) noexcept {
  std::array<char, 80> path{};
  (void)std::snprintf(path.data(), path.size(), "/proc/%d/task/%d/%s", static_cast<int>(pid),
                      static_cast<int>(thread), name);
  const ipc::UniqueFd file(::open(path.data(), O_RDONLY | O_CLOEXEC));
  if (!file) return {};
  const ssize_t bytes = ::read(file.get(), text.data(), text.size());
  return bytes > 0 ? std::string_view(text.data(), static_cast<std::size_t>(bytes))
                   : std::string_view();
}

// R of "7 (any name) R ...", as proc(5) describes `stat`. The name may have parentheses itself.
bool is_ready(std::string_view stat) noexcept {
  const std::size_t end_of_name = stat.rfind(')');
  return end_of_name != std::string_view::npos && stat.substr(end_of_name).starts_with(") R");
}

}  // namespace

bool ProcessPulse::starves() noexcept {
  std::array<char, 64> path{};
  (void)std::snprintf(path.data(), path.size(), "/proc/%d/task", static_cast<int>(pid_));
  DIR* const threads = ::opendir(path.data());
  std::array<Seen, kThreadsMax> now{};
  std::size_t count = 0;
  bool starved = false;
  for (const dirent* entry = nullptr;
       threads != nullptr && count < kThreadsMax && (entry = ::readdir(threads)) != nullptr;) {
    const std::string_view name = entry->d_name;
    Seen& seen = now[count];
    if (std::from_chars(name.data(), name.data() + name.size(), seen.thread).ec != std::errc()) {
      continue;  // of the folder itself
    }
    starved |= starves(seen);
    ++count;
  }
  if (threads != nullptr) ::closedir(threads);
  seen_ = now;
  count_ = count;
  return starved;
}

bool ProcessPulse::starves(Seen& now) const noexcept {
  std::array<char, 256> text;
  const bool ready = is_ready(read_start(pid_, now.thread, "stat", text));
  // The first number of `schedstat`: time on a CPU, in ns (the kernel's sched-stats.rst).
  const std::string_view times = read_start(pid_, now.thread, "schedstat", text);
  const bool known =
      std::from_chars(times.data(), times.data() + times.size(), now.cpu_ns).ec == std::errc();
  now.was_ready = known && ready;
  const auto before = std::find_if(seen_.begin(), seen_.begin() + count_,
                                   [&](const Seen& seen) { return seen.thread == now.thread; });
  return before != seen_.begin() + count_ && before->was_ready && now.was_ready &&
         before->cpu_ns == now.cpu_ns;
}

}  // namespace simm::memory
