// Bytes that another process can write at any time: the only ways to touch them.
//
// UntrustedWord is a handle to a shared 32-bit word; its operations are whole-word atomics with a
// named order. copy_in() takes bytes out of shared memory exactly once, word by word, into private
// memory. So the value that was validated is the value that is used, whatever the other side writes
// meanwhile. copy_out() is the opposite direction. The accesses are relaxed atomics, so a
// concurrent writer is no data race. Content may be torn, which the reader's validation sees.
// Ordering comes from the cursor words alone.
//
// Every access goes through an Access policy, so that a test can run the production code and
// interleave it at each single access. DirectAccess is the real one.
// Thread: any; each function says nothing about who owns the memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ipc/futex.h"

namespace simm::ipc {

struct DirectAccess {
  template <typename Word>
  static Word load(const Word* word, std::memory_order order) noexcept {
    // atomic_ref of a const type is not in C++20; a load writes nothing.
    return std::atomic_ref<Word>(*const_cast<Word*>(word)).load(order);
  }
  template <typename Word>
  static void store(Word* word, Word value, std::memory_order order) noexcept {
    std::atomic_ref<Word>(*word).store(value, order);
  }
  template <typename Word>
  static Word exchange(Word* word, Word value, std::memory_order order) noexcept {
    return std::atomic_ref<Word>(*word).exchange(value, order);
  }
  static void wake(std::uint32_t* word) noexcept { futex_wake_one(word); }
  static bool wait(std::uint32_t* word, std::uint32_t value, std::uint64_t deadline_ns) noexcept {
    return futex_wait(word, value, deadline_ns);
  }
};

// A 32-bit word in shared memory. Copies name the same word.
template <typename Access>
class BasicUntrustedWord {
public:
  explicit BasicUntrustedWord(std::uint32_t* word) noexcept : word_(word) {}

  [[nodiscard]] std::uint32_t load_acquire() const noexcept {
    return Access::load(word_, std::memory_order_acquire);
  }
  [[nodiscard]] std::uint32_t load_seq_cst() const noexcept {
    return Access::load(word_, std::memory_order_seq_cst);
  }
  void store_relaxed(std::uint32_t value) noexcept {
    Access::store(word_, value, std::memory_order_relaxed);
  }
  void store_release(std::uint32_t value) noexcept {
    Access::store(word_, value, std::memory_order_release);
  }
  void store_seq_cst(std::uint32_t value) noexcept {
    Access::store(word_, value, std::memory_order_seq_cst);
  }
  std::uint32_t exchange_seq_cst(std::uint32_t value) noexcept {
    return Access::exchange(word_, value, std::memory_order_seq_cst);
  }
  // Wakes the one thread, of whatever process, that sleeps on this word. Never blocks.
  void wake() noexcept { Access::wake(word_); }
  // Sleeps while the word holds `value`: see futex_wait().
  bool wait(std::uint32_t value, std::uint64_t deadline_ns) noexcept {
    return Access::wait(word_, value, deadline_ns);
  }

private:
  std::uint32_t* word_;
};
using UntrustedWord = BasicUntrustedWord<DirectAccess>;

// Copies `bytes` of shared memory into private memory, reading each byte exactly once. Any
// alignment of `from`; words of eight bytes where it allows them.
template <typename Access>
inline void basic_copy_in(void* to, const void* from, std::size_t bytes) noexcept {
  auto* out = static_cast<unsigned char*>(to);
  const auto* in = static_cast<const unsigned char*>(from);
  while (bytes != 0 && reinterpret_cast<std::uintptr_t>(in) % 8 != 0) {
    *out++ = Access::load(in++, std::memory_order_relaxed);
    --bytes;
  }
  // Eight words a turn: a page descriptor is eight words, and copying is most of what it costs.
#pragma GCC unroll 8
  for (; bytes >= 8; bytes -= 8, in += 8, out += 8) {
    // SAFETY: `in` is 8-aligned by the loop above and 8 bytes remain.
    const std::uint64_t word =
        Access::load(reinterpret_cast<const std::uint64_t*>(in), std::memory_order_relaxed);
    std::memcpy(out, &word, 8);
  }
  for (; bytes != 0; --bytes) *out++ = Access::load(in++, std::memory_order_relaxed);
}

// Copies private memory into shared memory, writing each byte exactly once.
template <typename Access>
inline void basic_copy_out(void* to, const void* from, std::size_t bytes) noexcept {
  auto* out = static_cast<unsigned char*>(to);
  const auto* in = static_cast<const unsigned char*>(from);
  while (bytes != 0 && reinterpret_cast<std::uintptr_t>(out) % 8 != 0) {
    Access::store(out++, *in++, std::memory_order_relaxed);
    --bytes;
  }
  for (; bytes >= 8; bytes -= 8, in += 8, out += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, in, 8);
    // SAFETY: `out` is 8-aligned by the loop above and 8 bytes remain.
    Access::store(reinterpret_cast<std::uint64_t*>(out), word, std::memory_order_relaxed);
  }
  for (; bytes != 0; --bytes) Access::store(out++, *in++, std::memory_order_relaxed);
}

// The same for a struct of whole words: each is put together in a register. A struct that was just
// written field by field and is read back in wider words waits: every store before it has to reach
// the cache, the payload that the daemon has just copied included.
template <typename Access, std::size_t kWords>
inline void basic_copy_words_out(void* to, const std::uint64_t (&words)[kWords]) noexcept {
  auto* out = static_cast<std::uint64_t*>(to);  // SAFETY: the caller's struct is 8-aligned
#pragma GCC unroll 8
  for (std::size_t i = 0; i < kWords; ++i) {
    Access::store(out + i, words[i], std::memory_order_relaxed);
  }
}

inline void copy_in(void* to, const void* from, std::size_t bytes) noexcept {
  basic_copy_in<DirectAccess>(to, from, bytes);
}
inline void copy_out(void* to, const void* from, std::size_t bytes) noexcept {
  basic_copy_out<DirectAccess>(to, from, bytes);
}

// A private copy of a fixed struct that lies in shared memory.
template <typename T>
[[nodiscard]] inline T copy_untrusted_struct(const T* from) noexcept {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  copy_in(&value, from, sizeof value);
  return value;
}

}  // namespace simm::ipc
