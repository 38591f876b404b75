// ForeignCopier: copies of one client's private memory, made by a worker process that can be
// killed. An agent posts a piece and asks in later turns whether it is done; it never waits.
//
// Bytes out of the pool's arena are written to the client from where they lie, in one copy. What is
// read from the client arrives in a bounce buffer of its own and is copied here: a worker can not
// write to the arena.
//
// Fence: fence() has the worker killed, and is_fenced() tells when it is certainly dead: until then
// it may still write into the client's pages, and read the extent that it writes there: neither may
// be used by anybody else before. Everything it worked on has failed then. revive() starts another
// worker, a limited number of times: a client that hangs its copies is on its own in the end.
//
// Owned by the session's regions together. Thread: post, poll, fence: any data agent, no lock, no
// allocation; revive: the control or registrar thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "daemon/memory/helper/adopt_client.h"
#include "daemon/memory/helper/foreign_arena.h"
#include "daemon/memory/helper/foreign_job.h"
#include "ipc/fd.h"
#include "ipc/fd_socket.h"
#include "ipc/mapping.h"
#include "ipc/peer_identity.h"
#include "simm/expected.h"

namespace simm::memory {

enum class PieceState : std::uint8_t {
  pending,
  ok,
  failed,  // the client's memory is not there
  lost,    // the worker was killed, because of another piece perhaps
};

class ForeignCopier {
public:
  using Ticket = std::uint64_t;                     // names a posted piece; 0 names none
  static constexpr std::uint32_t kWorkersMax = 16;  // lives of the worker

  // Starts the first worker. `helper`, `client` and the arena outlive the copier.
  static Expected<std::unique_ptr<ForeignCopier>> start(AdoptClient& helper,
                                                        const ipc::PeerIdentity& client,
                                                        const ForeignArena& arena);

  // Begins to copy `length` bytes (1 .. kReadBytesMax) out of the client's memory.
  // no_space: no slot is free, ask again in a later turn. unreachable: no worker.
  Status post_read(std::uint64_t client_address, std::uint64_t length, Ticket& ticket) noexcept;
  // Begins to copy `length` bytes (1 .. kWriteBytesMax) at `own`, in the arena, into the client's
  // memory; they do not change until the ticket is used up.
  Status post_write(std::uint64_t client_address, const std::byte* own, std::uint64_t length,
                    Ticket& ticket) noexcept;

  // What became of a piece. After ok, failed or lost the ticket is used up; of a read that is ok
  // the bytes are in `own` (null for a write, or when they do not matter any more).
  PieceState poll(Ticket ticket, std::byte* own, std::uint64_t length) noexcept;

  // Has the worker of the ticket killed. Call until is_fenced(): the first request may find no
  // room.
  void fence(Ticket ticket) noexcept;
  // The worker of the ticket is dead: nothing of the piece is under way. Uses the ticket up.
  bool is_fenced(Ticket ticket) noexcept;

  [[nodiscard]] bool needs_revival() const noexcept;
  // A new worker after the old one's death. out_of_memory when it had all its lives.
  Outcome revive();

private:
  struct Worker {
    ipc::FdSocket jobs;
    ipc::UniqueFd pidfd;
    std::uint32_t name = 0;
    ipc::Mapping bounce;
  };

  ForeignCopier(AdoptClient& helper, const ipc::PeerIdentity& client,
                const ForeignArena& arena) noexcept
      : helper_(helper), client_(client), arena_(arena) {}
  Expected<std::unique_ptr<Worker>> spawn();
  Status post(ForeignJob job, std::uint32_t slots_end, Ticket& ticket) noexcept;
  Worker& worker_of(Ticket ticket) noexcept;

  AdoptClient& helper_;
  const ipc::PeerIdentity& client_;
  const ForeignArena arena_;
  std::array<std::unique_ptr<Worker>, kWorkersMax> workers_;
  std::atomic<std::uint32_t> count_{
      0};  // workers_[0 .. count) never change; the last one is in use
};

}  // namespace simm::memory
