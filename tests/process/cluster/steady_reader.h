// SteadyReader: a client that gets all pages of a PageChecker again and again, in turn, and looks
// at every byte, until it is told to end. Thread: one of its own; the rest is the test's.
#pragma once

#include <atomic>
#include <thread>

#include "tests/process/cluster/cluster_processes.h"

namespace cluster_processes {

class SteadyReader {
public:
  // Of gets while objects move: a map that reaches a node too late makes one. Sanitizers make
  // daemons ten times as slow. Without reads that wait there are some hundreds.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  static constexpr int kMissesMax = 40;
#else
  static constexpr int kMissesMax = 4;
#endif

  SteadyReader(const DaemonProcess& node, int pages)
      : checker_(node), thread_([this, pages] {
          for (int page = 0; !is_over_; page = (page + 1) % pages) count(checker_.get(page));
        }) {}
  ~SteadyReader() {
    end();
  }
  void end() {
    is_over_ = true;
    if (thread_.joinable()) thread_.join();
  }

  std::atomic<int> hits{0};
  std::atomic<int> misses{0};
  std::atomic<int> failures{0};  // any other answer

private:
  void count(simm::Status status) {
    if (status == simm::Status::ok) {
      ++hits;
    } else if (status == simm::Status::not_found) {
      ++misses;
    } else {
      ++failures;
    }
  }

  std::atomic<bool> is_over_{false};
  Checker checker_;
  std::thread thread_;
};

}  // namespace cluster_processes
