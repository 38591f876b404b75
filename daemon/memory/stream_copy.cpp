#include "daemon/memory/stream_copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace simm::memory {

namespace {

constexpr std::size_t kLine = 64;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kPages = 4;  // read side by side
constexpr std::size_t kBlock = kPages * kPage;

#if defined(__x86_64__)

struct Line {
  __m128i words[4];
};

inline Line load_line(const std::byte* from) noexcept {
  const auto* words = reinterpret_cast<const __m128i*>(from);
  return {{_mm_loadu_si128(words), _mm_loadu_si128(words + 1), _mm_loadu_si128(words + 2),
           _mm_loadu_si128(words + 3)}};
}
inline void store_line(std::byte* to, const Line& line) noexcept {
  auto* words = reinterpret_cast<__m128i*>(to);
  for (int i = 0; i < 4; ++i) _mm_store_si128(words + i, line.words[i]);
}
inline void stream_line(std::byte* to, const Line& line) noexcept {
  auto* words = reinterpret_cast<__m128i*>(to);
  for (int i = 0; i < 4; ++i) _mm_stream_si128(words + i, line.words[i]);
}

// One block; `to` is aligned to a line.
inline void stream_block(std::byte* to, const std::byte* from) noexcept {
  // SAFETY: line + page * kPage < kBlock, the length of both sides by contract. A prefetch never
  // faults, wherever it points.
  for (std::size_t line = 0; line < kPage; line += kLine) {
    for (std::size_t page = 0; page < kBlock; page += kPage) {
      stream_line(to + page + line, load_line(from + page + line));
    }
  }
}

// The same, with a copy in `mirror`; fetches the next block, because the sink is at work between
// two of them.
inline void stream_block(std::byte* to, std::byte* mirror, const std::byte* from) noexcept {
  for (std::size_t line = 0; line < kPage; line += kLine) {
    for (std::size_t page = 0; page < kBlock; page += kPage) {
      const std::size_t at = page + line;
      _mm_prefetch(reinterpret_cast<const char*>(from + kBlock + at), _MM_HINT_T0);
      const Line words = load_line(from + at);
      store_line(mirror + at, words);
      stream_line(to + at, words);
    }
  }
}

inline void order_stores() noexcept {
  _mm_sfence();
}

#else

inline void stream_block(std::byte* to, const std::byte* from) noexcept {
  std::memcpy(to, from, kBlock);
}
inline void stream_block(std::byte* to, std::byte* mirror, const std::byte* from) noexcept {
  std::memcpy(mirror, from, kBlock);
  std::memcpy(to, mirror, kBlock);
}
inline void order_stores() noexcept {}

#endif

// How many bytes there are up to the next line of the target.
std::size_t head_bytes(const std::byte* to, std::size_t bytes) noexcept {
  const std::size_t misplaced = reinterpret_cast<std::uintptr_t>(to) % kLine;
  return misplaced == 0 ? 0 : std::min(bytes, kLine - misplaced);
}

}  // namespace

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept {
  std::size_t at = head_bytes(to, bytes);
  std::memcpy(to, from, at);
  // SAFETY: `at` never passes `bytes`, the length of both sides.
  for (; bytes - at >= kBlock; at += kBlock) stream_block(to + at, from + at);
  std::memcpy(to + at, from + at, bytes - at);
  order_stores();
}

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes, BlockSink sink) noexcept {
  alignas(kLine) std::byte mirror[kBlock];
  const auto copy_part = [&](std::size_t at, std::size_t part) {  // less than a block
    std::memcpy(mirror, from + at, part);
    std::memcpy(to + at, mirror, part);
    sink.take(sink.context, mirror, part);
  };
  std::size_t at = head_bytes(to, bytes);
  if (at != 0) copy_part(0, at);
  for (; bytes - at >= kBlock; at += kBlock) {
    // SAFETY: a whole block remains on both sides, by the loop's condition.
    stream_block(to + at, mirror, from + at);
    sink.take(sink.context, mirror, kBlock);
  }
  if (at != bytes) copy_part(at, bytes - at);
  order_stores();
}

}  // namespace simm::memory
