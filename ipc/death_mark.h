// The death mark: a page that the kernel marks when a daemon's data threads end, whatever ends
// them. Clients see it at once. The hang-up of a session comes later, because the kernel first lets
// go of the dead process's memory: 22 to 54 ms for each GiB of small pages.
//
// Each data thread has a word of the page, which holds its thread number, and which is on its
// robust futex list (set_robust_list(2), Documentation/locking/robust-futex-ABI.rst of Linux). The
// kernel sets FUTEX_OWNER_DIED in it when the thread can not run any more, before it unmaps
// anything. So a page whose words all have that bit says: no thread of the daemon touches a
// client's memory any more. It says nothing of devices and of other processes.
//
//   at     what
//   0      magic, 8 bytes
//   8      words in use
//   12     zero
//   16     the words
//
// The list's entry lies in memory of the daemon alone, and others can not map the page writable. A
// client that could write the list would choose what the kernel writes.
#pragma once

#include <linux/futex.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ipc/fd.h"
#include "ipc/mapping.h"
#include "ipc/memory_file.h"
#include "simm/expected.h"

namespace simm::ipc {

inline constexpr std::uint64_t kDeathMarkMagic = 0x6b72616d6d6d6973;  // "simmmark"
inline constexpr std::size_t kDeathMarkBytes = 4096;
inline constexpr std::uint32_t kMarkedThreadsMax = 256;

struct DeathMarkPage {
  std::uint64_t magic;
  std::uint32_t count;
  std::uint32_t reserved;
  std::uint32_t words[kMarkedThreadsMax];
};
static_assert(offsetof(DeathMarkPage, count) == 8 && offsetof(DeathMarkPage, words) == 16);
static_assert(sizeof(DeathMarkPage) <= kDeathMarkBytes);

// The daemon's side. Owned by the composition root; outlives the threads that it marks.
// Thread: any.
class DeathMark {
public:
  // `threads`: 1 .. kMarkedThreadsMax.
  static Expected<DeathMark> create(std::uint32_t threads);
  DeathMark(DeathMark&& other) noexcept;
  DeathMark& operator=(DeathMark&&) = delete;

  // For clients.
  [[nodiscard]] int fd() const noexcept { return file_.fd(); }
  // Every thread holds its word: only then the page says something.
  [[nodiscard]] bool is_complete() const noexcept {
    return held_.load(std::memory_order_acquire) == threads_;
  }

  // Held by the thread of that number for as long as it may touch clients' memory. A thread that
  // ends after that leaves no mark. Where the kernel refuses, the page never becomes complete.
  // Thread: the one that is marked; not moved.
  class Hold {
  public:
    Hold(DeathMark& mark, std::uint32_t thread) noexcept;
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

  private:
    DeathMark& mark_;
    std::uint32_t* const word_;
    robust_list_head* former_ = nullptr;  // of the C library
    std::size_t former_bytes_ = 0;
    robust_list node_{};
    robust_list_head head_{};
    bool is_held_ = false;
  };

private:
  DeathMark(MemoryFile file, Mapping memory, std::uint32_t threads) noexcept;
  [[nodiscard]] DeathMarkPage& page() noexcept;

  MemoryFile file_;
  Mapping memory_;
  std::uint32_t threads_;
  std::atomic<std::uint32_t> held_{0};
};

// The client's side. Thread: any.
class DeathWatch {
public:
  DeathWatch() = default;  // of a daemon without a mark
  // incompatible: it is no such page.
  static Expected<DeathWatch> map(int fd);

  // No thread of the daemon touches this process's memory any more. False where there is no mark.
  [[nodiscard]] bool threads_ended() const noexcept;
  // In a forked child: see Mapping.
  void forget() noexcept { memory_.forget(); }

private:
  Mapping memory_;
  std::uint32_t count_ = 0;
};

}  // namespace simm::ipc
