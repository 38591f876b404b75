// Random histories against a simple reference: what may be seen, what may be lost and why.
// Repeat one with SIMM_SEED=<seed> SIMM_ROUNDS=1; SIMM_ROUNDS=<n> runs more of them.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/random.h"
#include "tests/support/number_from.h"
#include "tests/unit/daemon/store/store_fixture.h"

namespace simm::store::testing {

namespace {

// One history. Keys k0 .. k23 of three tenants in groups of up to four.
class StoreHistory {
public:
  explicit StoreHistory(std::uint64_t seed)
      : random_(seed), arena_bytes_(4096 + random_.below(28 * 1024)), f_(arena_bytes_, config()) {
    for (std::uint64_t i = 0; i < kKeys; ++i) {
      const std::string name = "k" + std::to_string(i) + std::string(i % 5 == 0 ? 200 : 0, 'x');
      const std::string group = i % 8 < 4 ? "g" + std::to_string(i / 8) : "";
      keys_.emplace_back(name, 1 + i / 8, 1, group);
    }
  }

  void step() {
    switch (random_.below(13)) {
      case 0:
      case 1:
      case 2:
        return begin();
      case 3:
      case 4:
        return publish();
      case 5:
        return read();
      case 6:
        return unpin();
      case 7:
        return exists();
      case 8:
        return random_.one_in(4) ? remove() : abandon();
      case 9:
        f_.now += random_.below(random_.one_in(4) ? 20 * kSecond : kSecond);
        break;
      case 10:
        f_.store->touch(key(), kNoLease, f_.now);
        break;
      case 11:
        return pin();
      default:
        f_.store->do_work(f_.now);
    }
    settle();
  }

  // When everybody lets go, and nothing was used for long, a value as long as the arena finds its
  // place.
  void finish() {
    while (!pins_.empty()) unpin();
    while (!writes_.empty()) abandon();
    for (const OwnedKey& each : keys_) (void)f_.store->unpin(each, f_.now);
    pinned_.clear();
    f_.now += GroupBook::kProtectedNs;
    const std::uint64_t whole = f_.store->stats().arena_bytes;
    WriteResult last;
    for (int i = 0; i < 1000 && last.start == WriteStart::wait; ++i) {
      f_.store->do_work(f_.now);
      last = f_.begin(OwnedKey("last", 3), whole, ipc::PutMode::replace);
    }
    REQUIRE(last.start == WriteStart::reserved);
    f_.store->abandon(last.reservation);
    CHECK(f_.store->stats().objects == 0);
    CHECK(f_.store->stats().leased_bytes == 0);
    CHECK(f_.store->stats().lingering == 0);
  }

  std::uint64_t moved() const { return f_.store->stats().moved; }

private:
  static constexpr std::uint64_t kKeys = 24;

  using GroupName = std::pair<std::uint64_t, std::uint64_t>;  // tenant and group

  struct Seen {
    std::uint8_t byte = 0;
    std::uint64_t length = 0;
    base::TimeNs expires_ns = 0;
  };
  struct Write {
    std::size_t key;
    WriteRequest request;
    Reservation reservation;
    std::uint8_t byte;
  };
  struct Pin {
    ReadPin pin;
    std::uint8_t byte;
  };

  StoreConfig config() {
    StoreConfig made;
    made.objects_max = static_cast<std::uint32_t>(4 + random_.below(40));
    made.moved_bytes_per_call = 64 + random_.below(300);
    made.free_low_permille = static_cast<std::uint32_t>(random_.below(100));
    made.free_high_permille = made.free_low_permille + 100;
    made.quotas.push_back({{1}, 2048 + random_.below(arena_bytes_)});
    made.quotas.push_back({{2}, 0, 3});
    made.pin_budget_percent = 30;
    return made;
  }

  const OwnedKey& key() { return keys_[chosen_ = random_.below(kKeys)]; }
  static std::uint8_t first(std::span<const std::byte> bytes) {
    return static_cast<std::uint8_t>(bytes[0]);
  }
  bool alive(const Seen& seen) const { return seen.expires_ns == 0 || f_.now < seen.expires_ns; }
  GroupName group_of(std::size_t k) const {
    return {keys_[k].key.tenant.value, keys_[k].key.group};
  }
  bool leased(std::size_t k) const {
    const auto found = leases_.find(group_of(k));
    return found != leases_.end() && found->second > f_.now;
  }
  // A group that has lost all its members has lost its lease and its pin.
  void forget_empty_groups() {
    const auto is_used = [&](const GroupName& group) {
      return std::any_of(seen_.begin(), seen_.end(),
                         [&](const auto& entry) { return group_of(entry.first) == group; });
    };
    std::erase_if(leases_, [&](const auto& lease) { return !is_used(lease.first); });
    std::erase_if(pinned_, [&](const GroupName& group) { return !is_used(group); });
  }

  // After each step: everything adds up, what is visible is right, and what was lost inside a lease
  // was counted.
  void settle(std::uint64_t expected_losses = 0) {
    if (steps_++ % 4 == 0) f_.audit();  // the dearest of the checks
    for (auto entry = seen_.begin(); entry != seen_.end();) {
      const Seen& seen = entry->second;
      const int byte = f_.byte_of(keys_[entry->first]);
      if (byte >= 0) {
        CHECK(alive(seen));
        CHECK(byte == seen.byte);
        ++entry;
        continue;
      }
      CHECK(byte == -1);
      // What is pinned goes by its time, by a removal or for its own replacement.
      if (alive(seen) && pinned_.count(group_of(entry->first)) > 0) CHECK(may_lose_pinned_);
      if (alive(seen) && leased(entry->first)) ++expected_losses;
      entry = seen_.erase(entry);
    }
    forget_empty_groups();
    may_lose_pinned_ = false;
    const StoreStats stats = f_.store->stats();
    CHECK(pinned_.size() == stats.pinned_groups);
    CHECK(stats.pinned_bytes <= stats.arena_bytes * 3 / 10);
    const std::uint64_t losses =
        std::accumulate(stats.lost_in_lease.begin(), stats.lost_in_lease.end(), std::uint64_t{0});
    CHECK(losses - losses_ == expected_losses);
    losses_ = losses;
    for (const Pin& pin : pins_) CHECK(f_.all(pin.pin.bytes, pin.byte));
    for (const Write& write : writes_) CHECK(f_.all(write.reservation.extent, write.byte));
  }

  void begin() {
    if (writes_.size() >= 4) return publish();
    WriteRequest request{key(), 1 + random_.below(random_.one_in(4) ? 6000 : 700),
                         random_.one_in(2) ? ipc::PutMode::replace : ipc::PutMode::if_absent,
                         random_.one_in(3) ? 1 + random_.below(30 * kSecond) : 0};
    const std::size_t k = chosen_;
    may_lose_pinned_ = request.mode == ipc::PutMode::replace;
    const WriteResult result = f_.store->begin_write(request, f_.now);
    const auto present = seen_.find(k);
    const bool was_there = present != seen_.end() && alive(present->second);
    if (result.start == WriteStart::already_present) {
      CHECK(was_there);
      CHECK(request.mode == ipc::PutMode::if_absent);
    } else if (request.mode == ipc::PutMode::if_absent) {
      CHECK_FALSE(was_there);
    }
    if (result.start == WriteStart::reserved) {
      REQUIRE(result.reservation.extent.size() == request.length);
      const std::uint8_t byte = next_byte_++;
      f_.fill(result.reservation, byte);
      writes_.push_back({k, request, result.reservation, byte});
    }
    settle();
  }

  void publish() {
    if (writes_.empty()) return settle();
    const std::size_t at = random_.below(writes_.size());
    const Write write = writes_[at];
    writes_.erase(writes_.begin() + static_cast<std::ptrdiff_t>(at));
    const std::uint64_t digest =
        base::payload_digest(write.reservation.extent.data(), write.reservation.extent.size());
    const auto present = seen_.find(write.key);
    const bool kept = present != seen_.end() && alive(present->second) &&
                      write.request.mode == ipc::PutMode::if_absent;
    const std::uint64_t outgrown = f_.store->stats().pins_outgrown;
    const ObjectLength length = f_.store->publish(write.reservation, digest, 1, f_.now);
    if (f_.store->stats().pins_outgrown > outgrown) {
      CHECK(pinned_.erase(group_of(write.key)) == 1);
    }
    CHECK(length == (kept ? present->second.length : write.request.length));
    if (!kept) {
      const base::TimeNs ttl = write.request.ttl_ns;
      seen_[write.key] = {write.byte, write.request.length, ttl == 0 ? 0 : f_.now + ttl};
    }
    CHECK(f_.has(keys_[write.key]));
    settle();
  }

  void abandon() {
    if (!writes_.empty()) {
      f_.store->abandon(writes_.back().reservation);
      writes_.pop_back();
    }
    settle();
  }

  void grant(base::TimeNs lease_ns) {
    base::TimeNs& until = leases_[group_of(chosen_)];
    until =
        std::max(until, f_.now + (lease_ns == 0 ? 15 * kSecond : std::min(lease_ns, 60 * kSecond)));
  }

  base::TimeNs some_lease() { return random_.one_in(2) ? 0 : random_.below(70 * kSecond); }

  void read() {
    if (pins_.size() >= 3) return unpin();
    const base::TimeNs lease_ns = some_lease();
    ReadPin pin;
    if (f_.store->begin_read(key(), lease_ns, f_.now, pin) == Status::ok) {
      pins_.push_back({pin, first(pin.bytes)});
      grant(lease_ns);
    }
    settle();
  }

  void unpin() {
    if (!pins_.empty()) {
      const std::size_t at = random_.below(pins_.size());
      f_.store->end_read(pins_[at].pin);
      pins_.erase(pins_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    settle();
  }

  void exists() {
    const base::TimeNs lease_ns = some_lease();
    const ObjectLength length = f_.store->exists(key(), lease_ns, f_.now);
    const auto present = seen_.find(chosen_);
    if (length > 0) {
      REQUIRE(present != seen_.end());
      CHECK(length == present->second.length);
      grant(lease_ns);
    }
    settle();
  }

  void pin() {
    const ObjectKey& chosen = key();
    const auto present = seen_.find(chosen_);
    const bool is_there = present != seen_.end() && alive(present->second);
    if (random_.one_in(3)) {
      CHECK(f_.store->unpin(chosen, f_.now) == (is_there ? Status::ok : Status::not_found));
      if (is_there) pinned_.erase(group_of(chosen_));
    } else {
      const Status status = f_.store->pin(chosen, f_.now);
      CHECK((status == Status::not_found) == !is_there);
      if (status == Status::ok) pinned_.insert(group_of(chosen_));
      if (status == Status::no_space) CHECK(pinned_.count(group_of(chosen_)) == 0);
    }
    settle();
  }

  void remove() {
    may_lose_pinned_ = true;
    const bool was_there = f_.store->remove(key(), f_.now);
    const auto present = seen_.find(chosen_);
    CHECK(was_there == (present != seen_.end() && alive(present->second)));
    settle();
    CHECK_FALSE(f_.has(keys_[chosen_]));
  }

  base::SeededRandom random_;
  const std::uint64_t arena_bytes_;
  StoreFixture f_;
  std::vector<OwnedKey> keys_;
  std::size_t chosen_ = 0;
  std::map<std::size_t, Seen> seen_;  // what was visible after the last step
  std::map<GroupName, base::TimeNs> leases_;
  std::set<GroupName> pinned_;
  bool may_lose_pinned_ = false;  // by what happens in this step
  std::vector<Write> writes_;
  std::vector<Pin> pins_;
  std::uint64_t steps_ = 0;
  std::uint8_t next_byte_ = 1;
  std::uint64_t losses_ = 0;
};

}  // namespace

TEST_CASE("random histories of a store agree with a simple model") {
  const std::uint64_t seed = test_support::number_from("SIMM_SEED", std::random_device{}());
  const std::uint64_t rounds = test_support::rounds_from("SIMM_ROUNDS", 60);
  std::uint64_t moved = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    INFO("repeat: SIMM_SEED=" << seed + round
                              << " SIMM_ROUNDS=1 unit_store -tc='random histories*'");
    StoreHistory history(seed + round);
    for (int i = 0; i < 600; ++i) history.step();
    history.finish();
    moved += history.moved();
  }
  if (rounds >= 20) CHECK(moved > rounds);  // objects moved under all this
}

}  // namespace simm::store::testing
