// StoreFixture: a store over a tiny arena in plain memory, a clock in hand, and keys made of
// numbers.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/choice.h"
#include "daemon/base/hash.h"
#include "daemon/store/store.h"

namespace simm::store {

struct StoreTestAccess {
  static Record& record_of(Store& store, const ObjectKey& key) {
    return store.book_.records[store.book_.find(key, 1)];
  }
};

}  // namespace simm::store

namespace simm::store::testing {

inline constexpr base::TimeNs kSecond = base::kNsPerSecond;

// For what every policy has to keep.
inline std::vector<EvictionKind> all_eviction_kinds() {
  return base::all_choices<EvictionKind>(base::kEvictionNames);
}

// A key that keeps its own bytes.
struct OwnedKey {
  std::string bytes;
  ObjectKey key;

  OwnedKey(std::string name, std::uint64_t tenant = 1, std::uint64_t name_space = 1,
           const std::string& group = "")
      : bytes(std::move(name)) {
    const base::KeyHasher hasher(42);
    const std::string place = std::to_string(tenant) + "/" + std::to_string(name_space) + "/";
    key.hash = hasher(place + bytes);
    key.group = hasher(place + (group.empty() ? bytes : group)).high;
    key.tenant = {tenant};
    key.name_space = {name_space};
    key.bytes = bytes;
  }
  OwnedKey(const OwnedKey& other) : bytes(other.bytes), key(other.key) { key.bytes = bytes; }
  OwnedKey& operator=(const OwnedKey&) = delete;
  operator const ObjectKey&() const { return key; }  // NOLINT: stands for its key
};

class StoreFixture {
public:
  explicit StoreFixture(std::uint64_t arena_bytes = 64 * 1024, StoreConfig config = quiet())
      : arena_(arena_bytes) {
    auto made = Store::create(config, arena_);
    REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().context));
    store = std::move(made).value();
  }
  ~StoreFixture() { audit(); }

  // No background eviction: what goes, goes because of a put.
  static StoreConfig quiet() {
    StoreConfig config;
    config.free_low_permille = 0;
    config.free_high_permille = 0;
    return config;
  }
  static StoreConfig quiet(std::uint32_t objects_max) {
    StoreConfig config = quiet();
    config.objects_max = objects_max;
    return config;
  }

  void audit() {
    const char* wrong = store->audit();
    CHECK_MESSAGE(wrong == nullptr, (wrong == nullptr ? "" : wrong));
  }

  WriteResult begin(const ObjectKey& key, std::uint64_t length,
                    ipc::PutMode mode = ipc::PutMode::if_absent, base::TimeNs ttl_ns = 0) {
    return store->begin_write({key, length, mode, ttl_ns}, now);
  }
  static std::uint64_t fill(const Reservation& reservation, std::uint8_t byte) {
    std::memset(reservation.extent.data(), byte, reservation.extent.size());
    return base::payload_digest(reservation.extent.data(), reservation.extent.size());
  }
  // The whole of a put; false when there was no room.
  bool put(const ObjectKey& key, std::uint64_t length, std::uint8_t byte = 1,
           ipc::PutMode mode = ipc::PutMode::if_absent, base::TimeNs ttl_ns = 0) {
    const WriteResult result = begin(key, length, mode, ttl_ns);
    if (result.start == WriteStart::already_present) return true;
    if (result.start != WriteStart::reserved) return false;
    store->publish(result.reservation, fill(result.reservation, byte), 1, now);
    return true;
  }
  bool has(const ObjectKey& key) {
    ReadPin pin;
    if (store->begin_read(key, kNoLease, now, pin) != Status::ok) return false;
    store->end_read(pin);
    return true;
  }
  // Equal to itself one byte further on, and right at its start: all that byte.
  static bool all(std::span<const std::byte> bytes, std::uint8_t byte) {
    return bytes[0] == std::byte{byte} &&
           std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
  }
  // The byte an object is filled with; -1: not there, -2: mixed or not what was digested.
  int byte_of(const ObjectKey& key) {
    ReadPin pin;
    if (store->begin_read(key, kNoLease, now, pin) != Status::ok) return -1;
    int byte = static_cast<int>(pin.bytes[0]);
    if (!all(pin.bytes, static_cast<std::uint8_t>(byte))) byte = -2;
    if (base::payload_digest(pin.bytes.data(), pin.bytes.size()) != pin.digest) byte = -2;
    store->end_read(pin);
    return byte;
  }

  base::TimeNs now = 1000 * kSecond;
  std::vector<std::byte> arena_;
  std::unique_ptr<Store> store;
};

}  // namespace simm::store::testing
