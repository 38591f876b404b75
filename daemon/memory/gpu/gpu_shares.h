// GpuShares: how much of one GPU's helper each tenant has under way, and how much it has to leave
// to the others. The rule is that of all shares here (session/tenant_share.h): a tenant without any
// may take the last one, another one has at most kFactor times what then stays free. So a tenant
// that comes later finds a slot, whatever another one has queued.
// Thread: slots: any data agent, no lock; imports: the adopter.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "daemon/memory/gpu/each_tenant.h"
#include "daemon/memory/gpu/gpu_protocol.h"

namespace simm::memory {

class GpuShares {
public:
  static constexpr std::uint32_t kFactor = 4;

  // What one tenant has. Shared by its imports.
  struct Held {
    std::array<std::atomic<std::uint32_t>, 3> slots{};
    std::uint32_t imports = 0;
  };
  enum class Taken : std::uint8_t {
    yes,
    share_used,  // others need the rest
    none_free,
  };

  // Of the kind of `slot`: reads, writes out of the buffer, writes out of the arena.
  Taken take_slot(Held& held, std::uint32_t slot) noexcept {
    const std::size_t kind = kind_of(slot);
    const std::uint32_t mine = held.slots[kind].fetch_add(1) + 1;
    const std::uint32_t all = all_.slots[kind].fetch_add(1) + 1;
    if (all <= kSlots[kind] && is_fair(mine, kSlots[kind] - all)) return Taken::yes;
    give_slot(held, slot);
    return all > kSlots[kind] ? Taken::none_free : Taken::share_used;
  }
  void give_slot(Held& held, std::uint32_t slot) noexcept {
    const std::size_t kind = kind_of(slot);
    all_.slots[kind].fetch_sub(1);
    held.slots[kind].fetch_sub(1);
  }

  Taken take_import(Held& held) noexcept {
    if (all_.imports == kGpuImportsMax) return Taken::none_free;
    if (!is_fair(held.imports + 1, kGpuImportsMax - all_.imports - 1)) return Taken::share_used;
    ++held.imports;
    ++all_.imports;
    return Taken::yes;
  }
  void give_import(Held& held) noexcept {
    --held.imports;
    --all_.imports;
  }

  // Thread: the adopter.
  std::shared_ptr<Held> of(std::uint64_t tenant) { return tenants_.of(tenant); }

private:
  static constexpr std::array<std::uint32_t, 3> kSlots = {
      kGpuReadSlots, kGpuBounceSlots - kGpuReadSlots, kGpuSlots - kGpuBounceSlots};
  static constexpr std::size_t kind_of(std::uint32_t slot) noexcept {
    return slot < kGpuReadSlots ? 0 : slot < kGpuBounceSlots ? 1 : 2;
  }
  static constexpr bool is_fair(std::uint32_t mine, std::uint32_t unused) noexcept {
    return mine <= 1 || mine <= kFactor * unused;
  }

  Held all_;
  EachTenant<Held> tenants_;  // that have imports
};

}  // namespace simm::memory
