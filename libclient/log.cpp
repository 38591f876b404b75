#include "libclient/log.h"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <mutex>

#include "libclient/fork_mutex.h"
#include "libclient/last_error.h"

namespace simm {

void set_log(LogCallback callback, void* context) noexcept {
  detail::Log::set(callback, nullptr, context);
}

namespace detail {
namespace {

struct Entry {
  LogLevel level = LogLevel::info;
  std::array<char, 320> text{};
};

struct Listener {
  LogCallback callback = nullptr;
  simm_log_callback c_callback = nullptr;  // at most one of the two
  void* context = nullptr;

  [[nodiscard]] bool is_there() const noexcept {
    return callback != nullptr || c_callback != nullptr;
  }
  void tell(const Entry& entry) const noexcept {
    if (callback != nullptr) callback(context, entry.level, entry.text.data());
    if (c_callback != nullptr)
      c_callback(context, static_cast<int>(entry.level), entry.text.data());
  }
};

// Trivially destructible: threads of the program may be in calls while the process exits.
struct Book {
  ForkMutex mutex;
  Listener listener;
  std::array<Entry, Log::kLogEntriesMax> entries;  // a ring
  std::size_t first = 0;
  std::size_t count = 0;
  std::uint64_t dropped = 0;
};
constinit Book book;
constinit std::atomic<bool> has_listener{false};
constinit std::atomic<bool> is_telling{false};
thread_local bool tells_here = false;

// Under the mutex. False: there is none.
bool take(Entry& entry) noexcept {
  if (book.count != 0) {
    entry = book.entries[book.first];
    book.first = (book.first + 1) % Log::kLogEntriesMax;
    --book.count;
    return true;
  }
  if (book.dropped == 0) return false;
  entry.level = LogLevel::warning;
  std::snprintf(entry.text.data(), entry.text.size(), "%llu more messages of libsimm were dropped",
                static_cast<unsigned long long>(book.dropped));
  book.dropped = 0;
  return true;
}

}  // namespace

constinit std::atomic<bool> Log::waiting_{false};

void Log::set(LogCallback callback, simm_log_callback c_callback, void* context) noexcept {
  {
    const std::lock_guard lock(book.mutex);
    book.listener = {callback, c_callback, context};
    book.count = book.dropped = 0;
    waiting_.store(false, std::memory_order_relaxed);
    has_listener.store(book.listener.is_there(), std::memory_order_relaxed);
  }
  while (!tells_here && is_telling.load(std::memory_order_acquire)) {
    is_telling.wait(true, std::memory_order_acquire);
  }
}

void Log::note(LogLevel level, const char* format, ...) noexcept {
  if (!has_listener.load(std::memory_order_relaxed)) return;
  Entry entry;
  entry.level = level;
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(entry.text.data(), entry.text.size(), format, arguments);
  va_end(arguments);
  const std::lock_guard lock(book.mutex);
  if (!book.listener.is_there()) return;
  if (book.count == kLogEntriesMax) {
    ++book.dropped;
  } else {
    book.entries[(book.first + book.count++) % kLogEntriesMax] = entry;
  }
  waiting_.store(true, std::memory_order_relaxed);
}

void Log::tell_all() noexcept {
  // Calls of the callback itself leave their entries to the loop below them.
  while (!tells_here && waiting_.load(std::memory_order_relaxed)) {
    if (is_telling.exchange(true, std::memory_order_acquire)) return;  // that thread takes them
    tells_here = true;
    const KeptLastError kept;
    for (;;) {
      Entry entry;
      Listener listener;
      {
        const std::lock_guard lock(book.mutex);
        listener = book.listener;
        if (!take(entry)) {
          waiting_.store(false, std::memory_order_relaxed);
          break;
        }
      }
      listener.tell(entry);
    }
    tells_here = false;
    is_telling.store(false, std::memory_order_release);
    is_telling.notify_all();
  }
}

void Log::before_fork() noexcept {
  book.mutex.hold_for_fork();
}
void Log::after_fork_parent() noexcept {
  book.mutex.release();
}
void Log::after_fork_child() noexcept {
  // What the parent noted the parent tells. Another thread of it may have been at that.
  book.count = book.dropped = 0;
  waiting_.store(false, std::memory_order_relaxed);
  if (!tells_here) is_telling.store(false, std::memory_order_relaxed);
  book.mutex.release_in_child();
}

}  // namespace detail
}  // namespace simm
