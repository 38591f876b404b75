// Copier: copies of memory that this process can not reach, made by a process that can be killed.
// An agent posts a piece and asks in later turns whether it is done; it never waits.
//
// Bytes out of the pool's arena are written from where they lie, in one copy. What is read arrives
// in a bounce buffer of the copier and is copied here: the other process can not write to the
// arena. Some copiers have such buffers for writes from elsewhere as well.
//
// Fence: after fence() has been called again and again until is_fenced(), nothing of the piece is
// under way. Until then the other process may still write into the client's pages, and read the
// extent that it writes there: neither may be used by anybody else before.
//
// Thread: any data agent; no call waits, takes a lock or allocates.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/memory/helper/object_part.h"
#include "simm/status.h"

namespace simm::memory {

inline constexpr std::uint64_t kReadBytesMax = 1024 * 1024;
inline constexpr std::uint64_t kWriteBytesMax = 8 * 1024 * 1024;

enum class PieceState : std::uint8_t {
  pending,
  ok,
  failed,  // the client's memory is not there
  lost,    // the other process was killed, because of another piece perhaps
  retry,   // the same of one that had the bytes nearer: post the piece again
};

class Copier {
public:
  using Ticket = std::uint64_t;  // names a posted piece; 0 names none

  virtual ~Copier() = default;

  // Begins to copy `length` bytes (1 .. kReadBytesMax) out of the client's memory.
  // no_space: no slot is free, ask again in a later turn. unreachable: nobody copies now.
  virtual Status post_read(std::uint64_t client_address, std::uint64_t length,
                           Ticket& ticket) noexcept = 0;
  // The longest piece that can be written from there. 0: no byte can, it is not in the arena.
  [[nodiscard]] virtual std::uint64_t write_bytes_max(const std::byte* own) const noexcept = 0;
  // Begins to copy `length` bytes (1 .. write_bytes_max) at `own` into the client's memory; they do
  // not change until the ticket is used up.
  virtual Status post_write(std::uint64_t client_address, const std::byte* own,
                            std::uint64_t length, Ticket& ticket) noexcept = 0;

  // The same of bytes that have a name. A copier that has copies of objects nearer to the client's
  // memory may write one of those.
  virtual Status post_object(std::uint64_t client_address, const ObjectPart&, const std::byte* own,
                             std::uint64_t length, Ticket& ticket) noexcept {
    return post_write(client_address, own, length, ticket);
  }

  // What became of a piece. After all but pending the ticket is used up; of a read that is ok
  // the bytes are in `own` (null for a write, or when they do not matter any more).
  virtual PieceState poll(Ticket ticket, std::byte* own, std::uint64_t length) noexcept = 0;

  // Has the piece end. Call until is_fenced(), which uses the ticket up.
  virtual void fence(Ticket ticket) noexcept = 0;
  virtual bool is_fenced(Ticket ticket) noexcept = 0;
};

}  // namespace simm::memory
