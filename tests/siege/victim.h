// Victim: an honest client that stores and fetches verified pages on a thread of its own while the
// test attacks beside it. Its promises must hold whatever the attacker does.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>

namespace simm::siege {

class Victim {
public:
  explicit Victim(const std::string& socket_path);
  ~Victim() { stop(); }
  Victim(const Victim&) = delete;
  Victim& operator=(const Victim&) = delete;

  // Waits until it has done `count` more rounds; false after 20 s.
  [[nodiscard]] bool does_rounds(std::uint64_t count) const;
  void stop();
  [[nodiscard]] std::uint64_t rounds() const { return rounds_; }
  [[nodiscard]] std::uint64_t wrong() const { return wrong_; }    // hits with other bytes
  [[nodiscard]] std::uint64_t failed() const { return failed_; }  // neither ok nor a miss

private:
  void run(const std::string& socket_path);

  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> rounds_{0};
  std::atomic<std::uint64_t> wrong_{0};
  std::atomic<std::uint64_t> failed_{0};
  std::thread thread_;
};

}  // namespace simm::siege
