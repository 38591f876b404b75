// AccountBook: what each tenant holds of a store, and what is its fair share of it.
//
// Every tenant that holds anything has a share of the store by its weight, whatever the others do.
// A tenant may use more while others leave it, and gives it back when they want it. What is shared
// out is whatever is scarce: bytes of the arena, or records for objects. Holdings are compared per
// weight, so "holds most for its weight" says who is furthest beyond its share.
//
// Every call is O(1) but three: tell(), next_crowded() while a tenant is crowded, and account_of()
// for another tenant than the last one are O(tenants). Thread: the data agent of the store.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/base/ids.h"
#include "daemon/store/eviction/record.h"
#include "daemon/store/eviction/store_config.h"
#include "daemon/store/eviction/tenant_use.h"
#include "daemon/store/space/table.h"

namespace simm::store {

// What there is not enough of.
enum class Scarce : std::uint8_t { bytes, records };

// What one tenant holds. Numbers start at 1; kNone is no account.
struct Account {
  base::TenantId tenant;
  bool configured = false;  // has a quota or weight of its own, stays when empty
  std::uint32_t weight = 1;
  std::uint64_t quota_bytes = 0;
  Stock stock;                     // of a quota below the arena
  bool crowded = false;            // the stock was below low, and is not at high
  std::uint64_t extent_bytes = 0;  // of all its records, reserved and lingering ones included
  std::uint64_t leased_bytes = 0;
  std::uint64_t pinned_bytes = 0;
  std::uint32_t records = 0;
  bool renamed = true;                     // another tenant has it than the policy knows of
  IndexList<Group, &Group::order> leased;  // oldest grant first
  IndexList<Group, &Group::order> probed;  // the same of leases that nothing but probes asked for

  // The one that gives way first; kNone: nothing is leased.
  [[nodiscard]] std::uint32_t first_lease() const noexcept {
    return probed.empty() ? leased.front() : probed.front();
  }
  [[nodiscard]] IndexList<Group, &Group::order>& leases_like(const Group& group) noexcept {
    return group.probed ? probed : leased;
  }
  [[nodiscard]] std::uint64_t held(Scarce scarce) const noexcept {
    return scarce == Scarce::bytes ? extent_bytes : records;
  }
};

// An amount that is held, or would be, for some weight.
struct Holding {
  std::uint64_t amount = 0;
  std::uint64_t weight = 1;

  // SAFETY: amounts are below 2^50 and weights below 2^13: the products fit.
  [[nodiscard]] bool less_than(const Holding& other) const noexcept {
    return amount * other.weight < other.amount * weight;
  }
};

class AccountBook {
public:
  AccountBook(const StoreConfig& config, std::uint64_t arena_bytes, std::uint32_t records_max);

  // Account numbers are below this.
  static std::uint32_t count_for(const StoreConfig& config) noexcept;

  // The account of a tenant, made at its first use. kNone: there are too many, and all others hold
  // something, or have a quota or weight of their own.
  [[nodiscard]] std::uint32_t account_of(base::TenantId tenant) noexcept;
  [[nodiscard]] Account& operator[](std::uint32_t number) noexcept { return accounts_[number]; }
  [[nodiscard]] const Account& operator[](std::uint32_t number) const noexcept {
    return accounts_[number];
  }
  [[nodiscard]] std::uint32_t end() const noexcept {
    return static_cast<std::uint32_t>(accounts_.size());
  }

  // What is counted of an account. There is one for kNone too, which nobody reads.
  [[nodiscard]] TenantTally& tally(std::uint32_t number) noexcept { return tallies_[number]; }
  [[nodiscard]] const TenantTally& tally(std::uint32_t number) const noexcept {
    return tallies_[number];
  }
  // About every account that has a tenant, at most end() - 1; returns how many it wrote.
  [[nodiscard]] std::uint32_t tell(std::span<TenantUse> uses) const noexcept;

  // One record more or less, of so many bytes.
  void charge(std::uint32_t number, std::uint64_t extent_bytes) noexcept;
  void discharge(std::uint32_t number, std::uint64_t extent_bytes) noexcept;

  // An account near its own quota, the one after `after` in a circle; kNone: none is.
  [[nodiscard]] std::uint32_t next_crowded(std::uint32_t after) const noexcept;
  [[nodiscard]] std::uint32_t crowded() const noexcept { return crowded_; }  // how many are

  // What all hold together, for all their weights: nobody who holds more than this for its weight
  // is within its share.
  [[nodiscard]] Holding mean(Scarce scarce) const noexcept {
    return {scarce == Scarce::bytes ? held_bytes_ : held_records_, weights_};
  }
  // The share of an account, were everything in use, and no more than its quota.
  [[nodiscard]] std::uint64_t share_of(const Account& account, Scarce scarce) const noexcept;

private:
  std::vector<Account> accounts_;     // fixed size; [0] is unused
  std::vector<TenantTally> tallies_;  // by account
  std::uint32_t named_ = 0;           // accounts up to this number have a tenant
  std::uint32_t last_ = kNone;
  std::uint64_t arena_bytes_;
  std::uint32_t records_max_;
  std::uint64_t held_bytes_ = 0;
  std::uint64_t held_records_ = 0;
  std::uint64_t weights_ = 0;  // of those that hold anything
  std::uint32_t crowded_ = 0;  // accounts
};

}  // namespace simm::store
