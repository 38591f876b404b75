#include "daemon/memory/gpu/gpu_device.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
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

constexpr std::uint32_t slot_number(Copier::Ticket ticket) {
  return static_cast<std::uint32_t>(ticket);
}

}  // namespace

Expected<std::shared_ptr<GpuDevice>> GpuDevice::start(GpuKeeper& keeper, const GpuUuid& uuid,
                                                      const ForeignArena& arena, bool pins_arena) {
  std::shared_ptr<GpuDevice> device(new GpuDevice(keeper, uuid, arena, pins_arena));
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
    view.state = count == kLivesMax ? GpuState::off : GpuState::restarting;
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
  const std::lock_guard lock(news_mutex_);
  view.model = model_;
  view.last_error = last_error_;
  return view;
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
  if (count == kLivesMax) {
    return Error{Status::out_of_memory, "the helper of this GPU had to be killed too often"};
  }
  Expected<ipc::MemoryFile> file =
      ipc::MemoryFile::create({"simm-gpu-bounce", kGpuFileBytes, false, true});
  if (!file) return std::move(file).error();
  auto life = std::make_unique<Life>();
  Expected<ipc::Mapping> mapping =
      ipc::Mapping::map(file->fd(), 0, kGpuFileBytes, {.dont_fork = true, .dont_dump = true});
  if (!mapping) return std::move(mapping).error();
  life->file = std::move(mapping).value();
  auto control = ipc::FdSocket::pair();
  auto jobs = ipc::FdSocket::pair();
  if (!control) return std::move(control).error();
  if (!jobs) return std::move(jobs).error();
  life->control = std::move(control->first);
  life->jobs = std::move(jobs->first);
  Expected<StartedGpuWorker> started =
      keeper_.start(uuid_, {control->second.fd(), jobs->second.fd(), file->fd(), arena_.fd,
                            arena_.bytes.size(), pins_arena_});
  if (!started) return std::move(started).error();
  life->pidfd = std::move(started->pidfd);
  life->pid = started->pid;
  life->pulse = ProcessPulse(life->pid);
  control->second.close();  // its hang-up is then the helper's end
  jobs->second.close();
  // The first message says whether the helper has its GPU.
  GpuControlReply hello;
  const ipc::Received received =
      life->control.receive(std::as_writable_bytes(std::span(&hello, 1)), kGpuAnswerNs);
  if (received.result != ipc::SocketResult::done || received.bytes != sizeof hello) {
    kill(*life, "the driver did not start");
    return Error{Status::unreachable, "the helper of the GPU did not start"};
  }
  if (Outcome ready = outcome_of(hello); !ready) {
    note(ready.error().context);
    return ready;
  }
  {
    const std::lock_guard lock(news_mutex_);
    model_ = text_of(hello);
  }
  lives_[count] = std::move(life);
  count_.store(count + 1, std::memory_order_release);
  for (GpuImport* import : imports_) {
    // One that is refused stays unreachable: its own loss.
    if (import != nullptr) (void)import_in(*lives_[count], *import);
  }
  return Done{};
}

Outcome GpuDevice::revive_in_time() {
  if (start_looks_ > 0) {
    const std::lock_guard lock(news_mutex_);
    return Error{Status::unreachable, "the helper of this GPU does not start: " + last_error_};
  }
  Outcome alive = revive();
  start_looks_ = alive ? 0 : next_start_looks_;
  next_start_looks_ = alive ? kStartLooksMin : std::min(2 * next_start_looks_, kStartLooksMax);
  return alive;
}

// A helper that does not answer in time is killed: what it would do later nobody knows.
Outcome GpuDevice::ask(Life& life, const GpuControl& wanted, int descriptor) {
  const std::span<const int> fds(&descriptor, descriptor < 0 ? 0 : 1);
  GpuControlReply reply;
  if (life.control.send(std::as_bytes(std::span(&wanted, 1)), fds, kGpuAnswerNs) ==
      ipc::SocketResult::done) {
    const ipc::Received received =
        life.control.receive(std::as_writable_bytes(std::span(&reply, 1)), kGpuAnswerNs);
    if (received.result == ipc::SocketResult::done && received.bytes == sizeof reply) {
      Outcome outcome = outcome_of(reply);
      if (outcome.status() == Status::unreachable) {  // its last word
        life.is_buried = true;
        note(outcome.error().context);
      }
      return outcome;
    }
  }
  // What ended by itself says why.
  pollfd end{life.pidfd.get(), POLLIN, 0};
  if (is_alive(life)) {
    kill(life, "it did not answer");
    (void)::poll(&end, 1, kEndMs);  // who asks next does not ask this one
  }
  return Error{Status::unreachable, "the helper of the GPU does not answer"};
}

Outcome GpuDevice::import_in(Life& life, GpuImport& import) {
  Outcome done =
      ask(life, {GpuControlOp::import, import.number_, import.bytes_}, import.allocation_.get());
  if (done) import.life_.store(lives(), std::memory_order_release);
  return done;
}

Expected<std::unique_ptr<GpuImport>> GpuDevice::import(ipc::UniqueFd allocation,
                                                       std::uint64_t allocation_bytes,
                                                       std::uint64_t tenant) {
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
  auto made = std::make_unique<GpuImport>(shared_from_this(), number, std::move(allocation),
                                          allocation_bytes, std::move(held));
  imports_[number] = made.get();
  figures_.regions.fetch_add(1, std::memory_order_relaxed);
  figures_.mapped_bytes.fetch_add(allocation_bytes, std::memory_order_relaxed);
  Outcome done = import_once(*made);
  // A helper that died, or had to be killed, has a successor at once: nobody asks again for a
  // region that was refused.
  if (done.status() == Status::unreachable) done = import_once(*made);
  if (!done) {
    // A client's mistake is no trouble of the GPU's.
    if (done.status() != Status::invalid_argument) note(done.error().context);
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
  if (!ask(*lives_[life - 1], {GpuControlOp::release, import.number_, 0}, -1)) {
    kill(*lives_[life - 1], "it does not let go of memory");  // what it maps goes with it
  }
}

bool GpuDevice::starves(Life& life) noexcept {
  // Asked only where the answer matters, because it takes system calls.
  const bool is_waited_for =
      std::any_of(life.fenced.begin(), life.fenced.end(),
                  [](const auto& waits) { return waits.load(std::memory_order_relaxed); });
  if (life.silent_looks < kHungLooks && !is_waited_for) return false;
  if (!life.pulse.starves()) {
    life.starved_looks = 0;
    return false;
  }
  if (life.starved_looks >= kStarvedLooksMax) return false;
  ++life.starved_looks;
  return true;
}

bool GpuDevice::is_hung(Life& life) noexcept {
  const std::uint64_t turns = gpu_beat(life.file.data()).turns.load(std::memory_order_relaxed);
  if (turns == life.turns && starves(life)) return false;
  life.silent_looks = turns == life.turns ? life.silent_looks + 1 : 0;
  life.turns = turns;
  life.is_hung.store(life.silent_looks >= kHungLooks, std::memory_order_relaxed);
  if (life.silent_looks >= kSilentLooksMax) return true;
  bool hangs = false;
  for (std::uint32_t slot = 0; slot < kGpuSlots; ++slot) {
    const bool waits = life.fenced[slot].load(std::memory_order_relaxed);
    life.fenced_looks[slot] = waits ? life.fenced_looks[slot] + 1 : 0;
    hangs |= life.fenced_looks[slot] >= kFencedLooksMax;
  }
  return hangs;
}

void GpuDevice::maintain() {
  Life& life = *lives_[lives() - 1];
  if (!is_alive(life)) {
    bury(life);
    if (lives() < kLivesMax) (void)revive_in_time();
    if (start_looks_ > 0) --start_looks_;
  } else if (is_hung(life)) {
    kill(life, life.silent_looks >= kSilentLooksMax ? "it gave no sign of life for a second"
                                                    : "a copy did not end after its deadline");
  }
}

Status GpuDevice::post(const GpuImport& import, GpuJob job, std::uint32_t slots_end,
                       const std::byte* bounced, Copier::Ticket& ticket) noexcept {
  const GpuShares::Taken taken = shares_.take_slot(*import.held_, job.slot);
  if (taken != GpuShares::Taken::yes) {
    auto& waits = taken == GpuShares::Taken::none_free ? figures_.full_waits : figures_.share_waits;
    waits.fetch_add(1, std::memory_order_relaxed);
    return Status::no_space;
  }
  const std::uint32_t kind = job.slot;
  const std::uint32_t number = import.life_.load(std::memory_order_acquire);
  const Status posted = post_in_slot(number, job, slots_end, bounced, ticket);
  if (posted != Status::ok) shares_.give_slot(*import.held_, kind);
  return posted;
}

Status GpuDevice::post_in_slot(std::uint32_t number, GpuJob job, std::uint32_t slots_end,
                               const std::byte* bounced, Copier::Ticket& ticket) noexcept {
  if (number == 0 || number != lives()) return Status::unreachable;
  Life& life = *lives_[number - 1];
  if (!is_alive(life)) return Status::unreachable;
  for (; job.slot < slots_end; ++job.slot) {
    SIMM_CHECK(is_gpu_job_sound(job, arena_.bytes.size()));
    PieceSlot& slot = gpu_slot(life.file.data(), job.slot);
    if (!slot.claim()) continue;
    life.bytes[job.slot] = static_cast<std::uint32_t>(job.length);
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

GpuImport::~GpuImport() {
  device_->forget(*this);
}

Status GpuImport::post_read(std::uint64_t offset, std::uint64_t length, Ticket& ticket) noexcept {
  return device_->post(*this, {0, number_, offset, length, 0}, kGpuReadSlots, nullptr, ticket);
}

std::uint64_t GpuImport::write_bytes_max(const std::byte* own) const noexcept {
  std::uint64_t offset = 0;
  return device_->arena_.find(own, 1, offset) ? kWriteBytesMax : kReadBytesMax;
}

Status GpuImport::post_write(std::uint64_t offset, const std::byte* own, std::uint64_t length,
                             Ticket& ticket) noexcept {
  GpuJob job{kGpuBounceSlots, number_, offset, length, 0};
  if (device_->arena_.find(own, length, job.arena_offset)) {
    return device_->post(*this, job, kGpuSlots, nullptr, ticket);
  }
  job.slot = kGpuReadSlots;
  job.arena_offset = 0;
  return device_->post(*this, job, kGpuBounceSlots, own, ticket);
}

PieceState GpuImport::poll(Ticket ticket, std::byte* own, std::uint64_t length) noexcept {
  GpuDevice::Life& life = device_->life_of(ticket);
  PieceSlot& slot = gpu_slot(life.file.data(), slot_number(ticket));
  const PieceState state = slot.look(GpuDevice::is_alive(life));
  if (state == PieceState::pending) return state;
  // Nobody waits for it any more: the slot's next piece has an end of its own.
  life.fenced[slot_number(ticket)].store(false, std::memory_order_relaxed);
  if (state == PieceState::ok && own != nullptr) {
    SIMM_CHECK(!is_gpu_write_slot(slot_number(ticket)) && length <= kReadBytesMax);
    std::memcpy(own, gpu_bounce(life.file.data(), slot_number(ticket)), length);
  }
  device_->count(slot_number(ticket), life.bytes[slot_number(ticket)], state);
  slot.release();
  device_->shares_.give_slot(*held_, slot_number(ticket));
  return state;
}

void GpuImport::fence(Ticket ticket) noexcept {
  device_->life_of(ticket).fenced[slot_number(ticket)].store(true, std::memory_order_relaxed);
}

bool GpuImport::is_fenced(Ticket ticket) noexcept {
  return poll(ticket, nullptr, 0) != PieceState::pending;
}

}  // namespace simm::memory
