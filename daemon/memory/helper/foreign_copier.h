// ForeignCopier: the Copier of one client's private memory, whose worker process copies.
//
// fence() has the worker killed, and is_fenced() tells when it is certainly dead. Everything it
// worked on has failed then. revive() starts another worker, a limited number of times: a client
// that hangs its copies is on its own in the end.
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
#include "daemon/memory/helper/copier.h"
#include "daemon/memory/helper/foreign_arena.h"
#include "daemon/memory/helper/foreign_job.h"
#include "ipc/fd.h"
#include "ipc/fd_socket.h"
#include "ipc/mapping.h"
#include "ipc/peer_identity.h"
#include "simm/expected.h"

namespace simm::memory {

class ForeignCopier final : public Copier {
public:
  static constexpr std::uint32_t kWorkersMax = 16;  // lives of the worker

  // Starts the first worker. `helper`, `client` and the arena outlive the copier.
  static Expected<std::unique_ptr<ForeignCopier>> start(AdoptClient& helper,
                                                        const ipc::PeerIdentity& client,
                                                        const ForeignArena& arena);

  Status post_read(std::uint64_t client_address, std::uint64_t length,
                   Ticket& ticket) noexcept override;
  [[nodiscard]] std::uint64_t write_bytes_max(const std::byte* own) const noexcept override;
  Status post_write(std::uint64_t client_address, const std::byte* own, std::uint64_t length,
                    Ticket& ticket) noexcept override;
  PieceState poll(Ticket ticket, std::byte* own, std::uint64_t length) noexcept override;
  void fence(Ticket ticket) noexcept override;
  bool is_fenced(Ticket ticket) noexcept override;

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
