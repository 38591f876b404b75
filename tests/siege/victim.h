// Victim: an honest client that stores and fetches verified pages on a thread of its own while the
// test attacks beside it. Its promises must hold whatever the attacker does.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "simm/status.h"

namespace simm::siege {

// How it went for a while. A round is a put and a get of some pages.
struct Course {
  std::uint64_t rounds = 0;
  std::uint64_t p50_us = 0;
  std::uint64_t p99_us = 0;
  std::uint64_t worst_us = 0;
};

class Victim {
public:
  // With `daemons`, those that serve it: its course tells of them alone (take_precedence).
  explicit Victim(const std::string& socket_path, std::vector<pid_t> daemons = {});
  ~Victim() { stop(); }
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;

  // Waits until it has done `count` more rounds; false after 20 s.
  [[nodiscard]] bool does_rounds(std::uint64_t count) const;
  // What has come since the last call.
  [[nodiscard]] Course take_course();
  void stop();
  // False, too, until it has done a round.
  [[nodiscard]] bool has_precedence() const { return has_precedence_; }
  [[nodiscard]] std::uint64_t rounds() const { return rounds_; }
  [[nodiscard]] std::uint64_t wrong() const { return wrong_; }    // hits with other bytes
  [[nodiscard]] std::uint64_t failed() const { return failed_; }  // neither ok nor a miss
  // What has failed since the last call, and how often.
  [[nodiscard]] std::string take_failures();

private:
  void run(const std::string& socket_path, const std::vector<pid_t>& daemons);
  void fail(const char* what, Status why);
  void note(std::chrono::steady_clock::time_point began);

  std::atomic<bool> stop_{false};
  std::atomic<bool> has_precedence_{false};
  std::atomic<std::uint64_t> rounds_{0};
  std::atomic<std::uint64_t> wrong_{0};
  std::atomic<std::uint64_t> failed_{0};
  std::mutex mutex_;
  std::vector<std::uint64_t> rounds_us_;  // of each round since take_course()
  std::map<std::string, std::uint64_t> failures_;
  std::thread thread_;
};

}  // namespace simm::siege
