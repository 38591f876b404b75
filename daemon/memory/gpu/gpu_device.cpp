#include "daemon/memory/gpu/gpu_device.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "ipc/memory_file.h"
#include "ipc/peer_identity.h"
#include "simm/check.h"

namespace simm::memory {

namespace {

// A process that is killed ends in less, unless it hangs in the kernel.
constexpr int kEndMs = 1'000;

}  // namespace

Expected<std::shared_ptr<GpuDevice>> GpuDevice::start(GpuKeeper& keeper, const GpuUuid& uuid,
                                                      const ForeignArena& arena, bool pins_arena,
                                                      GpuTierSize tier,
                                                      std::shared_ptr<GpuNodeSeen> seen) {
  if (seen == nullptr) seen = std::make_shared<GpuNodeSeen>();
  std::shared_ptr<GpuDevice> device(
      new GpuDevice(keeper, uuid, arena, pins_arena, tier, std::move(seen)));
  if (Outcome alive = device->revive(); !alive) return std::move(alive).error();
  return device;
}

GpuDevice::~GpuDevice() {
  const std::uint32_t count = lives();
  if (count > 0) kill(*lives_[count - 1], nullptr);
}

bool GpuDevice::is_alive(const Life& life) noexcept {
  return ipc::pidfd_is_alive(life.pidfd.get());
}

// `why`: null when it has done nothing wrong.
void GpuDevice::kill(Life& life, const char* why) {
  life.is_buried = true;
  if (why != nullptr) note(std::string("killed the helper: ") + why);
  (void)::syscall(SYS_pidfd_send_signal, life.pidfd.get(), SIGKILL, nullptr, 0);
}

void GpuDevice::bury(Life& life) {
  if (std::exchange(life.is_buried, true)) return;
  GpuControlReply last;
  const ipc::Received received =
      life.control.try_receive(std::as_writable_bytes(std::span(&last, 1)));
  const bool says_why = received.result == ipc::SocketResult::done &&
                        received.bytes == sizeof last && last.status != 0;
  note(says_why ? text_of(last) : "the helper ended by itself");
}

void GpuDevice::note(std::string trouble) {
  const std::lock_guard lock(news_mutex_);
  last_error_ = std::move(trouble);
}

GpuView GpuDevice::view() const {
  const std::uint32_t count = lives();
  const Life& life = *lives_[count - 1];
  GpuView view;
  view.uuid = uuid_;
  const bool alive = is_alive(life);
  if (alive) {
    view.helper = life.pid;
    view.state = life.is_hung.load(std::memory_order_relaxed) ? GpuState::hung : GpuState::running;
  } else {
    view.state = is_off() ? GpuState::off : GpuState::restarting;
  }
  view.regions = figures_.regions.load(std::memory_order_relaxed);
  view.mapped_bytes = figures_.mapped_bytes.load(std::memory_order_relaxed);
  view.copies_out = figures_.copies_out.load(std::memory_order_relaxed);
  view.bytes_out = figures_.bytes_out.load(std::memory_order_relaxed);
  view.copies_in = figures_.copies_in.load(std::memory_order_relaxed);
  view.bytes_in = figures_.bytes_in.load(std::memory_order_relaxed);
  view.failed = figures_.failed.load(std::memory_order_relaxed);
  view.lost = figures_.lost.load(std::memory_order_relaxed);
  view.share_waits = figures_.share_waits.load(std::memory_order_relaxed);
  view.full_waits = figures_.full_waits.load(std::memory_order_relaxed);
  view.restarts = count - 1;
  view_tier(count, view);
  const std::lock_guard lock(news_mutex_);
  view.model = model_;
  view.last_error = last_error_;
  return view;
}

// What a tier has is that of the last helper; what it did is that of all.
void GpuDevice::view_tier(std::uint32_t count, GpuView& view) const noexcept {
  view.lent_bytes = lent_bytes_.load(std::memory_order_relaxed);
  view.tier_host_hits = figures_.host_hits.load(std::memory_order_relaxed);
  view.tier_host_hit_bytes = figures_.host_hit_bytes.load(std::memory_order_relaxed);
  view.tier_bytes_max = tier_bytes_.load(std::memory_order_relaxed) + view.lent_bytes;
  {
    const std::lock_guard lock(lend_mutex_);
    view.leases = leases_;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const GpuTierCounts& counts = gpu_tier_counts(lives_[i]->file.data());
    const auto of = [](const GpuTierCounts::Number& number) {
      return number.load(std::memory_order_relaxed);
    };
    if (i + 1 == count && view.helper != -1) {
      view.tier_bytes = of(counts.bytes);
      view.tier_used_bytes = of(counts.used_bytes);
      view.tier_pieces = of(counts.pieces);
    }
    view.tier_peer_hits += of(counts.peer_hits);
    view.tier_peer_hit_bytes += of(counts.peer_hit_bytes);
    view.tier_hits += of(counts.hits);
    view.tier_hit_bytes += of(counts.hit_bytes);
    view.tier_admitted += of(counts.admitted);
    view.tier_evicted += of(counts.evicted);
    view.tier_refused += of(counts.refused);
    view.tier_revoked_bytes += of(counts.revoked_bytes);
    if (of(counts.revoke_ns) > 0) view.tier_revoke_ns = of(counts.revoke_ns);
    view.tier_revoke_max_ns = std::max(view.tier_revoke_max_ns, of(counts.revoke_max_ns));
  }
}

void GpuDevice::count(std::uint32_t slot, std::uint64_t bytes, PieceState state) noexcept {
  const auto add = [](GpuFigures::Number& number, std::uint64_t by) {
    number.fetch_add(by, std::memory_order_relaxed);
  };
  if (state != PieceState::ok) {
    return add(state == PieceState::failed ? figures_.failed : figures_.lost, 1);
  }
  const bool is_in = is_gpu_write_slot(slot);
  add(is_in ? figures_.copies_in : figures_.copies_out, 1);
  add(is_in ? figures_.bytes_in : figures_.bytes_out, bytes);
}

Outcome GpuDevice::revive() {
  const std::uint32_t count = lives();
  if (count > 0) bury(*lives_[count - 1]);
  SIMM_CHECK(count < kLivesMax);  // who is off is not asked: revive_in_time()
  const auto failed = [this](Error why) {
    note(why.context);
    return why;
  };
  Expected<ipc::MemoryFile> file =
      ipc::MemoryFile::create({"simm-gpu-bounce", kGpuFileBytes, false, true});
  if (!file) return failed(std::move(file).error());
  auto life = std::make_unique<Life>();
  Expected<ipc::Mapping> mapping =
      ipc::Mapping::map(file->fd(), 0, kGpuFileBytes, {.dont_fork = true, .dont_dump = true});
  if (!mapping) return failed(std::move(mapping).error());
  life->file = std::move(mapping).value();
  auto control = ipc::FdSocket::pair();
  auto jobs = ipc::FdSocket::pair();
  if (!control) return failed(std::move(control).error());
  if (!jobs) return failed(std::move(jobs).error());
  life->control = std::move(control->first);
  life->jobs = std::move(jobs->first);
  Expected<StartedGpuWorker> started =
      keeper_.start(uuid_, {control->second.fd(), jobs->second.fd(), file->fd(), arena_.fd,
                            arena_.bytes.size(), pins_arena_});
  if (!started) return failed(std::move(started).error());
  life->pidfd = std::move(started->pidfd);
  life->pid = started->pid;
  life->pulse = ProcessPulse(life->pid);
  control->second.close();  // its hang-up is then the helper's end
  jobs->second.close();
  // The first message says whether the helper has its GPU.
  GpuControlReply hello;
  constexpr std::uint64_t kBegun = ~std::uint64_t{0};  // it starts, whatever the beat says
  constexpr const char* kLate = "the driver did not start";
  if (!await_answer(*life, kBegun, kLate, hello)) {
    if (!life->is_buried) kill(*life, kLate);
    return Error{Status::unreachable, "the helper of the GPU did not start"};
  }
  if (Outcome ready = outcome_of(hello); !ready) return failed(std::move(ready).error());
  {
    const std::lock_guard lock(news_mutex_);
    model_ = text_of(hello);
  }
  lives_[count] = std::move(life);
  count_.store(count + 1, std::memory_order_release);
  if (count > 0) restarts_left_.fetch_sub(1, std::memory_order_relaxed);
  tell_tier(*lives_[count]);
  for (GpuImport* import : imports_) {
    // One that is refused is unreachable until it is asked for again.
    if (import != nullptr) (void)import_in(*lives_[count], *import);
  }
  return Done{};
}

Error GpuDevice::why_off() const {
  const std::lock_guard lock(news_mutex_);
  if (lives() == kLivesMax) {
    return Error{Status::unreachable,
                 "the helper of this GPU died " + std::to_string(kLivesMax) +
                     " times: mend the GPU, then restart simmd: " + last_error_};
  }
  return Error{Status::unreachable,
               "the helper of this GPU died too often: another one starts within five minutes, "
               "register again then; the last one: " +
                   last_error_};
}

void GpuDevice::give_restart_back() noexcept {
  if (restarts_left_.load(std::memory_order_relaxed) == kRestartsMax) {
    restart_looks_ = 0;
  } else if (++restart_looks_ == kRestartLooks) {
    restart_looks_ = 0;
    restarts_left_.fetch_add(1, std::memory_order_relaxed);
  }
}

// What agents may still read stays mapped: the states of slots, and counts. Nobody reads a buffer
// whose slot is free.
void GpuDevice::give_memory_back() noexcept {
  if (emptied_ + 1 >= lives()) return;
  Life& dead = *lives_[emptied_];
  const auto& slots = gpu_header(dead.file.data()).slots;
  const auto is_free = [](const PieceSlot& slot) { return slot.is_free(); };
  if (!std::all_of(slots.begin(), slots.end(), is_free)) return;
  static_assert(kGpuSlotsBytes >= offsetof(GpuFileHeader, names) && kGpuSlotsBytes % 4096 == 0);
  // SAFETY: whole pages of the mapping, which has kGpuFileBytes. If it fails the memory stays.
  (void)::madvise(dead.file.data() + kGpuSlotsBytes, kGpuFileBytes - kGpuSlotsBytes, MADV_REMOVE);
  dead.control.close();
  ++emptied_;
}

Outcome GpuDevice::revive_in_time() {
  if (is_off()) return why_off();
  if (start_looks_ > 0) {
    const std::lock_guard lock(news_mutex_);
    return Error{Status::unreachable, "the helper of this GPU does not start: " + last_error_};
  }
  Outcome alive = revive();
  start_looks_ = alive ? 0 : next_start_looks_;
  next_start_looks_ = alive ? kStartLooksMin : std::min(2 * next_start_looks_, kStartLooksMax);
  return alive;
}

void GpuDevice::tell_tier(Life& life) noexcept {
  GpuTierOrder& told = gpu_tier_order(life.file.data());
  {
    const std::lock_guard lock(tell_mutex_);
    // Sizes are written before the number of their order.
    const std::uint64_t number = order_.load(std::memory_order_acquire);
    if (number == told.number.load(std::memory_order_relaxed)) return;
    told.bytes.store(
        tier_bytes_.load(std::memory_order_relaxed) + lent_bytes_.load(std::memory_order_relaxed),
        std::memory_order_relaxed);
    told.reserve_bytes.store(tier_reserve_bytes_, std::memory_order_relaxed);
    told.number.store(number, std::memory_order_release);
  }
  // One that has no room for this has jobs to take, and looks at its orders before.
  GpuJob wake;
  wake.slot = kGpuWakeSlot;
  (void)life.jobs.try_send(std::as_bytes(std::span(&wake, 1)));
}

// A helper that does not answer in time is killed: what it would do later nobody knows.
Outcome GpuDevice::ask(Life& life, const GpuControl& wanted, int descriptor) {
  const std::span<const int> fds(&descriptor, descriptor < 0 ? 0 : 1);
  const std::uint64_t begun = gpu_beat(life.file.data()).controls.load(std::memory_order_relaxed);
  constexpr const char* kLate = "it did not answer";
  GpuControlReply reply;
  // There is room: it has answered all that it was asked before.
  const bool is_asked = life.control.send(std::as_bytes(std::span(&wanted, 1)), fds, kLookNs) ==
                        ipc::SocketResult::done;
  if (is_asked && await_answer(life, begun, kLate, reply)) {
    Outcome outcome = outcome_of(reply);
    if (outcome.status() == Status::unreachable) {  // its last word
      life.is_buried = true;
      note(outcome.error().context);
    }
    return outcome;
  }
  // What ended by itself says why.
  pollfd end{life.pidfd.get(), POLLIN, 0};
  if (is_alive(life)) {
    if (!life.is_buried) kill(life, kLate);
    (void)::poll(&end, 1, kEndMs);  // who asks next does not ask this one
  }
  return Error{Status::unreachable, "the helper of the GPU does not answer"};
}

bool GpuDevice::await_answer(Life& life, std::uint64_t begun, const char* late,
                             GpuControlReply& reply) {
  const GpuBeat& beat = gpu_beat(life.file.data());
  for (std::uint32_t looks = 0;;) {
    const ipc::Received received =
        life.control.receive(std::as_writable_bytes(std::span(&reply, 1)), kLookNs);
    if (received.result != ipc::SocketResult::would_block) {
      return received.result == ipc::SocketResult::done && received.bytes == sizeof reply;
    }
    look_at_peers();
    if (starves(life)) continue;
    const bool is_at_it = beat.controls.load(std::memory_order_acquire) != begun;
    const char* why = is_at_it ? nullptr : what_is_late(life);
    if (why == nullptr && ++looks == kAnswerLooksMax) why = late;
    if (why == nullptr) continue;
    kill(life, why);
    return false;
  }
}

void GpuDevice::look_at_peers() {
  for (const std::weak_ptr<GpuDevice>& known : peers_) {
    const std::shared_ptr<GpuDevice> peer = known.lock();
    if (peer == nullptr || peer.get() == this) continue;
    Life& life = *peer->lives_[peer->lives() - 1];
    if (!is_alive(life) || life.is_buried) continue;
    if (const char* const why = peer->what_hangs(life); why != nullptr) peer->kill(life, why);
  }
}

Outcome GpuDevice::import_in(Life& life, GpuImport& import) {
  GpuControl control{GpuControlOp::import, import.number_, import.bytes_, import.tenant_};
  control.home = import.home_->uuid_;
  Outcome done = ask(life, control, import.allocation_.get());
  if (done) import.life_.store(lives(), std::memory_order_release);
  return done;
}

Expected<std::unique_ptr<GpuImport>> GpuDevice::import(ipc::UniqueFd allocation,
                                                       std::uint64_t allocation_bytes,
                                                       std::uint64_t tenant, GpuDevice* home) {
  std::shared_ptr<GpuShares::Held> held = shares_.of(tenant);
  switch (shares_.take_import(*held)) {
    case GpuShares::Taken::yes:
      break;
    case GpuShares::Taken::share_used:
      return Error{Status::out_of_memory,
                   "this tenant has its share of the allocations of this GPU, " +
                       std::to_string(held->imports) + " of " + std::to_string(kGpuImportsMax)};
    case GpuShares::Taken::none_free:
      return Error{Status::out_of_memory,
                   "the daemon has " + std::to_string(kGpuImportsMax) + " allocations of this GPU"};
  }
  const auto found = std::find(imports_.begin(), imports_.end(), nullptr);
  const auto number = static_cast<std::uint32_t>(found - imports_.begin());
  if (found == imports_.end()) imports_.push_back(nullptr);
  auto made =
      std::make_unique<GpuImport>(shared_from_this(), home, number, std::move(allocation),
                                  allocation_bytes, tenant, std::move(held), seen_->of(tenant));
  imports_[number] = made.get();
  figures_.regions.fetch_add(1, std::memory_order_relaxed);
  figures_.mapped_bytes.fetch_add(allocation_bytes, std::memory_order_relaxed);
  Outcome done = import_once(*made);
  // A helper that died, or had to be killed, has a successor at once: nobody asks again for a
  // region that was refused.
  if (done.status() == Status::unreachable) done = import_once(*made);
  if (!done) {
    // A client's mistake is no trouble of the GPU's, nor are two GPUs without access. Why there is
    // no helper was noted.
    const bool is_trouble = done.status() != Status::invalid_argument &&
                            done.status() != Status::unsupported &&
                            done.status() != Status::unreachable;
    if (is_trouble) note(done.error().context);
    return std::move(done).error();
  }
  return made;
}

Outcome GpuDevice::import_once(GpuImport& import) {
  if (is_alive(*lives_[lives() - 1])) return import_in(*lives_[lives() - 1], import);
  if (Outcome alive = revive_in_time(); !alive) return alive;
  if (import.life_.load(std::memory_order_relaxed) == lives()) return Done{};
  return import_in(*lives_[lives() - 1], import);
}

void GpuDevice::forget(GpuImport& import) {
  imports_[import.number_] = nullptr;
  shares_.give_import(*import.held_);
  figures_.regions.fetch_sub(1, std::memory_order_relaxed);
  figures_.mapped_bytes.fetch_sub(import.bytes_, std::memory_order_relaxed);
  const std::uint32_t life = import.life_.load(std::memory_order_relaxed);
  if (life == 0 || life != lives() || !is_alive(*lives_[life - 1])) return;
  const Outcome released = ask(*lives_[life - 1], {GpuControlOp::release, import.number_, 0}, -1);
  if (released) return;
  // What it maps goes with it. Why one does not answer was noted.
  const bool has_answered = released.status() != Status::unreachable;
  kill(*lives_[life - 1], has_answered ? "it does not let go of memory" : nullptr);
}

bool GpuDevice::matters(const Life& life) noexcept {
  return life.silent_looks >= kHungLooks || is_waited_for(life, 0) || is_waited_for(life, 1) ||
         life.giving_looks > 0;
}

bool GpuDevice::starves(Life& life) noexcept {
  if (!life.pulse.starves()) {
    life.starved_looks = 0;
    return false;
  }
  if (life.starved_looks >= kStarvedLooksMax) return false;
  ++life.starved_looks;
  return true;
}

// A piece that has ended is its agent's, which may be late to see that: no fault of the helper's.
bool GpuDevice::is_waited_for(const Life& life, std::size_t direction) noexcept {
  const GpuFileHeader& header = gpu_header(life.file.data());
  for (std::uint32_t slot = 0; slot < kGpuSlots; ++slot) {
    if (gpu_direction(slot) != direction) continue;
    const bool is_given_up = header.given_up.slots[slot].load(std::memory_order_relaxed);
    if (is_given_up && header.slots[slot].is_under_way()) return true;
  }
  return false;
}

bool GpuDevice::holds_a_piece(Life& life) noexcept {
  const GpuBeat& beat = gpu_beat(life.file.data());
  bool holds = false;
  for (std::size_t direction = 0; direction < 2; ++direction) {
    const std::uint64_t ended = beat.ended[direction].load(std::memory_order_relaxed);
    const bool is_stuck = ended == life.ended[direction] && is_waited_for(life, direction);
    life.ended[direction] = ended;
    life.fenced_looks[direction] = is_stuck ? life.fenced_looks[direction] + 1 : 0;
    holds |= life.fenced_looks[direction] >= kFencedLooksMax;
  }
  return holds;
}

const char* GpuDevice::what_hangs(Life& life) noexcept {
  // Asked only where the answer matters, because it takes system calls.
  if (!matters(life) || !starves(life)) return what_is_late(life);
  life.turns = gpu_beat(life.file.data()).turns.load(std::memory_order_relaxed);
  return nullptr;
}

const char* GpuDevice::what_is_late(Life& life) noexcept {
  const std::uint64_t turns = gpu_beat(life.file.data()).turns.load(std::memory_order_relaxed);
  life.silent_looks = turns == life.turns ? life.silent_looks + 1 : 0;
  life.turns = turns;
  life.is_hung.store(life.silent_looks >= kHungLooks, std::memory_order_relaxed);
  if (life.silent_looks >= kSilentLooksMax) return "it gave no sign of life for a second";
  if (holds_a_piece(life)) return "a copy did not end after its deadline";
  const std::uint64_t tier_bytes =
      gpu_tier_counts(life.file.data()).bytes.load(std::memory_order_relaxed);
  const std::uint64_t may_have =
      gpu_tier_order(life.file.data()).bytes.load(std::memory_order_relaxed);
  life.giving_looks = tier_bytes > may_have ? life.giving_looks + 1 : 0;
  return life.giving_looks >= kGivingLooksMax ? "it does not give back memory of its tier"
                                              : nullptr;
}

void GpuDevice::maintain() {
  give_restart_back();
  give_memory_back();
  Life& life = *lives_[lives() - 1];
  if (!is_alive(life)) {
    bury(life);
    if (!is_off()) (void)revive_in_time();
    if (start_looks_ > 0) --start_looks_;
  } else if (const char* const why = what_hangs(life); why != nullptr) {
    kill(life, why);
  } else {
    tell_tier(life);
    import_again();
    make_guests();
  }
}

// What this helper refused, as one may whose predecessor's memory was not free yet.
void GpuDevice::import_again() {
  if (++import_looks_ < kImportLooks) return;
  import_looks_ = 0;
  for (std::size_t i = 0; i < imports_.size(); ++i) {
    next_import_ = (next_import_ + 1) % imports_.size();
    GpuImport* const import = imports_[next_import_];
    if (import == nullptr || import->life_.load(std::memory_order_relaxed) == lives()) continue;
    (void)import_in(*lives_[lives() - 1], *import);
    return;  // one at a time: each waits for the helper
  }
}

// ---- what other GPUs' tiers have ----

bool GpuDevice::may_have(std::uint64_t print) const noexcept {
  std::byte* const file = lives_[lives() - 1]->file.data();
  return gpu_tier_counts(file).pieces.load(std::memory_order_relaxed) != 0 &&
         gpu_names(file).has(print);
}

Expected<std::unique_ptr<GpuImport>> GpuDevice::import_for(const GpuImport& home) {
  // Numbers of imports are for clients of this GPU first.
  if (imports_.size() >= kGpuImportsMax / 2) return Error{Status::out_of_memory, ""};
  ipc::UniqueFd allocation(::fcntl(home.allocation_.get(), F_DUPFD_CLOEXEC, 3));
  if (!allocation) return Error{Status::out_of_memory, ""};
  return import(std::move(allocation), home.bytes_, home.tenant_, home.device_.get());
}

// A few at a time: each waits for a helper. Those of a GPU without a tier never copy anything.
void GpuDevice::make_guests() {
  int left = 4;
  for (const std::weak_ptr<GpuDevice>& known : peers_) {
    std::shared_ptr<GpuDevice> peer = known.lock();
    if (peer == nullptr || !is_alive(*peer->lives_[peer->lives() - 1])) continue;
    if (!peer->has_tier()) continue;
    for (std::size_t i = 0; i < imports_.size() && left > 0; ++i) {
      GpuImport* const import = imports_[i];
      if (import == nullptr || import->home_ != this || import->has_guest(*peer)) continue;
      import->add_guest(peer);
      --left;
    }
  }
}

Status GpuDevice::post(const GpuImport& import, GpuJob job, std::uint32_t slots_end,
                       const std::byte* bounced, std::uint64_t taken_in,
                       Copier::Ticket& ticket) noexcept {
  const GpuShares::Taken taken = shares_.take_slot(*import.held_, job.slot);
  if (taken != GpuShares::Taken::yes) {
    auto& waits = taken == GpuShares::Taken::none_free ? figures_.full_waits : figures_.share_waits;
    waits.fetch_add(1, std::memory_order_relaxed);
    return Status::no_space;
  }
  const std::uint32_t kind = job.slot;
  const std::uint32_t number = import.life_.load(std::memory_order_acquire);
  const Status posted = post_in_slot(number, job, slots_end, bounced, taken_in, ticket);
  if (posted != Status::ok) shares_.give_slot(*import.held_, kind);
  return posted;
}

Status GpuDevice::post_in_slot(std::uint32_t number, GpuJob job, std::uint32_t slots_end,
                               const std::byte* bounced, std::uint64_t taken_in,
                               Copier::Ticket& ticket) noexcept {
  if (number == 0 || number != lives()) return Status::unreachable;
  Life& life = *lives_[number - 1];
  if (!is_alive(life)) return Status::unreachable;
  for (; job.slot < slots_end; ++job.slot) {
    SIMM_CHECK(is_gpu_job_sound(job, arena_.bytes.size()));
    PieceSlot& slot = gpu_slot(life.file.data(), job.slot);
    if (!slot.claim()) continue;
    life.bytes[job.slot] = static_cast<std::uint32_t>(job.length);
    life.taken_in[job.slot] = taken_in;
    if (bounced != nullptr) {
      std::memcpy(gpu_bounce(life.file.data(), job.slot), bounced, job.length);
    }
    const ipc::SocketResult sent = life.jobs.try_send(std::as_bytes(std::span(&job, 1)));
    if (sent == ipc::SocketResult::done) {
      ticket = static_cast<Copier::Ticket>(number) << 32 | job.slot;
      return Status::ok;
    }
    slot.release();
    return sent == ipc::SocketResult::would_block ? Status::no_space : Status::unreachable;
  }
  return Status::no_space;
}

GpuDevice::Life& GpuDevice::life_of(Copier::Ticket ticket) noexcept {
  const std::uint64_t number = ticket >> 32;
  SIMM_CHECK(number >= 1 && number <= lives());
  SIMM_CHECK(slot_number(ticket) < kGpuSlots);
  return *lives_[number - 1];
}

}  // namespace simm::memory
