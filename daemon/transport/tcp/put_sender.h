// PutSender: the payloads of a link's puts. The Mover copies a page chunk by chunk into private
// blocks; the sender digests each block and queues it. Short pages are copied into the request
// itself. Memory that only a helper reaches never has all blocks, so it holds up nobody else.
// Owned by a RequesterLink. Thread: the engine's data agent. No allocation after construction.
#pragma once

#include <cstdint>
#include <span>

#include "daemon/base/free_slots.h"
#include "daemon/base/hash.h"
#include "daemon/base/lazy_array.h"
#include "daemon/transport/tcp/requester_link_shared.h"
#include "daemon/transport/tcp/tcp_connection.h"
#include "daemon/transport/tcp/tcp_posted.h"

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
  // A block was sent: its number is the tag of its payload.
  void give_back(std::uint32_t block) noexcept { free_.give(block); }
  // Of a link that ends. True: no Mover touches the put's slices or a block any more.
  [[nodiscard]] bool stop(TcpPosted& posted) noexcept;
  // Nothing is under way: all blocks are free.
  void reset() noexcept { free_.reset(); }

private:
  static constexpr std::uint32_t kBlocks = 6;
  static constexpr std::uint32_t kBlocksForForeign = 3;

  [[nodiscard]] bool begin_chunk(TcpPosted& posted, const PageRequest& page) noexcept;
  Step queue_chunk(TcpPosted& posted, std::uint32_t slot, base::PayloadDigest& digest) noexcept;
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
