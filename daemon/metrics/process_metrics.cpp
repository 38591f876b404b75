#include "daemon/metrics/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

namespace simm::control {
namespace {

double seconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

double now_s(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return seconds(now);
}

// proc(5): field 22 of /proc/self/stat is when the process began, in ticks after boot. The second
// field is a name in parentheses that may hold anything, so fields are counted from its end.
double start_time_s() {
  std::ifstream file("/proc/self/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double ticks = 0;
  if (!(fields >> ticks)) return 0;
  const double age_s = now_s(CLOCK_BOOTTIME) - ticks / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return now_s(CLOCK_REALTIME) - age_s;
}

std::uint64_t open_descriptors() {
  DIR* directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  std::uint64_t entries = 0;
  while (::readdir(directory) != nullptr) ++entries;
  ::closedir(directory);
  constexpr std::uint64_t kNotOurs = 3;  // ".", "..", and the directory itself
  return entries > kNotOurs ? entries - kNotOurs : 0;
}

}  // namespace

ProcessMetrics::ProcessMetrics() : started_s_(start_time_s()) {}

void ProcessMetrics::write(MetricsText& text) const {
  text.family("process_cpu_seconds_total", MetricType::counter,
              "CPU time of all threads, in user and system mode.");
  text.sample("", now_s(CLOCK_PROCESS_CPUTIME_ID));
  if (started_s_ > 0) {
    text.family("process_start_time_seconds", MetricType::gauge,
                "When the process began, since 1970.");
    text.sample("", started_s_);
  }
  std::uint64_t virtual_pages = 0;
  std::uint64_t resident_pages = 0;
  if (std::ifstream file("/proc/self/statm"); file >> virtual_pages >> resident_pages) {
    const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    text.family("process_virtual_memory_bytes", MetricType::gauge, "Address space in use.");
    text.sample("", virtual_pages * page_bytes);
    text.family("process_resident_memory_bytes", MetricType::gauge,
                "Memory in use, of the pool what has been touched.");
    text.sample("", resident_pages * page_bytes);
  }
  if (const std::uint64_t open = open_descriptors(); open > 0) {
    text.family("process_open_fds", MetricType::gauge, "Open file descriptors.");
    text.sample("", open);
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    text.family("process_max_fds", MetricType::gauge, "Most file descriptors that it may open.");
    text.sample("", std::uint64_t{limit.rlim_cur});
  }
}

}  // namespace simm::control
