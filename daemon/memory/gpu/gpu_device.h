// GpuDevice: one GPU of the host as the daemon reaches it: through its helper process. Imports
// memory of clients, and posts pieces to copy between that memory and the pool.
//
// A helper that hangs, or whose driver fails, is dead within a second or so. All that was under way
// ends as lost. Another helper takes its place, a limited number of times, and imports the memory
// of all clients again: the daemon has kept their descriptors.
//
// GpuImport: the Copier of one region. Its addresses are offsets in the client's allocation.
//
// Thread: start, import, maintain, and the end of an import: the adopter, one at a time; they wait
// for the helper, kGpuAnswerNs at most. What a Copier does: any data agent, no lock, no allocation.
// view(): any, it takes a lock that no data agent takes.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/memory/gpu/gpu_figures.h"
#include "daemon/memory/gpu/gpu_keeper.h"
#include "daemon/memory/gpu/gpu_protocol.h"
#include "daemon/memory/gpu/gpu_shares.h"
#include "daemon/memory/helper/copier.h"
#include "daemon/memory/helper/foreign_arena.h"
#include "daemon/memory/helper/process_pulse.h"
#include "ipc/fd.h"
#include "ipc/fd_socket.h"
#include "ipc/mapping.h"
#include "simm/expected.h"

namespace simm::memory {

class GpuImport;

class GpuDevice : public std::enable_shared_from_this<GpuDevice> {
public:
  static constexpr std::uint32_t kLivesMax = 16;  // of the helper
  // So many looks of maintain() without a sign of life: the helper is killed.
  static constexpr std::uint32_t kSilentLooksMax = 100;
  // After so many of them it is called hung. One that has nothing to do gives a sign in ten.
  static constexpr std::uint32_t kHungLooks = 30;
  // So many looks for a piece that somebody waits for after its deadline: what may be queued on a
  // GPU is done in less.
  static constexpr std::uint32_t kFencedLooksMax = 10;
  // So many looks do not count at most, one after the other, because the helper got no CPU.
  static constexpr std::uint32_t kStarvedLooksMax = 1'000;
  static constexpr std::uint64_t kGpuAnswerNs = 5'000'000'000;
  // So many looks pass between two attempts to start a helper that does not start; twice as many
  // each time.
  static constexpr std::uint32_t kStartLooksMin = 10;
  static constexpr std::uint32_t kStartLooksMax = 1'000;

  // Starts the first helper. `keeper` and the arena outlive the device.
  static Expected<std::shared_ptr<GpuDevice>> start(GpuKeeper& keeper, const GpuUuid& uuid,
                                                    const ForeignArena& arena, bool pins_arena);
  ~GpuDevice();

  // Maps an allocation of a client. Takes the descriptor and keeps it for the helper's next life.
  // out_of_memory: the tenant has its share of imports, or the GPU has no room.
  Expected<std::unique_ptr<GpuImport>> import(ipc::UniqueFd allocation,
                                              std::uint64_t allocation_bytes, std::uint64_t tenant);

  // Call every 10 ms or so: kills a helper that is silent or does not end a piece that was fenced,
  // and brings a dead one back.
  void maintain();

  [[nodiscard]] const GpuUuid& uuid() const noexcept { return uuid_; }
  [[nodiscard]] std::uint32_t lives() const noexcept {
    return count_.load(std::memory_order_acquire);
  }
  [[nodiscard]] GpuView view() const;

private:
  friend class GpuImport;
  struct Life {
    ipc::FdSocket control;
    ipc::FdSocket jobs;
    ipc::UniqueFd pidfd;
    ipc::Mapping file;
    pid_t pid = -1;
    ProcessPulse pulse{-1};
    std::array<std::atomic<bool>, kGpuSlots> fenced{};  // somebody waits for the slot's end
    std::array<std::uint32_t, kGpuSlots> bytes{};       // of its piece; of who has claimed it
    // maintain()'s:
    std::array<std::uint32_t, kGpuSlots> fenced_looks{};
    std::uint64_t turns = 0;
    std::uint32_t silent_looks = 0;
    std::uint32_t starved_looks = 0;
    std::atomic<bool> is_hung{false};
    bool is_buried = false;  // why it has ended was noted
  };

  GpuDevice(GpuKeeper& keeper, const GpuUuid& uuid, const ForeignArena& arena,
            bool pins_arena) noexcept
      : keeper_(keeper), uuid_(uuid), arena_(arena), pins_arena_(pins_arena) {}

  Outcome revive();
  // The same, if the last attempt was long enough ago.
  Outcome revive_in_time();
  Outcome ask(Life& life, const GpuControl& wanted, int descriptor);
  Outcome import_in(Life& life, GpuImport& import);
  // With a helper that lives: a dead one is replaced first.
  Outcome import_once(GpuImport& import);
  void forget(GpuImport& import);
  void kill(Life& life, const char* why);
  // Of one that is dead: notes why, if nobody has killed it.
  void bury(Life& life);
  void note(std::string trouble);
  // What became of a piece.
  void count(std::uint32_t slot, std::uint64_t bytes, PieceState state) noexcept;
  static bool is_alive(const Life& life) noexcept;
  [[nodiscard]] bool is_hung(Life& life) noexcept;
  // It is silent because other processes have the CPUs.
  [[nodiscard]] static bool starves(Life& life) noexcept;

  // In the first free slot of [job.slot, slots_end), which are of one kind. `bounced`: what the
  // slot's buffer gets first.
  Status post(const GpuImport& import, GpuJob job, std::uint32_t slots_end,
              const std::byte* bounced, Copier::Ticket& ticket) noexcept;
  Status post_in_slot(std::uint32_t number, GpuJob job, std::uint32_t slots_end,
                      const std::byte* bounced, Copier::Ticket& ticket) noexcept;
  Life& life_of(Copier::Ticket ticket) noexcept;

  GpuKeeper& keeper_;
  const GpuUuid uuid_;
  const ForeignArena arena_;
  const bool pins_arena_;
  std::array<std::unique_ptr<Life>, kLivesMax> lives_;
  std::atomic<std::uint32_t> count_{0};  // lives_[0 .. count) stay; the last one is in use
  std::vector<GpuImport*> imports_;      // by number; null: free. The adopter's
  std::uint32_t start_looks_ = 0;        // to wait before the next attempt to start a helper
  std::uint32_t next_start_looks_ = kStartLooksMin;
  GpuFigures figures_;
  GpuShares shares_;
  mutable std::mutex news_mutex_;  // of the two below; of the adopter and of those who look
  std::string model_;
  std::string last_error_;
};

class GpuImport final : public Copier {
public:
  GpuImport(std::shared_ptr<GpuDevice> device, std::uint32_t number, ipc::UniqueFd allocation,
            std::uint64_t bytes, std::shared_ptr<GpuShares::Held> held) noexcept
      : device_(std::move(device)),
        number_(number),
        allocation_(std::move(allocation)),
        bytes_(bytes),
        held_(std::move(held)) {}
  // The helper has unmapped the allocation, or is dead. Thread: the adopter.
  ~GpuImport() override;
  GpuImport(const GpuImport&) = delete;
  GpuImport& operator=(const GpuImport&) = delete;

  Status post_read(std::uint64_t offset, std::uint64_t length, Ticket& ticket) noexcept override;
  [[nodiscard]] std::uint64_t write_bytes_max(const std::byte* own) const noexcept override;
  Status post_write(std::uint64_t offset, const std::byte* own, std::uint64_t length,
                    Ticket& ticket) noexcept override;
  PieceState poll(Ticket ticket, std::byte* own, std::uint64_t length) noexcept override;
  // Pieces end by themselves in milliseconds; a helper in which one does not is killed.
  void fence(Ticket ticket) noexcept override;
  bool is_fenced(Ticket ticket) noexcept override;

private:
  friend class GpuDevice;
  const std::shared_ptr<GpuDevice> device_;
  const std::uint32_t number_;
  const ipc::UniqueFd allocation_;
  const std::uint64_t bytes_;
  const std::shared_ptr<GpuShares::Held> held_;  // by its tenant
  std::atomic<std::uint32_t> life_{0};           // of the helper that has it: its number, from 1 on
};

}  // namespace simm::memory
