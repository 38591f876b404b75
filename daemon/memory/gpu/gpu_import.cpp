#include <algorithm>
#include <cstring>
#include <utility>

#include "daemon/memory/gpu/gpu_device.h"
#include "simm/check.h"

namespace simm::memory {

GpuImport::~GpuImport() {
  for (Guest& guest : guests_) guest.import.reset();
  device_->forget(*this);
}

Status GpuImport::post_read(std::uint64_t offset, std::uint64_t length, Ticket& ticket) noexcept {
  return device_->post(*this, {0, number_, offset, length, 0}, kGpuReadSlots, nullptr, 0, ticket);
}

std::uint64_t GpuImport::write_bytes_max(const std::byte* own) const noexcept {
  std::uint64_t offset = 0;
  return device_->arena_.find(own, 1, offset) ? kWriteBytesMax : kReadBytesMax;
}

Status GpuImport::post_object(std::uint64_t offset, const ObjectPart& part, const std::byte* own,
                              std::uint64_t length, Ticket& ticket) noexcept {
  if (part.origin == 0) return post_here(offset, part, own, length, 0, ticket);
  const std::uint64_t print = gpu_name_print(part, tenant_);
  if (device_->may_have(print)) return post_here(offset, part, own, length, 0, ticket);
  const Status pushed = post_to_guest(offset, part, own, length, print, ticket);
  if (pushed == Status::ok) return pushed;
  // Another tier has it and serves the next get: no copy here for that.
  if (pushed == Status::no_space) return post_here(offset, part, own, length, 0, ticket);
  return post_counted(offset, part, own, length, print, ticket);
}

Status GpuImport::post_counted(std::uint64_t offset, const ObjectPart& part, const std::byte* own,
                               std::uint64_t length, std::uint64_t print, Ticket& ticket) noexcept {
  const bool has_tier = device_->has_tier();
  const bool is_small = length < kGpuTierPieceBytesMin;
  if (is_small || (!has_tier && guest_count_.load(std::memory_order_relaxed) == 0)) {
    return post_here(offset, part, own, length, 0, ticket);
  }
  const GpuSeen::Turn turn = seen_->begin(print, has_tier);
  const std::uint64_t taken_in = turn == GpuSeen::Turn::second ? print : 0;
  const Status posted = post_here(offset, part, own, length, taken_in, ticket);
  if (posted != Status::ok) seen_->undo(print, turn);  // it is asked for again
  return posted;
}

Status GpuImport::post_to_guest(std::uint64_t offset, const ObjectPart& part, const std::byte* own,
                                std::uint64_t length, std::uint64_t print,
                                Ticket& ticket) noexcept {
  const std::uint32_t count = guest_count_.load(std::memory_order_acquire);
  bool is_out_of_reach = false;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Guest& guest = guests_[i];
    if (!guest.device->may_have(print)) continue;
    if (guest.import == nullptr) {
      is_out_of_reach = true;
      continue;
    }
    const Status posted = guest.import->post_here(offset, part, own, length, 0, ticket);
    if (posted == Status::ok) ticket |= Ticket{i + 1} << kGuestShift;
    return posted;
  }
  if (is_out_of_reach) {
    device_->figures_.host_hits.fetch_add(1, std::memory_order_relaxed);
    device_->figures_.host_hit_bytes.fetch_add(length, std::memory_order_relaxed);
  }
  return Status::not_found;
}

GpuImport* GpuImport::guest_of(Ticket& ticket) const noexcept {
  const std::uint64_t guest = ticket >> kGuestShift;
  if (guest == 0) return nullptr;
  SIMM_CHECK(guest <= guest_count_.load(std::memory_order_acquire));
  ticket &= (Ticket{1} << kGuestShift) - 1;
  return guests_[guest - 1].import.get();
}

Status GpuImport::post_here(std::uint64_t offset, const ObjectPart& part, const std::byte* own,
                            std::uint64_t length, std::uint64_t taken_in, Ticket& ticket) noexcept {
  GpuJob job{kGpuBounceSlots, number_, offset, length, 0};
  job.object_serial = part.serial;
  job.object_offset = part.offset;
  job.object_origin = part.origin;
  job.takes_in = taken_in != 0 ? 1 : 0;
  if (device_->arena_.find(own, length, job.arena_offset)) {
    return device_->post(*this, job, kGpuSlots, nullptr, taken_in, ticket);
  }
  job.slot = kGpuReadSlots;
  job.arena_offset = 0;
  return device_->post(*this, job, kGpuBounceSlots, own, taken_in, ticket);
}

PieceState GpuImport::poll(Ticket ticket, std::byte* own, std::uint64_t length) noexcept {
  if (GpuImport* const guest = guest_of(ticket)) {
    const PieceState state = guest->poll(ticket, own, length);
    // The bytes are elsewhere too, and this region's own helper can have them.
    return state == PieceState::lost ? PieceState::retry : state;
  }
  const std::uint32_t number = GpuDevice::slot_number(ticket);
  GpuDevice::Life& life = device_->life_of(ticket);
  PieceSlot& slot = gpu_slot(life.file.data(), number);
  const PieceState state = slot.look(GpuDevice::is_alive(life));
  if (state == PieceState::pending) return state;
  // Nobody waits for it any more: the slot's next piece has an end of its own.
  const bool was_given_up =
      gpu_given_up(life.file.data(), number).exchange(false, std::memory_order_relaxed);
  if (state == PieceState::ok && own != nullptr) {
    SIMM_CHECK(!is_gpu_write_slot(number) && length <= kReadBytesMax);
    std::memcpy(own, gpu_bounce(life.file.data(), number), length);
  }
  if (life.taken_in[number] != 0) seen_->end(life.taken_in[number]);
  const bool was_not_begun = was_given_up && state == PieceState::failed;
  if (!was_not_begun) home_->count(number, life.bytes[number], state);
  slot.release();
  device_->shares_.give_slot(*held_, number);
  return state;
}

void GpuImport::fence(Ticket ticket) noexcept {
  if (GpuImport* const guest = guest_of(ticket)) return guest->fence(ticket);
  gpu_given_up(device_->life_of(ticket).file.data(), GpuDevice::slot_number(ticket))
      .store(true, std::memory_order_relaxed);
}

bool GpuImport::is_fenced(Ticket ticket) noexcept {
  return poll(ticket, nullptr, 0) != PieceState::pending;
}

// ---- what other GPUs' helpers do for a region ----

bool GpuImport::has_guest(const GpuDevice& device) const noexcept {
  const std::uint32_t count = guest_count_.load(std::memory_order_relaxed);
  if (count == kGuestsMax) return true;  // no more
  return std::any_of(guests_.begin(), guests_.begin() + count,
                     [&](const Guest& guest) { return guest.device.get() == &device; });
}

void GpuImport::add_guest(std::shared_ptr<GpuDevice> device) {
  const std::uint32_t count = guest_count_.load(std::memory_order_relaxed);
  Expected<std::unique_ptr<GpuImport>> made = device->import_for(*this);
  if (made.status() == Status::unreachable) return;
  guests_[count] = {std::move(device), made ? std::move(*made) : nullptr};
  guest_count_.store(count + 1, std::memory_order_release);
}

}  // namespace simm::memory
