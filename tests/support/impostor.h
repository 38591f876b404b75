// Impostor: a port where a stranger answers in the place of somebody else. It waits for the first
// bytes of a caller, says its words, and goes on to say some of them again, for ever.
// Thread: the test's; each caller has a thread of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "ipc/fd.h"

namespace simm::test_support {

struct ImpostorWords {
  std::string first;
  std::string again = {};              // without end, each after the pause; empty: nothing more
  std::chrono::milliseconds pause{0};  // at most a second
  bool hangs_up = true;                // when it has nothing more to say
};

class Impostor {
public:
  explicit Impostor(ImpostorWords words = {});
  ~Impostor();
  Impostor(const Impostor&) = delete;
  Impostor& operator=(const Impostor&) = delete;

  // From the next caller on.
  void say(ImpostorWords words);
  // "127.0.0.1:port".
  [[nodiscard]] const std::string& address() const noexcept { return address_; }
  [[nodiscard]] std::uint64_t callers() const noexcept { return callers_; }

private:
  void take_calls();
  void talk(const ipc::UniqueFd& caller, const ImpostorWords& words) const;

  ipc::UniqueFd listener_;
  std::string address_;
  std::mutex mutex_;
  ImpostorWords words_;
  std::atomic<bool> is_over_{false};
  std::atomic<std::uint64_t> callers_{0};
  std::vector<std::thread> talks_;  // of the thread that takes calls
  std::thread thread_;
};

}  // namespace simm::test_support
