// stream_copy: copies of large payloads that do not pass through the cache. Non-temporal stores
// save the read of the target that an ordinary store causes, and reading four pages side by side
// keeps more of the memory's channels busy than one sequential stream: together 1.4 to 1.9 times
// memcpy on the machines tried, for payloads larger than the second-level cache. Elsewhere than on
// x86-64 the same functions copy in the ordinary way.
//
// Every byte of `from` is loaded once: what `sink` sees is what was stored.
// Thread: any. Ordered before later stores when they return.
#pragma once

#include <cstddef>

namespace simm::memory {

// Told of each block of private bytes while it is in the first-level cache, in order.
struct BlockSink {
  void (*take)(void* context, const std::byte* block, std::size_t bytes) noexcept = nullptr;
  void* context = nullptr;
};

// Below this length an ordinary copy is better: its bytes are used again while they are in cache.
inline constexpr std::size_t kStreamBytesMin = 128 * 1024;

void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes) noexcept;

// The same, and shows each block to `sink`, out of a private buffer.
void stream_copy(std::byte* to, const std::byte* from, std::size_t bytes, BlockSink sink) noexcept;

}  // namespace simm::memory
