#include "daemon/memory/helper/foreign_copier.h"

#include <cstring>
#include <span>
#include <utility>

#include "ipc/memory_file.h"
#include "simm/check.h"

namespace simm::memory {

namespace {

constexpr ForeignCopier::Ticket make_ticket(std::uint32_t worker, std::uint32_t slot) {
  return static_cast<ForeignCopier::Ticket>(worker + 1) << 32 | slot;
}
constexpr std::uint32_t slot_of(ForeignCopier::Ticket ticket) {
  return static_cast<std::uint32_t>(ticket);
}

}  // namespace

Expected<std::unique_ptr<ForeignCopier>> ForeignCopier::start(AdoptClient& helper,
                                                              const ipc::PeerIdentity& client,
                                                              const ForeignArena& arena) {
  std::unique_ptr<ForeignCopier> copier(new ForeignCopier(helper, client, arena));
  if (Outcome alive = copier->revive(); !alive) return std::move(alive).error();
  return copier;
}

Expected<std::unique_ptr<ForeignCopier::Worker>> ForeignCopier::spawn() {
  Expected<ipc::MemoryFile> file =
      ipc::MemoryFile::create({"simm-bounce", kBounceBytes, false, true});
  if (!file) return std::move(file).error();
  auto worker = std::make_unique<Worker>();
  Expected<ipc::Mapping> mapping =
      ipc::Mapping::map(file->fd(), 0, kBounceBytes, {.dont_fork = true, .dont_dump = true});
  if (!mapping) return std::move(mapping).error();
  auto pair = ipc::FdSocket::pair();
  if (!pair) return std::move(pair).error();
  Expected<SpawnedWorker> spawned = helper_.spawn_worker(
      client_, {pair->second.fd(), file->fd(), arena_.fd, arena_.bytes.size()});
  if (!spawned) return std::move(spawned).error();
  worker->jobs = std::move(pair->first);
  worker->pidfd = std::move(spawned->pidfd);
  worker->name = spawned->name;
  worker->bounce = std::move(mapping).value();
  return worker;
}

bool ForeignCopier::needs_revival() const noexcept {
  const std::uint32_t count = count_.load(std::memory_order_acquire);
  return count < kWorkersMax && !ipc::pidfd_is_alive(workers_[count - 1]->pidfd.get());
}

Outcome ForeignCopier::revive() {
  const std::uint32_t count = count_.load(std::memory_order_relaxed);
  if (count == kWorkersMax) {
    return Error{Status::out_of_memory, "too many copies of this client's memory had to be killed"};
  }
  Expected<std::unique_ptr<Worker>> worker = spawn();
  if (!worker) return std::move(worker).error();
  workers_[count] = std::move(worker).value();
  count_.store(count + 1, std::memory_order_release);
  return Done{};
}

Status ForeignCopier::post_read(std::uint64_t client_address, std::uint64_t length,
                                Ticket& ticket) noexcept {
  return post({0, 0, client_address, length, 0}, kReadSlots, ticket);
}

std::uint64_t ForeignCopier::write_bytes_max(const std::byte* own) const noexcept {
  std::uint64_t offset = 0;
  return arena_.find(own, 1, offset) ? kWriteBytesMax : 0;
}

Status ForeignCopier::post_write(std::uint64_t client_address, const std::byte* own,
                                 std::uint64_t length, Ticket& ticket) noexcept {
  ForeignJob job{kReadSlots, 0, client_address, length, 0};
  SIMM_CHECK(arena_.find(own, length, job.arena_offset));
  return post(job, kForeignSlots, ticket);
}

// In the first free slot of [job.slot, slots_end).
Status ForeignCopier::post(ForeignJob job, std::uint32_t slots_end, Ticket& ticket) noexcept {
  const std::uint32_t index = count_.load(std::memory_order_acquire) - 1;
  Worker& worker = *workers_[index];
  if (!ipc::pidfd_is_alive(worker.pidfd.get())) return Status::unreachable;
  for (; job.slot < slots_end; ++job.slot) {
    SIMM_CHECK(is_job_sound(job, arena_.bytes.size()));
    PieceSlot& slot = bounce_slot(worker.bounce.data(), job.slot);
    if (!slot.claim()) continue;
    const ipc::SocketResult sent = worker.jobs.try_send(std::as_bytes(std::span(&job, 1)));
    if (sent == ipc::SocketResult::done) {
      ticket = make_ticket(index, job.slot);
      return Status::ok;
    }
    slot.release();
    return sent == ipc::SocketResult::would_block ? Status::no_space : Status::unreachable;
  }
  return Status::no_space;
}

ForeignCopier::Worker& ForeignCopier::worker_of(Ticket ticket) noexcept {
  const std::uint64_t number = ticket >> 32;
  SIMM_CHECK(number >= 1 && number <= count_.load(std::memory_order_acquire));
  SIMM_CHECK(slot_of(ticket) < kForeignSlots);
  return *workers_[number - 1];
}

PieceState ForeignCopier::poll(Ticket ticket, std::byte* own, std::uint64_t length) noexcept {
  Worker& worker = worker_of(ticket);
  PieceSlot& slot = bounce_slot(worker.bounce.data(), slot_of(ticket));
  const PieceState state = slot.look(ipc::pidfd_is_alive(worker.pidfd.get()));
  if (state == PieceState::pending) return state;
  if (state == PieceState::ok && own != nullptr) {
    SIMM_CHECK(!is_write_slot(slot_of(ticket)) && length <= kReadBytesMax);
    std::memcpy(own, bounce_bytes(worker.bounce.data(), slot_of(ticket)), length);
  }
  slot.release();
  return state;
}

void ForeignCopier::fence(Ticket ticket) noexcept {
  (void)helper_.kill_worker(worker_of(ticket).name);
}

bool ForeignCopier::is_fenced(Ticket ticket) noexcept {
  Worker& worker = worker_of(ticket);
  if (ipc::pidfd_is_alive(worker.pidfd.get())) return false;
  bounce_slot(worker.bounce.data(), slot_of(ticket)).release();
  return true;
}

}  // namespace simm::memory
