// FaultGuard: memcpy that survives the disappearance of a client's memory.
//
// A client can truncate a file that it shares, or the file system can run out of pages: touching
// the mapping is SIGBUS then. Around a copy the calling thread arms a recovery point (sigsetjmp)
// that covers exactly the client's bytes of this copy; the handler jumps back to it and the copy
// fails. SIGBUS at any other address is our own bug or broken memory and ends the process, on
// purpose.
//
// Thread: install() once before the first copy (safe to repeat, any thread); guarded_copy() from
// any.
#pragma once

#include <cstddef>

#include "daemon/memory/stream_copy.h"

namespace simm::memory {

class FaultGuard {
public:
  // Installs the process-wide SIGBUS handler.
  static void install() noexcept;

  // Copies like memcpy. `client` is the one of the two ranges that may vanish: only faults inside
  // [client, client + bytes) are survived. False: a fault, and any part of the target is written.
  [[nodiscard]] static bool copy(std::byte* to, const std::byte* from, std::size_t bytes,
                                 const std::byte* client) noexcept;

  // Copies like stream_copy(): around the cache, and past a sink.
  [[nodiscard]] static bool stream(std::byte* to, const std::byte* from, std::size_t bytes,
                                   const std::byte* client) noexcept;
  [[nodiscard]] static bool stream(std::byte* to, const std::byte* from, std::size_t bytes,
                                   const std::byte* client, BlockSink sink) noexcept;

  // Shows [client, client + bytes) to the sink in one piece, where it lies.
  [[nodiscard]] static bool show(const std::byte* client, std::size_t bytes,
                                 BlockSink sink) noexcept;
};

}  // namespace simm::memory
