// Log: entries for the callback of simm::set_log(), from where they happen (perhaps below a lock)
// to the end of a call of the public interface, where they are told.
// One for the process. Thread: any. Its mutex is the last of all locks, and held for a copy only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "libclient/no_cancel.h"
#include "simm/log.h"
#include "simm/simm.h"

namespace simm::detail {

class Log {
public:
  static constexpr std::size_t kLogEntriesMax = 32;

  static void set(LogCallback callback, simm_log_callback c_callback, void* context) noexcept;
  // printf-style; longer texts are cut. Waits for nobody, allocates nothing.
  static void note(LogLevel level, const char* format, ...) noexcept
      __attribute__((format(printf, 2, 3)));
  // Calls the callback for what was noted. No lock is held.
  static void tell() noexcept {
    if (waiting_.load(std::memory_order_relaxed)) tell_all();
  }

  static void before_fork() noexcept;
  static void after_fork_parent() noexcept;
  static void after_fork_child() noexcept;

private:
  static void tell_all() noexcept;
  static std::atomic<bool> waiting_;  // entries are there
};

// The frame of a call of the public interface.
class PublicCall {
public:
  PublicCall() noexcept = default;
  ~PublicCall() { Log::tell(); }
  PublicCall(const PublicCall&) = delete;
  PublicCall& operator=(const PublicCall&) = delete;

private:
  NoCancel no_cancel_;
};

}  // namespace simm::detail
