// GpuDevice: one GPU of the host as the daemon reaches it: through its helper process. Imports
// memory of clients, and posts pieces to copy between that memory and the pool.
//
// A helper that hangs, or whose driver fails, is dead within a second or so. All that was under way
// ends as lost. Another helper takes its place, and imports the memory of all clients again: the
// daemon has kept their descriptors. Helpers that die one after the other use up the restarts that
// the GPU has, kRestartsMax. One of them comes back every kRestartLooks, whether a helper runs or
// not. Pieces refer to the helper that has them, so what the daemon knows of a dead one stays; its
// buffers do not. Therefore a GPU has kLivesMax helpers at most until the daemon is restarted.
//
// GpuImport: the Copier of one region. Its addresses are offsets in the client's allocation. Where
// other GPUs have tiers, their helpers import the region as well: a piece that one of those tiers
// has is pushed by that helper, over NVLink or PCIe. Without access between the two GPUs the piece
// comes from the host, as one that no tier has.
//
// Thread: start, import, maintain, and the end of an import: the adopter, one at a time; they wait
// for the helper, kAnswerLooksMax at most. What a Copier does: any data agent, no lock, no
// allocation. resize_tier(), lend() and view(): any, they take locks that no data agent takes, and
// wait for no helper.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/memory/gpu/gpu_figures.h"
#include "daemon/memory/gpu/gpu_keeper.h"
#include "daemon/memory/gpu/gpu_protocol.h"
#include "daemon/memory/gpu/gpu_seen.h"
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
class GpuLease;
class GpuOrder;

// Of the helper's tier (gpu_tier.h).
struct GpuTierSize {
  std::uint64_t bytes = 0;          // at most; 0: none
  std::uint64_t reserve_bytes = 0;  // so much of the GPU's memory is left to others
};

class GpuDevice : public std::enable_shared_from_this<GpuDevice> {
public:
  static constexpr std::uint32_t kLivesMax = 256;  // of the helper, in all
  // Helpers are replaced so many times, and once more after so many looks: five minutes.
  static constexpr std::uint32_t kRestartsMax = 15;
  static constexpr std::uint32_t kRestartLooks = 30'000;
  // So many looks of maintain() without a sign of life: the helper is killed.
  static constexpr std::uint32_t kSilentLooksMax = 100;
  // After so many of them it is called hung. One that has nothing to do gives a sign in ten.
  static constexpr std::uint32_t kHungLooks = 30;
  // So many looks while somebody waits for a piece after its deadline, and no piece of that
  // direction ends: the pieces before it end one after the other.
  static constexpr std::uint32_t kFencedLooksMax = 10;
  // So many looks for memory that the tier has to give back: with a driver that works that is a
  // matter of milliseconds.
  static constexpr std::uint32_t kGivingLooksMax = 200;
  // So many looks do not count at most, one after the other, because the helper got no CPU.
  static constexpr std::uint32_t kStarvedLooksMax = 1'000;
  // So many looks for an answer of the helper's, while the driver starts, maps or unmaps memory for
  // it. Before it has begun with that it is killed for its silence, as any other time.
  static constexpr std::uint32_t kAnswerLooksMax = 500;
  static constexpr std::uint64_t kLookNs = 10'000'000;
  // So many looks pass between two attempts to import what a helper refused.
  static constexpr std::uint32_t kImportLooks = 50;
  // So many looks pass between two attempts to start a helper that does not start; twice as many
  // each time.
  static constexpr std::uint32_t kStartLooksMin = 10;
  static constexpr std::uint32_t kStartLooksMax = 1'000;

  // Starts the first helper. `keeper` and the arena outlive the device. `seen`: of the node, null:
  // this is its only GPU.
  static Expected<std::shared_ptr<GpuDevice>> start(GpuKeeper& keeper, const GpuUuid& uuid,
                                                    const ForeignArena& arena, bool pins_arena,
                                                    GpuTierSize tier = {},
                                                    std::shared_ptr<GpuNodeSeen> seen = nullptr);
  ~GpuDevice();

  // Maps an allocation of a client. Takes the descriptor and keeps it for the helper's next life.
  // out_of_memory: the tenant has its share of imports, or the GPU has no room. `home`: the GPU on
  // which the memory lies, when that is another one; unsupported then: no access to it.
  Expected<std::unique_ptr<GpuImport>> import(ipc::UniqueFd allocation,
                                              std::uint64_t allocation_bytes, std::uint64_t tenant,
                                              GpuDevice* home = nullptr);

  // Another GPU of the host, whose tier may have what clients get into memory of this one.
  void meet(const std::shared_ptr<GpuDevice>& peer) { peers_.push_back(peer); }

  // Call every 10 ms or so: kills a helper that is silent or does not end a piece that was fenced,
  // and brings a dead one back.
  void maintain();

  // How large the tier may be from now on, without what is lent. What is too much is
  // given back as soon as the copies have ended that use it; view() shows what there is. Thread:
  // any.
  void resize_tier(std::uint64_t bytes) noexcept {
    tier_bytes_.store(bytes, std::memory_order_relaxed);
    order_.fetch_add(1, std::memory_order_release);
    tell_tier(*lives_[lives() - 1]);
  }

  // The tier may have so much more from now on (gpu_lease.h). `tenant_bytes_max`: that the tenant
  // may lend of this GPU in all. Thread: any. Errors: invalid_argument, out_of_memory, unreachable.
  Expected<std::unique_ptr<GpuLease>> lend(std::uint64_t tenant, std::uint64_t bytes,
                                           std::uint64_t tenant_bytes_max);

  [[nodiscard]] const GpuUuid& uuid() const noexcept { return uuid_; }
  [[nodiscard]] std::uint32_t lives() const noexcept {
    return count_.load(std::memory_order_acquire);
  }
  [[nodiscard]] GpuView view() const;

private:
  friend class GpuImport;
  friend class GpuLease;
  friend class GpuOrder;
  struct Life {
    ipc::FdSocket control;
    ipc::FdSocket jobs;
    ipc::UniqueFd pidfd;
    ipc::Mapping file;
    pid_t pid = -1;
    ProcessPulse pulse{-1};
    // Of its piece; of who has claimed it. Those the tier takes in: by which name, else 0.
    std::array<std::uint32_t, kGpuSlots> bytes{};
    std::array<std::uint64_t, kGpuSlots> taken_in{};
    // maintain()'s:
    std::array<std::uint32_t, 2> fenced_looks{};  // by gpu_direction()
    std::array<std::uint64_t, 2> ended{};
    std::uint64_t turns = 0;
    std::uint32_t silent_looks = 0;
    std::uint32_t starved_looks = 0;
    std::uint32_t giving_looks = 0;
    std::atomic<bool> is_hung{false};
    bool is_buried = false;  // why it has ended was noted
  };

  GpuDevice(GpuKeeper& keeper, const GpuUuid& uuid, const ForeignArena& arena, bool pins_arena,
            GpuTierSize tier, std::shared_ptr<GpuNodeSeen> seen) noexcept
      : keeper_(keeper),
        uuid_(uuid),
        arena_(arena),
        pins_arena_(pins_arena),
        seen_(std::move(seen)),
        tier_reserve_bytes_(tier.reserve_bytes),
        tier_bytes_(tier.bytes) {}

  Outcome revive();
  // The same, if the last attempt was long enough ago.
  Outcome revive_in_time();
  // It has no restart left. Thread: any.
  [[nodiscard]] bool is_off() const noexcept {
    return lives() == kLivesMax || restarts_left_.load(std::memory_order_relaxed) == 0;
  }
  [[nodiscard]] Error why_off() const;
  void give_restart_back() noexcept;
  // Of a dead helper, a look after another one has taken its place.
  void give_memory_back() noexcept;
  Outcome ask(Life& life, const GpuControl& wanted, int descriptor);
  // Its next message. `begun`: what the beat said of `controls` before it was asked. False: it has
  // died, or hangs and is killed, for `late` if it is at what it was asked for.
  bool await_answer(Life& life, std::uint64_t begun, const char* late, GpuControlReply& reply);
  // Whoever waits for one helper looks at the others meanwhile: a get may wait for those.
  void look_at_peers();
  Outcome import_in(Life& life, GpuImport& import);
  // Tells a helper how large its tier may be, if it does not know. Thread: any.
  void tell_tier(Life& life) noexcept;
  // Its tier has a copy, as far as anybody but its helper can tell. Thread: any.
  [[nodiscard]] bool may_have(std::uint64_t print) const noexcept;
  [[nodiscard]] bool has_tier() const noexcept {
    return tier_bytes_.load(std::memory_order_relaxed) != 0 ||
           lent_bytes_.load(std::memory_order_relaxed) != 0;
  }
  static constexpr std::uint32_t slot_number(Copier::Ticket ticket) noexcept {
    return static_cast<std::uint32_t>(ticket);
  }
  // An import of the region of another GPU, for its pushes.
  Expected<std::unique_ptr<GpuImport>> import_for(const GpuImport& home);
  void make_guests();
  void import_again();
  // The helper in use is told, and the order that it has to carry out is returned.
  GpuOrder order_now();
  // Those that came before it are decided first, and count if they hold.
  [[nodiscard]] bool decide(const GpuLease& lease) noexcept;
  [[nodiscard]] std::uint64_t tier_room() const noexcept;
  void end_lease(GpuLease& lease) noexcept;
  void view_tier(std::uint32_t count, GpuView& view) const noexcept;
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
  // Null: it does what it should. Else why it has to be killed.
  [[nodiscard]] const char* what_hangs(Life& life) noexcept;
  [[nodiscard]] const char* what_is_late(Life& life) noexcept;
  // Somebody waits for a piece of that direction which was given up.
  [[nodiscard]] static bool is_waited_for(const Life& life, std::size_t direction) noexcept;
  // A piece that was given up does not end.
  [[nodiscard]] static bool holds_a_piece(Life& life) noexcept;
  // It is silent, or its driver's threads are, because other processes have the CPUs.
  [[nodiscard]] static bool starves(Life& life) noexcept;
  // Whether it starves makes a difference to somebody.
  [[nodiscard]] static bool matters(const Life& life) noexcept;

  // In the first free slot of [job.slot, slots_end), which are of one kind. `bounced`: what the
  // slot's buffer gets first. `taken_in`: by which name the tier takes the piece in; 0: it does
  // not.
  Status post(const GpuImport& import, GpuJob job, std::uint32_t slots_end,
              const std::byte* bounced, std::uint64_t taken_in, Copier::Ticket& ticket) noexcept;
  Status post_in_slot(std::uint32_t number, GpuJob job, std::uint32_t slots_end,
                      const std::byte* bounced, std::uint64_t taken_in,
                      Copier::Ticket& ticket) noexcept;
  Life& life_of(Copier::Ticket ticket) noexcept;

  GpuKeeper& keeper_;
  const GpuUuid uuid_;
  const ForeignArena arena_;
  const bool pins_arena_;
  const std::shared_ptr<GpuNodeSeen> seen_;
  const std::uint64_t tier_reserve_bytes_;
  // What its helpers shall know of: the sum of both, and the number of its last change.
  std::atomic<std::uint64_t> tier_bytes_;
  std::atomic<std::uint64_t> lent_bytes_{0};
  std::atomic<std::uint64_t> order_{1};
  std::array<std::unique_ptr<Life>, kLivesMax> lives_;
  std::atomic<std::uint32_t> count_{0};  // lives_[0 .. count) stay; the last one is in use
  std::vector<GpuImport*> imports_;      // by number; null: free. The adopter's
  std::vector<std::weak_ptr<GpuDevice>> peers_;
  std::uint32_t import_looks_ = 0;
  std::size_t next_import_ = 0;
  std::uint32_t start_looks_ = 0;  // to wait before the next attempt to start a helper
  std::uint32_t next_start_looks_ = kStartLooksMin;
  std::atomic<std::uint32_t> restarts_left_{kRestartsMax};
  std::uint32_t restart_looks_ = 0;  // since one came back
  std::uint32_t emptied_ = 0;        // lives_[0 .. emptied) have no buffers any more
  GpuFigures figures_;
  GpuShares shares_;
  mutable std::mutex news_mutex_;  // of the two below; of the adopter and of those who look
  std::string model_;
  std::string last_error_;
  mutable std::mutex lend_mutex_;                   // of these four
  std::map<std::uint64_t, std::uint64_t> lent_by_;  // bytes, by tenant
  std::uint64_t leases_ = 0;
  std::list<GpuLease*> undecided_;  // whether they fit, in the order in which they came
  std::uint64_t held_bytes_ = 0;    // of those that do
  std::mutex tell_mutex_;           // of who writes an order for a helper
};

class GpuImport final : public Copier {
public:
  // `home`: the device on which the memory lies, when that is another one.
  GpuImport(std::shared_ptr<GpuDevice> device, GpuDevice* home, std::uint32_t number,
            ipc::UniqueFd allocation, std::uint64_t bytes, std::uint64_t tenant,
            std::shared_ptr<GpuShares::Held> held, std::shared_ptr<GpuSeen> seen) noexcept
      : device_(std::move(device)),
        home_(home == nullptr ? device_.get() : home),
        number_(number),
        allocation_(std::move(allocation)),
        bytes_(bytes),
        tenant_(tenant),
        held_(std::move(held)),
        seen_(std::move(seen)) {}
  // The helper has unmapped the allocation, or is dead. Thread: the adopter.
  ~GpuImport() override;
  GpuImport(const GpuImport&) = delete;
  GpuImport& operator=(const GpuImport&) = delete;

  Status post_read(std::uint64_t offset, std::uint64_t length, Ticket& ticket) noexcept override;
  [[nodiscard]] std::uint64_t write_bytes_max(const std::byte* own) const noexcept override;
  Status post_write(std::uint64_t offset, const std::byte* own, std::uint64_t length,
                    Ticket& ticket) noexcept override {
    return post_object(offset, {}, own, length, ticket);
  }
  Status post_object(std::uint64_t offset, const ObjectPart& part, const std::byte* own,
                     std::uint64_t length, Ticket& ticket) noexcept override;
  PieceState poll(Ticket ticket, std::byte* own, std::uint64_t length) noexcept override;
  // Pieces end by themselves in milliseconds; a helper in which one does not is killed.
  void fence(Ticket ticket) noexcept override;
  bool is_fenced(Ticket ticket) noexcept override;

private:
  friend class GpuDevice;
  // What another GPU's helper can do for this region.
  struct Guest {
    std::shared_ptr<GpuDevice> device;
    std::unique_ptr<GpuImport> import;  // null: no access between the GPUs
  };
  static constexpr std::uint32_t kGuestsMax = 15;
  // A ticket says whose it is: 0: the own device's, else the guest's number, from 1 on.
  static constexpr std::uint32_t kGuestShift = 48;

  // `taken_in`: GpuDevice::post().
  Status post_here(std::uint64_t offset, const ObjectPart& part, const std::byte* own,
                   std::uint64_t length, std::uint64_t taken_in, Ticket& ticket) noexcept;
  // The same for a piece that no tier has: this get of it counts.
  Status post_counted(std::uint64_t offset, const ObjectPart& part, const std::byte* own,
                      std::uint64_t length, std::uint64_t print, Ticket& ticket) noexcept;
  // By a guest whose tier has the piece. ok; no_space: that one has no slot now; else: none has it,
  // or can.
  Status post_to_guest(std::uint64_t offset, const ObjectPart& part, const std::byte* own,
                       std::uint64_t length, std::uint64_t print, Ticket& ticket) noexcept;
  // The guest's that the ticket is of, and what that one calls it; null: it is our own.
  GpuImport* guest_of(Ticket& ticket) const noexcept;
  [[nodiscard]] bool has_guest(const GpuDevice& device) const noexcept;
  // That GPU's helper imports the region. One that is dead is asked again later.
  void add_guest(std::shared_ptr<GpuDevice> device);

  const std::shared_ptr<GpuDevice> device_;
  GpuDevice* const home_;  // the device on which the memory lies; outlives this
  const std::uint32_t number_;
  const ipc::UniqueFd allocation_;
  const std::uint64_t bytes_;
  const std::uint64_t tenant_;
  const std::shared_ptr<GpuShares::Held> held_;  // by its tenant
  const std::shared_ptr<GpuSeen> seen_;          // by its tenant
  std::atomic<std::uint32_t> life_{0};           // of the helper that has it: its number, from 1 on
  std::array<Guest, kGuestsMax> guests_;
  std::atomic<std::uint32_t> guest_count_{0};  // guests_[0 .. count) stay
};

}  // namespace simm::memory
