#include "tests/siege/loop_watch.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>

#include "daemon/base/counters.h"
#include "ipc/admin_codec.h"
#include "ipc/fd.h"
#include "ipc/fd_socket.h"

namespace simm::siege {
namespace watched {

// What a thread has had so far, in nanoseconds; nothing more when it has ended.
struct CpuTimes {
  unsigned long long on_cpu = 0;
  unsigned long long waited = 0;  // for a CPU
};

class ThreadTimes {
public:
  explicit ThreadTimes(const std::string& thread)
      : file_(::open((thread + "/schedstat").c_str(), O_RDONLY | O_CLOEXEC)) {}
  [[nodiscard]] CpuTimes get() const {
    char text[96] = {};
    CpuTimes times;
    const bool is_read = ::pread(file_.get(), text, sizeof text - 1, 0) > 0;
    if (is_read) (void)std::sscanf(text, "%llu %llu", &times.on_cpu, &times.waited);
    return times;
  }

private:
  ipc::UniqueFd file_;
};

// One value of a daemon's counters file.
class CounterFile {
public:
  CounterFile(const std::string& path, const std::string& name)
      : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    base::CountersHeader header{};
    REQUIRE(::pread(file_.get(), &header, sizeof header, 0) == sizeof header);
    for (std::uint32_t i = 0; i < header.count; ++i) {
      base::CounterLabel label{};
      const std::uint64_t at = header.labels_offset + i * sizeof label;
      REQUIRE(::pread(file_.get(), &label, sizeof label, static_cast<off_t>(at)) == sizeof label);
      if (name == std::string_view(label.name, label.name_bytes)) {
        at_ = static_cast<off_t>(header.values_offset + i * sizeof(std::uint64_t));
      }
    }
    REQUIRE_MESSAGE(at_ != 0, name);
  }
  [[nodiscard]] std::uint64_t value() const {
    std::uint64_t value = 0;
    return ::pread(file_.get(), &value, sizeof value, at_) == sizeof value ? value : 0;
  }

private:
  const ipc::UniqueFd file_;
  off_t at_ = 0;
};

// By name, of one process: their directories in /proc.
inline std::multimap<std::string, std::string> threads_of(pid_t process) {
  std::multimap<std::string, std::string> found;
  const std::filesystem::path all("/proc/" + std::to_string(process) + "/task");
  for (const auto& thread : std::filesystem::directory_iterator(all)) {
    std::ifstream file(thread.path() / "comm");
    std::string name;
    std::getline(file, name);
    found.emplace(name, thread.path());
  }
  return found;
}

// What a thread has done, and how long all of its process have waited for a CPU.
struct Times {
  CpuTimes own;
  std::uint64_t all_waited = 0;
};

class TimesOf {
public:
  // `thread`: its directory in /proc.
  TimesOf(pid_t process, const std::string& thread) : own_(thread) {
    for (const auto& [name, path] : threads_of(process)) all_.emplace_back(path);
  }
  [[nodiscard]] Times get() const {
    Times times{own_.get()};
    for (const ThreadTimes& thread : all_) times.all_waited += thread.get().waited;
    return times;
  }

private:
  const ThreadTimes own_;
  std::vector<ThreadTimes> all_;
};

}  // namespace watched

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLook = std::chrono::milliseconds(1);
// A look that comes later than that does not know when a turn began.
constexpr std::uint64_t kLateNs = 3'000'000;
constexpr std::uint64_t kAnswerNs = 60'000'000'000;

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(Clock::now().time_since_epoch() / std::chrono::nanoseconds(1));
}

std::uint64_t less(std::uint64_t of, std::uint64_t by) {
  return of - std::min(of, by);
}

// What counts of `ns` in which a thread did not come round.
Absence absence(const std::string& thread, std::uint64_t ns, const watched::Times& before,
                const watched::Times& now) {
  const std::uint64_t own_waited = now.own.waited - before.own.waited;
  const std::uint64_t away_ns = less(ns, own_waited);
  const std::uint64_t on_cpu_ns =
      std::min(away_ns, std::uint64_t{now.own.on_cpu - before.own.on_cpu});
  const std::uint64_t others_waited = less(now.all_waited - before.all_waited, own_waited);
  const std::uint64_t still_ns = less(away_ns - on_cpu_ns, others_waited);
  return {thread, (on_cpu_ns + still_ns) / 1'000, on_cpu_ns / 1'000};
}

// Before the daemons, if this machine gives precedence: whoever looks late sees little.
void go_first() {
  sched_param wanted{};
  wanted.sched_priority = 3;
  (void)::sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &wanted);
}

}  // namespace

// A thread that counts its turns.
class LoopWatch::DataThread {
public:
  // `path`: its directory in /proc; `number`: of simm-data<number>.
  DataThread(pid_t process, const std::string& path, const std::string& number,
             const std::string& counters)
      : name("data" + number),
        times_(process, path),
        turns_(counters, "runner.data" + number + ".turns"),
        long_turns_(counters, "runner.data" + number + ".turn_over_10ms"),
        longest_turn_(counters, "runner.data" + number + ".turn_ns_max"),
        last_{now_ns(), times_.get(), turns_.value(), long_turns_.value(), longest_turn_.value()},
        moved_(last_) {}

  const std::string name;

  // In a turn that has ended since the last look; 0: in none for long.
  Absence look() {
    const Look seen{now_ns(), times_.get(), turns_.value(), long_turns_.value(),
                    longest_turn_.value()};
    was_late_ |= seen.at_ns - last_.at_ns > kLateNs;
    Absence away{name};
    if (seen.long_turns != last_.long_turns) {
      const std::uint64_t since_ns = seen.at_ns - moved_.at_ns;
      const bool is_known = seen.longest_ns != last_.longest_ns;
      const std::uint64_t turn_ns =
          is_known ? seen.longest_ns : std::min(since_ns, seen.longest_ns);
      if (is_known || !was_late_) away = absence(name, turn_ns, moved_.times, seen.times);
    }
    if (seen.turns != last_.turns) {
      moved_ = seen;
      was_late_ = false;
    }
    last_ = seen;
    return away;
  }

private:
  struct Look {
    std::uint64_t at_ns;
    watched::Times times;
    std::uint64_t turns;
    std::uint64_t long_turns;
    std::uint64_t longest_ns;
  };

  const watched::TimesOf times_;
  const watched::CounterFile turns_;
  const watched::CounterFile long_turns_;
  const watched::CounterFile longest_turn_;
  Look last_;
  Look moved_;             // the last one that saw another number of turns
  bool was_late_ = false;  // a look since then
};

LoopWatch::LoopWatch(const Daemons& daemons) {
  constexpr std::string_view kDataThread = "simm-data";
  for (const test_support::DaemonProcess* daemon : daemons) {
    for (const auto& [name, path] : watched::threads_of(daemon->pid())) {
      if (name.rfind(kDataThread, 0) != 0) continue;
      data_threads_.push_back(std::make_unique<DataThread>(
          daemon->pid(), path, name.substr(kDataThread.size()), daemon->directory() + "/counters"));
    }
    threads_.emplace_back([this, socket = daemon->admin_socket(), pid = daemon->pid()] {
      ask_control_thread(socket, pid);
    });
  }
  REQUIRE(!data_threads_.empty());
  threads_.emplace_back([this] { look_at_data_threads(); });
}

LoopWatch::~LoopWatch() {
  stop_ = true;
  for (std::thread& thread : threads_) thread.join();
}

Absences LoopWatch::take_longest() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return std::exchange(longest_, {});
}

void LoopWatch::note(Absence Absences::*of, const Absence& away) {
  const std::lock_guard<std::mutex> lock(mutex_);
  Absence& longest = longest_.*of;
  if (of == &Absences::control) ++longest_.asked;
  if (away.us > longest.us) longest = away;
}

void LoopWatch::look_at_data_threads() {
  go_first();
  while (!stop_) {
    std::this_thread::sleep_for(kLook);
    for (const auto& thread : data_threads_) {
      const Absence away = thread->look();
      if (away.us > 0) note(&Absences::data, away);
    }
  }
}

void LoopWatch::ask_control_thread(const std::string& socket, pid_t daemon) {
  go_first();
  auto connection = ipc::FdSocket::connect(socket, kAnswerNs);
  if (!connection) return;
  const watched::TimesOf its(daemon,
                             "/proc/" + std::to_string(daemon) + "/task/" + std::to_string(daemon));
  const watched::ThreadTimes own("/proc/thread-self");
  std::vector<std::byte> buffer(ipc::kControlMessageBytesMax);
  // A page of a reply that there is not: nothing has to be looked up for it.
  ipc::AdminRequest question{1, "", "", 1};
  const auto packet = ipc::encode(question);
  while (!stop_ && packet) {
    const watched::Times before = its.get();
    const std::uint64_t own_before_ns = own.get().waited;
    const std::uint64_t asked_ns = now_ns();
    if (connection->send(*packet, {}, kAnswerNs) != ipc::SocketResult::done) return;
    if (connection->receive(buffer, kAnswerNs).result != ipc::SocketResult::done) return;
    const std::uint64_t took_ns = less(now_ns() - asked_ns, own.get().waited - own_before_ns);
    note(&Absences::control, absence("control", took_ns, before, its.get()));
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace simm::siege
