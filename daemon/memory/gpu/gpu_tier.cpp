#include "daemon/memory/gpu/gpu_tier.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "daemon/base/random.h"

namespace simm::memory {

namespace {

// The places of pieces begin where copies are fast.
constexpr std::uint64_t kGranuleBytes = 512;
constexpr std::uint64_t rounded(std::uint64_t bytes) noexcept {
  return (bytes + kGranuleBytes - 1) / kGranuleBytes * kGranuleBytes;
}

// The first hole that is long enough gets shorter. False: there is none.
bool take_hole(std::map<std::uint64_t, std::uint64_t>& holes, std::uint64_t bytes,
               std::uint64_t& offset) {
  const auto found = std::find_if(holes.begin(), holes.end(),
                                  [bytes](const auto& hole) { return hole.second >= bytes; });
  if (found == holes.end()) return false;
  offset = found->first;
  const std::uint64_t left = found->second - bytes;
  holes.erase(found);
  if (left > 0) holes.emplace(offset + bytes, left);
  return true;
}

// [offset, offset + bytes) is free again, in one hole with what is free beside it.
void give_hole(std::map<std::uint64_t, std::uint64_t>& holes, std::uint64_t offset,
               std::uint64_t bytes) {
  auto next = holes.lower_bound(offset);
  if (next != holes.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      holes.erase(before);
    }
  }
  if (next != holes.end() && next->first == offset + bytes) {
    bytes += next->second;
    holes.erase(next);
  }
  holes.emplace(offset, bytes);
}

void add(GpuTierCounts::Number& number, std::uint64_t by) noexcept {
  number.fetch_add(by, std::memory_order_relaxed);
}

}  // namespace

std::size_t GpuTier::NameHash::operator()(const Name& name) const noexcept {
  std::uint64_t state = name.serial ^ std::uint64_t{name.origin} << 48;
  state = base::splitmix64(state) ^ name.offset;
  return base::splitmix64(state);
}

GpuTier::GpuTier(const cuda::Driver& driver, int ordinal, cuda::Stream stream,
                 GpuTierCounts& counts, GpuNames& names, Clock now, const GpuTierConfig& config)
    : driver_(driver),
      ordinal_(ordinal),
      stream_(stream),
      counts_(counts),
      names_(names),
      now_(now),
      config_(config) {}

void GpuTier::show() {
  counts_.bytes.store((extents_.size() + leaving_.size()) * config_.extent_bytes,
                      std::memory_order_relaxed);
  counts_.used_bytes.store(used_bytes_, std::memory_order_relaxed);
  counts_.pieces.store(pieces_.size(), std::memory_order_relaxed);
  const std::uint64_t done = leaving_.empty() ? order_ : leaving_.front()->order - 1;
  counts_.order_done.store(std::min(done, order_), std::memory_order_release);
}

// ---- look-up ----

GpuTier::Place GpuTier::find(const ObjectPart& part, std::uint64_t bytes, std::uint64_t tenant,
                             bool takes_in) {
  const bool fits = bytes >= config_.piece_bytes_min && bytes <= config_.extent_bytes;
  if (part.origin == 0 || !fits || bytes_max_ < config_.extent_bytes) return {};
  const Name name{part.serial, part.offset, part.origin};
  const auto found = pieces_.find(name);
  if (found == pieces_.end()) return takes_in ? take_place(name, bytes, tenant) : Place{};
  Extent& extent = *found->second.extent;
  // A name is of one tenant: what the daemon says otherwise is not believed.
  if (extent.tenant != tenant) return {};
  if (found->second.bytes < bytes) {  // another part of the object was got before
    drop(found);
    return take_place(name, bytes, tenant);
  }
  touch(extent, found->second);
  add(counts_.hits, 1);
  add(counts_.hit_bytes, bytes);
  return {extent.address + found->second.offset, true};
}

GpuTier::Place GpuTier::find_for_peer(const ObjectPart& part, std::uint64_t bytes,
                                      std::uint64_t tenant) {
  const auto found = pieces_.find({part.serial, part.offset, part.origin});
  if (part.origin == 0 || found == pieces_.end() || found->second.bytes < bytes) return {};
  Extent& extent = *found->second.extent;
  if (extent.tenant != tenant) return {};
  touch(extent, found->second);
  add(counts_.peer_hits, 1);
  add(counts_.peer_hit_bytes, bytes);
  return {extent.address + found->second.offset, true};
}

void GpuTier::touch(Extent& extent, Piece& piece) {
  Order& order = tenants_.at(extent.tenant).order;
  order.splice(order.end(), order, piece.place);
  extent.used = ++look_ups_;
}

std::uint64_t GpuTier::print_of(const Name& name, std::uint64_t tenant) noexcept {
  return gpu_name_print({name.origin, name.serial, name.offset}, tenant);
}

GpuTier::Place GpuTier::take_place(const Name& name, std::uint64_t bytes, std::uint64_t tenant) {
  Extent* const extent = make_room(rounded(bytes), tenant);
  if (extent == nullptr) return {};
  Piece piece{extent, 0, bytes, {}};
  (void)take_hole(extent->holes, rounded(bytes), piece.offset);  // make_room() saw to it
  extent->free_bytes -= rounded(bytes);
  ++extent->pieces;
  extent->used = ++look_ups_;
  Order& order = tenants_.at(tenant).order;
  piece.place = order.insert(order.end(), name);
  pieces_.emplace(name, piece);
  names_.add(print_of(name, tenant));
  used_bytes_ += bytes;
  add(counts_.admitted, 1);
  show();
  return {extent->address + piece.offset, false};
}

// An extent of the tenant's with a hole of so many bytes; null: there is none to be had.
GpuTier::Extent* GpuTier::make_room(std::uint64_t bytes, std::uint64_t tenant) {
  const auto has_room = [&](const std::unique_ptr<Extent>& extent) {
    return extent->has_owner && extent->tenant == tenant && extent->free_bytes >= bytes &&
           std::any_of(extent->holes.begin(), extent->holes.end(),
                       [bytes](const auto& hole) { return hole.second >= bytes; });
  };
  for (std::uint32_t evicted = 0; evicted <= config_.evictions_max; ++evicted) {
    const auto found = std::find_if(extents_.begin(), extents_.end(), has_room);
    if (found != extents_.end()) return found->get();
    if (add_extent(tenant)) continue;
    const auto own = tenants_.find(tenant);
    if (own == tenants_.end() || own->second.order.empty()) return nullptr;
    drop(pieces_.find(own->second.order.front()));
    add(counts_.evicted, 1);
  }
  return nullptr;
}

void GpuTier::drop(Pieces::iterator piece) {
  Extent& extent = *piece->second.extent;
  give_hole(extent.holes, piece->second.offset, rounded(piece->second.bytes));
  extent.free_bytes += rounded(piece->second.bytes);
  --extent.pieces;
  used_bytes_ -= piece->second.bytes;
  names_.drop(print_of(piece->first, extent.tenant));
  tenants_.at(extent.tenant).order.erase(piece->second.place);
  pieces_.erase(piece);
  show();
}

// ---- extents ----

// One more for the tenant. False: it has its share, or there is none.
bool GpuTier::add_extent(std::uint64_t tenant) {
  Extent* extent = create_extent();
  if (extent == nullptr) extent = spare_extent();
  if (extent == nullptr) extent = extent_of_others(tenant);
  return extent != nullptr && give(*extent, tenant);
}

std::uint64_t GpuTier::spare_bytes() const {
  std::size_t free_bytes = 0;
  std::size_t bytes = 0;
  if (driver_.memory_get_info(&free_bytes, &bytes) != cuda::kSuccess) return 0;
  return free_bytes > reserve_bytes_ ? free_bytes - reserve_bytes_ : 0;
}

GpuTier::Extent* GpuTier::create_extent() {
  const std::size_t count = extents_.size() + leaving_.size();
  if (count >= bytes_max_ / config_.extent_bytes || now_() < grow_ns_) return nullptr;
  const cuda::DevicePointer address = spare_bytes() < config_.extent_bytes ? 0 : map_extent();
  if (address == 0) {
    grow_ns_ = now_() + config_.retry_ns;
    add(counts_.refused, 1);
    return nullptr;
  }
  auto extent = std::make_unique<Extent>();
  extent->address = address;
  extent->holes.emplace(0, config_.extent_bytes);
  extent->free_bytes = config_.extent_bytes;
  extents_.push_back(std::move(extent));
  show();
  return extents_.back().get();
}

// 0: the GPU has no memory for it.
cuda::DevicePointer GpuTier::map_extent() {
  cuda::AllocationProperties wanted{};  // without a handle: nobody can be given one
  wanted.type = cuda::kAllocationPinned;
  wanted.location = {cuda::kLocationDevice, ordinal_};
  const cuda::AccessDescription access{wanted.location, cuda::kAccessReadWrite};
  const std::uint64_t bytes = config_.extent_bytes;
  cuda::DevicePointer address = 0;
  if (driver_.address_reserve(&address, bytes, 0, 0, 0) != cuda::kSuccess) return 0;
  cuda::AllocationHandle handle = 0;
  if (driver_.memory_create(&handle, bytes, &wanted, 0) == cuda::kSuccess) {
    const bool is_mapped = driver_.memory_map(address, bytes, 0, handle, 0) == cuda::kSuccess;
    (void)driver_.memory_release(handle);  // the mapping keeps the memory
    if (is_mapped && driver_.memory_set_access(address, bytes, &access, 1) == cuda::kSuccess) {
      return address;
    }
    if (is_mapped) (void)driver_.memory_unmap(address, bytes);
  }
  (void)driver_.address_free(address, bytes);
  return 0;
}

// One without a copy in it.
GpuTier::Extent* GpuTier::spare_extent() const {
  const auto found = std::find_if(extents_.begin(), extents_.end(),
                                  [](const auto& extent) { return extent->pieces == 0; });
  return found == extents_.end() ? nullptr : found->get();
}

// One of those who have more than their share, for a tenant who has less; of these extents the one
// that was not used for longest.
GpuTier::Extent* GpuTier::extent_of_others(std::uint64_t tenant) const {
  const auto own = tenants_.find(tenant);
  const std::uint32_t has = own == tenants_.end() ? 0 : own->second.extents;
  const std::size_t tenants = tenants_.size() + (own == tenants_.end() ? 1 : 0);
  const std::size_t share = std::max<std::size_t>(1, extents_.size() / tenants);
  if (has >= share) return nullptr;
  Extent* oldest = nullptr;
  for (const std::unique_ptr<Extent>& extent : extents_) {
    if (tenants_.at(extent->tenant).extents <= share) continue;
    if (oldest == nullptr || extent->used < oldest->used) oldest = extent.get();
  }
  return oldest;
}

// Zeroed, unless it is fresh.
bool GpuTier::give(Extent& extent, std::uint64_t tenant) {
  if (extent.has_owner && extent.tenant == tenant) return false;  // it is there already
  add(counts_.evicted, extent.pieces);
  empty(extent);
  if (!extent.is_fresh &&
      driver_.fill(extent.address, 0, config_.extent_bytes, stream_) != cuda::kSuccess) {
    return false;
  }
  extent.is_fresh = false;
  extent.tenant = tenant;
  extent.has_owner = true;
  extent.used = ++look_ups_;
  ++tenants_[tenant].extents;
  return true;
}

// Its copies are dropped, and it belongs to nobody.
void GpuTier::empty(Extent& extent) {
  if (!extent.has_owner) return;
  const auto owner = tenants_.find(extent.tenant);
  for (auto name = owner->second.order.begin(); extent.pieces > 0;) {
    const auto piece = pieces_.find(*name++);
    if (piece->second.extent == &extent) drop(piece);
  }
  if (--owner->second.extents == 0) tenants_.erase(owner);
  extent.has_owner = false;
}

// ---- giving back ----

void GpuTier::resize(std::uint64_t bytes, std::uint64_t reserve_bytes, std::uint64_t order) {
  bytes_max_ = bytes;
  reserve_bytes_ = reserve_bytes;
  grow_ns_ = look_ns_ = now_();
  counts_.spare_bytes.store(spare_bytes(), std::memory_order_relaxed);
  const std::size_t extents_max = bytes / config_.extent_bytes;
  const std::size_t extents = extents_.size();
  // The order counts from when all that it takes is on its way: nobody may take it for done before.
  shrink(extents > extents_max ? extents - extents_max : 0, std::max(order_, order));
  order_ = std::max(order_, order);
  show();
}

// Those leave that were not used for longest.
void GpuTier::shrink(std::size_t extents, std::uint64_t order) {
  if (leaving_.empty()) begun_ns_ = now_();
  for (; extents > 0 && !extents_.empty(); --extents) {
    const auto oldest =
        std::min_element(extents_.begin(), extents_.end(),
                         [](const auto& a, const auto& b) { return a->used < b->used; });
    empty(**oldest);
    (*oldest)->order = order;
    leaving_.push_back(std::move(*oldest));
    extents_.erase(oldest);
    begin_leaving(*leaving_.back());
  }
  show();
}

// Behind all copies that were queued: nothing of a tenant goes back to the driver. Without an event
// nobody would know when the copies have ended.
void GpuTier::begin_leaving(Extent& extent) {
  const bool is_marked =
      driver_.fill(extent.address, 0, config_.extent_bytes, stream_) == cuda::kSuccess &&
      driver_.event_create(&extent.drained, cuda::kEventDisableTiming) == cuda::kSuccess &&
      driver_.event_record(extent.drained, stream_) == cuda::kSuccess;
  has_failed_ = has_failed_ || !is_marked;
}

bool GpuTier::leave(Extent& extent) {
  const std::uint64_t bytes = config_.extent_bytes;
  (void)driver_.event_destroy(extent.drained);
  if (driver_.memory_unmap(extent.address, bytes) != cuda::kSuccess) return false;
  (void)driver_.address_free(extent.address, bytes);
  add(counts_.revoked_bytes, bytes);
  return true;
}

// A few at a time: the helper has other things to do.
bool GpuTier::do_work() {
  constexpr int kLeaveMax = 16;
  if (has_failed_) return false;
  for (int left = 0; left < kLeaveMax && !leaving_.empty(); ++left) {
    Extent& extent = *leaving_.front();
    const cuda::Result drained = driver_.event_query(extent.drained);
    if (drained == cuda::kNotReady) break;
    if (drained != cuda::kSuccess || !leave(extent)) return false;
    leaving_.erase(leaving_.begin());
    if (leaving_.empty()) {
      const std::uint64_t took_ns = now_() - begun_ns_;
      counts_.revoke_ns.store(took_ns, std::memory_order_relaxed);
      if (took_ns > counts_.revoke_max_ns.load(std::memory_order_relaxed)) {
        counts_.revoke_max_ns.store(took_ns, std::memory_order_relaxed);
      }
    }
    show();
  }
  if (!extents_.empty() && leaving_.empty() && now_() >= look_ns_) keep_reserve();
  return true;
}

// Somebody else on this GPU took memory that it shall have: the tier gives way.
void GpuTier::keep_reserve() {
  look_ns_ = now_() + config_.retry_ns;
  std::size_t free_bytes = 0;
  std::size_t bytes = 0;
  if (driver_.memory_get_info(&free_bytes, &bytes) != cuda::kSuccess) return;
  if (free_bytes >= reserve_bytes_) return;
  grow_ns_ = look_ns_;
  // No order waits for these but the next one.
  shrink((reserve_bytes_ - free_bytes + config_.extent_bytes - 1) / config_.extent_bytes,
         order_ + 1);
}

// ---- for tests ----

const char* GpuTier::audit() const {
  std::map<std::uint64_t, std::uint32_t> extents_of;
  std::uint64_t free_bytes = 0;
  std::size_t pieces = 0;
  for (const std::unique_ptr<Extent>& extent : extents_) {
    std::uint64_t sum = 0;
    std::uint64_t last = 0;
    for (const auto& [offset, length] : extent->holes) {
      if (offset < last || length > config_.extent_bytes - offset) return "holes meet";
      last = offset + length + 1;
      sum += length;
    }
    if (sum != extent->free_bytes) return "an extent's holes do not add up";
    if (extent->has_owner) ++extents_of[extent->tenant];
    free_bytes += sum;
    pieces += extent->pieces;
  }
  std::uint64_t used_bytes = 0;
  std::uint64_t rounded_bytes = 0;
  for (const auto& [name, piece] : pieces_) {
    used_bytes += piece.bytes;
    rounded_bytes += rounded(piece.bytes);
    if (!(*piece.place == name)) return "a piece is at another one's place in the order";
  }
  std::size_t ordered = 0;
  for (const auto& [tenant, own] : tenants_) {
    if (extents_of[tenant] != own.extents) return "a tenant's extents do not add up";
    ordered += own.order.size();
  }
  if (extents_of.size() != tenants_.size()) return "a tenant without an extent";
  if (pieces != pieces_.size() || ordered != pieces) return "pieces are lost";
  if (used_bytes != used_bytes_) return "used bytes do not add up";
  return free_bytes + rounded_bytes == extents_.size() * config_.extent_bytes ? nullptr
                                                                              : "bytes are lost";
}

}  // namespace simm::memory
