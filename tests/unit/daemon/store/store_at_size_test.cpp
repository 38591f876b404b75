// A shard of terabytes, on memory of which nearly nothing is ever touched: offsets of more than 40
// bits and lengths of more than 32, in every table.
#include <doctest/doctest.h>

#include <cstring>
#include <memory>

#include "daemon/base/hash.h"
#include "kept_memory.h"
#include "store_fixture.h"

namespace simm::store::testing {

// Its address space ends before.
#if !defined(__SANITIZE_THREAD__)

TEST_CASE("a shard of 2 TiB has an object at its very end, which the next life finds there") {
  constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;
  constexpr std::uint64_t kPayloadBytes = 2048 * kGiB;
  constexpr std::uint64_t kLastBytes = 64 << 10;
  constexpr base::TimeNs kNow = 1000 * kSecond;
  const KeptMemory memory(StoreFixture::quiet(4096), kPayloadBytes);
  const auto put = [](Store& store, const OwnedKey& key, std::uint64_t length) {
    const WriteResult begun = store.begin_write({key, length, ipc::PutMode::if_absent, 0}, kNow);
    REQUIRE(begun.start == WriteStart::reserved);
    return begun.reservation;
  };
  const OwnedKey last("last");
  {
    const auto store = memory.open(Contents::fresh);
    CHECK(store->stats().arena_bytes == kPayloadBytes);
    for (int i = 0; i < 2048; ++i) {
      const std::uint64_t length = i < 2047 ? kGiB : kGiB - kLastBytes;
      const OwnedKey key(std::to_string(i));
      store->publish(put(*store, key, length), 0, 1, kNow);
    }
    const Reservation end = put(*store, last, kLastBytes);
    CHECK(end.extent.data() + kLastBytes == memory.payload().data() + kPayloadBytes);
    store->publish(end, StoreFixture::fill(end, 7), 1, kNow);
    CHECK(store->stats().free_bytes == 0);
    CHECK(store->stats().evicted == 0);
  }
  const auto store = memory.open(Contents::kept);
  CHECK(store->stats().recovered == 2049);
  ReadPin pin;
  REQUIRE(store->begin_read(last, kNoLease, kNow, pin) == Status::ok);
  CHECK(pin.bytes.data() + pin.bytes.size() == memory.payload().data() + kPayloadBytes);
  CHECK(base::payload_digest(pin.bytes.data(), pin.bytes.size()) == pin.digest);
  store->end_read(pin);
  // A hole has no bound but the arena's.
  for (int i = 0; i < 2048; ++i) CHECK(store->remove(OwnedKey(std::to_string(i)), kNow));
  CHECK(store->remove(last, kNow));
  CHECK(store->stats().free_bytes == kPayloadBytes);
  CHECK(store->stats().largest_hole_bytes == kPayloadBytes);
  const char* const wrong = store->audit();
  CHECK_MESSAGE(wrong == nullptr, (wrong == nullptr ? "" : wrong));
}

#endif

}  // namespace simm::store::testing
