// The sink of reads of client memory (copy_untrusted.h) that takes a digest. Thread: any.
#pragma once

#include <cstddef>

#include "daemon/base/hash.h"
#include "daemon/memory/stream_copy.h"

namespace simm::transport {

[[nodiscard]] inline memory::BlockSink digest_sink(base::PayloadDigest* digest) noexcept {
  return {[](void* stream, const std::byte* block, std::size_t bytes) noexcept {
            static_cast<base::PayloadDigest*>(stream)->add(block, bytes);
          },
          digest};
}

}  // namespace simm::transport
