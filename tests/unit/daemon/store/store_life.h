// Life: a store on kept memory that can be left at any time, as a killed process leaves it.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "kept_memory.h"
#include "store_fixture.h"

namespace simm::store::testing {

// A store on kept memory that can be left at any time, as a killed process leaves it.
struct Life {
  explicit Life(KeptMemory& memory, Contents contents = Contents::kept, std::uint64_t boot = 1)
      : Life(memory, memory.as(contents, 1000 * kSecond, boot)) {}
  Life(KeptMemory& memory, const ShardMemory& shard)
      : memory_(memory), now(shard.now_ns), store(memory.open(shard)) {}

  bool put(const ObjectKey& key, std::uint64_t length, std::uint8_t byte,
           ipc::PutMode mode = ipc::PutMode::replace, base::TimeNs ttl_ns = 0) {
    const WriteResult result = store->begin_write({key, length, mode, ttl_ns}, now);
    if (result.start != WriteStart::reserved) return false;
    store->publish(result.reservation, StoreFixture::fill(result.reservation, byte), 7, now);
    return true;
  }
  // The byte it is filled with; -1: not there, -2: its bytes are wrong.
  int byte_of(const ObjectKey& key) {
    ReadPin pin;
    if (store->begin_read(key, kNoLease, now, pin) != Status::ok) return -1;
    const bool right = base::payload_digest(pin.bytes.data(), pin.bytes.size()) == pin.digest;
    const int byte = right ? static_cast<int>(pin.bytes[0]) : -2;
    if (right) {
      store->note_verified(pin);
    } else {
      store->quarantine(pin, now);
    }
    store->end_read(pin);
    return byte;
  }
  // What the life would show of these keys.
  std::vector<int> bytes_of(const std::vector<OwnedKey>& keys) {
    std::vector<int> bytes;
    bytes.reserve(keys.size());
    for (const OwnedKey& key : keys) bytes.push_back(byte_of(key));
    return bytes;
  }
  void audit() {
    const char* wrong = store->audit();
    CHECK_MESSAGE(wrong == nullptr, (wrong == nullptr ? "" : wrong));
  }
  // Entries that no store has written.
  std::uint64_t lies() {
    return lost(RecoveryLoss::damaged) + lost(RecoveryLoss::impossible) +
           lost(RecoveryLoss::overlapping);
  }
  std::uint64_t lost(RecoveryLoss loss) {
    return store->stats().lost_at_recovery[static_cast<std::size_t>(loss)];
  }

  KeptMemory& memory_;
  base::TimeNs now;
  std::unique_ptr<Store> store;
};

}  // namespace simm::store::testing
