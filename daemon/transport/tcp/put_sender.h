// PutSender: the payloads of a link's puts, chunk by chunk. A chunk of memory that is mapped here
// is digested where it lies, and the kernel copies it from there. A client that writes to it
// meanwhile spoils its own put: the owner finds another digest. Memory that only a helper reaches
// is copied into private blocks by the Mover, and never has all of them, so it holds up nobody
// else. Short pages are copied into the request itself. Owned by a RequesterLink. Thread: the
// engine's data agent. No allocation after construction.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "daemon/base/free_slots.h"
#include "daemon/base/hash.h"
#include "daemon/base/lazy_array.h"
#include "daemon/transport/tcp/requester_link_shared.h"
#include "daemon/transport/tcp/tcp_connection.h"
#include "daemon/transport/tcp/tcp_posted.h"
#include "daemon/transport/tcp/wire.h"

namespace simm::transport {

class PutSender {
public:
  // done: something was queued. blocked: no room on this link. waiting: a copy is made elsewhere;
  // others may go on.
  enum class Step : std::uint8_t { done, blocked, waiting };

  // Both outlive the sender.
  PutSender(RequesterLinkShared& shared, TcpConnection& connection);

  // Copies the short pages of mapped regions to `to`, in page order, and marks them; how many bytes
  // those are. A page that can not be read is not among them: the server pulls it, and learns then
  // that it does not come.
  std::uint32_t copy_inline_pages(const TcpPosted& posted, std::byte* to,
                                  std::span<std::uint8_t> is_inline) noexcept;
  // A chunk of the first page that was pulled. `digest` is the slot's.
  Step send_page(TcpPosted& posted, std::uint32_t slot, base::PayloadDigest& digest) noexcept;
  // The tag of a payload: the number of its block, or what it is of a client's.
  struct ClientChunk {
    std::uint32_t slot = 0;
    std::uint16_t page = 0;
  };
  [[nodiscard]] static std::optional<ClientChunk> client_chunk(std::uint32_t tag) noexcept {
    if ((tag & kClientTag) == 0) return std::nullopt;
    return ClientChunk{(tag & ~kClientTag) >> 16, static_cast<std::uint16_t>(tag)};
  }
  // A block was sent.
  void give_back(std::uint32_t block) noexcept { free_.give(block); }
  // Of a link that ends. True: no Mover touches the put's slices or a block any more.
  [[nodiscard]] bool stop(TcpPosted& posted) noexcept;
  // Nothing is under way: all blocks are free.
  void reset() noexcept { free_.reset(); }

private:
  static constexpr std::uint32_t kBlocks = 6;
  static constexpr std::uint32_t kBlocksForForeign = 3;

  static constexpr std::uint32_t kClientTag = 1u << 31;
  static_assert(wire::kSlotsMax <= kClientTag >> 16);

  Step send_chunk(TcpPosted& posted, std::uint32_t slot, base::PayloadDigest& digest) noexcept;
  [[nodiscard]] bool begin_chunk(TcpPosted& posted, const PageRequest& page) noexcept;
  Step send_block(TcpPosted& posted, std::uint32_t slot, base::PayloadDigest& digest) noexcept;
  Step queue_chunk(TcpPosted& posted, std::uint32_t slot, const base::PayloadDigest& digest,
                   std::span<const std::byte> chunk, std::uint32_t tag) noexcept;
  Step fail_page(TcpPosted& posted, std::uint32_t slot, Status failure) noexcept;
  Step end_page(TcpPosted& posted, std::uint32_t slot, Status failure) noexcept;
  [[nodiscard]] std::byte* block_at(std::uint32_t block) noexcept {
    return &blocks_[std::size_t{block} * kChunkBytes];
  }

  RequesterLinkShared& shared_;
  TcpConnection& connection_;
  base::LazyArray<std::byte> blocks_;
  base::FreeSlots free_{kBlocks};
  base::PayloadDigest scratch_digest_;  // what a Mover wants and nobody reads
};

}  // namespace simm::transport
