#include "daemon/memory/helper/process_pulse.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdio>
#include <string_view>

#include "ipc/fd.h"

namespace simm::memory {
namespace {

// The start of a small file of a process; empty: it can not be read.
std::string_view read_start(pid_t pid, const char* name, std::array<char, 256>& text) noexcept {
  std::array<char, 64> path{};
  (void)std::snprintf(path.data(), path.size(), "/proc/%d/%s", static_cast<int>(pid), name);
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
  std::array<char, 256> text;
  const bool ready = is_ready(read_start(pid_, "stat", text));
  // The first number of `schedstat`: time on a CPU, in ns (the kernel's sched-stats.rst).
  const std::string_view times = read_start(pid_, "schedstat", text);
  std::uint64_t cpu_ns = 0;
  const bool known =
      std::from_chars(times.data(), times.data() + times.size(), cpu_ns).ec == std::errc();
  const bool starved = known && ready && was_ready_ && cpu_ns == cpu_ns_;
  was_ready_ = known && ready;
  cpu_ns_ = cpu_ns;
  return starved;
}

}  // namespace simm::memory
