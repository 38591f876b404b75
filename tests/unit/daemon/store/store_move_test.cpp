// Free memory in several holes becomes one, and nobody notices.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/daemon/store/store_fixture.h"

namespace simm::store::testing {

namespace {

constexpr std::uint64_t kPart = 1024;

// An arena of 16 parts; every second one is a hole, between objects "k1", "k3", ... "k15".
struct Checkered : StoreFixture {
  explicit Checkered(std::uint64_t moved_bytes_per_call = 16 * kPart)
      : StoreFixture(16 * kPart, slow(moved_bytes_per_call)) {
    for (int i = 0; i < 16; ++i) REQUIRE(put(name(i), kPart, static_cast<std::uint8_t>(i)));
    for (int i = 0; i < 16; i += 2) REQUIRE(store->remove(name(i), now));
  }
  static StoreConfig slow(std::uint64_t moved_bytes_per_call) {
    StoreConfig config = quiet();
    config.moved_bytes_per_call = moved_bytes_per_call;
    return config;
  }
  static OwnedKey name(int i) { return OwnedKey("k" + std::to_string(i)); }
  int objects_that_are_right() {
    int right = 0;
    for (int i = 1; i < 16; i += 2) right += byte_of(name(i)) == i ? 1 : 0;
    return right;
  }
};

}  // namespace

TEST_CASE("a put that fits in no hole moves objects instead of evicting them") {
  Checkered f;
  REQUIRE(f.put(OwnedKey("long"), 3 * kPart, 99));
  CHECK(f.store->stats().evicted == 0);
  CHECK(f.store->stats().moved == 1);  // the one between two holes
  CHECK(f.store->stats().moved_bytes == kPart);
  CHECK(f.objects_that_are_right() == 8);
  CHECK(f.byte_of(OwnedKey("long")) == 99);
  // Until nothing is free: 5 more parts in 5 holes, of which a few had to be made.
  REQUIRE(f.put(OwnedKey("longer"), 5 * kPart, 98));
  CHECK(f.store->stats().evicted == 0);
  CHECK(f.store->stats().free_bytes == 0);
  CHECK(f.objects_that_are_right() == 8);
}

TEST_CASE("what moves keeps its lease, its generation and its digest") {
  Checkered f;
  std::vector<ReadPin> before;
  for (int i = 1; i < 16; i += 2) {
    ReadPin pin;
    REQUIRE(f.store->begin_read(f.name(i), 10 * kSecond, f.now, pin) == Status::ok);
    f.store->end_read(pin);
    before.push_back(pin);
  }
  REQUIRE(f.put(OwnedKey("long"), 8 * kPart));
  CHECK(f.store->stats().moved > 0);
  CHECK(f.store->stats().leased_bytes == 8 * kPart);
  for (const std::uint64_t losses : f.store->stats().lost_in_lease) CHECK(losses == 0);
  std::size_t moved = 0;
  for (int i = 1; i < 16; i += 2) {
    ReadPin pin;
    REQUIRE(f.store->begin_read(f.name(i), kNoLease, f.now, pin) == Status::ok);
    const ReadPin& old = before[static_cast<std::size_t>(i) / 2];
    CHECK(pin.generation == old.generation);
    CHECK(pin.digest == old.digest);
    moved += pin.bytes.data() != old.bytes.data() ? 1u : 0u;
    f.store->end_read(pin);
  }
  CHECK(moved == f.store->stats().moved);
  CHECK(f.objects_that_are_right() == 8);
}

TEST_CASE("what is read or written stays where it is") {
  Checkered f;
  const WriteResult write = f.begin(OwnedKey("being written"), kPart);
  REQUIRE(write.start == WriteStart::reserved);
  f.fill(write.reservation, 77);
  std::vector<ReadPin> pins;
  for (int i = 1; i < 16; i += 2) {
    ReadPin& pin = pins.emplace_back();
    REQUIRE(f.store->begin_read(f.name(i), 10 * kSecond, f.now, pin) == Status::ok);
  }
  CHECK(f.begin(OwnedKey("long"), 3 * kPart).start == WriteStart::wait);
  CHECK(f.store->stats().moved == 0);
  for (std::size_t i = 0; i < pins.size(); ++i) {
    CHECK(f.all(pins[i].bytes, static_cast<std::uint8_t>(2 * i + 1)));
    f.store->end_read(pins[i]);
  }
  CHECK(f.all(write.reservation.extent, 77));
  REQUIRE(f.put(OwnedKey("long"), 3 * kPart));
  CHECK(f.store->stats().moved == 1);
  f.store->abandon(write.reservation);
}

TEST_CASE("a long move takes several turns, and a put that waits for it evicts nothing") {
  Checkered f(kPart / 2);
  const auto ask = [&f] { return f.begin(OwnedKey("long"), 8 * kPart); };
  WriteResult result = ask();
  int turns = 0;
  for (; result.start == WriteStart::wait; ++turns) {
    REQUIRE(turns < 100);
    CHECK(f.store->stats().moved == 0);
    CHECK(f.store->stats().moved_bytes <= static_cast<std::uint64_t>(turns + 1) * kPart);
    CHECK(f.objects_that_are_right() == 8);
    f.audit();
    f.store->do_work(f.now);
    result = ask();
  }
  REQUIRE(result.start == WriteStart::reserved);
  CHECK(turns >= 3);
  CHECK(f.store->stats().evicted == 0);
  CHECK(f.store->stats().moved > 0);
  f.fill(result.reservation, 99);
  CHECK(f.objects_that_are_right() == 8);
  f.store->abandon(result.reservation);
}

TEST_CASE("whoever is removed, replaced or read while it moves is none the worse") {
  for (int read = 1; read < 16; read += 2) {
    Checkered f(kPart / 2);
    REQUIRE(f.begin(OwnedKey("long"), 8 * kPart).start == WriteStart::wait);
    ReadPin pin;
    REQUIRE(f.store->begin_read(f.name(read), 0, f.now, pin) == Status::ok);
    const int removed = (read + 4) % 16;
    CHECK(f.store->remove(f.name(removed), f.now));
    const int replaced = (read + 8) % 16;
    const WriteResult other = f.begin(f.name(replaced), 64, ipc::PutMode::replace);
    if (other.start == WriteStart::reserved) {
      f.store->publish(other.reservation, f.fill(other.reservation, 55), 1, f.now);
    }
    for (int i = 0; i < 40; ++i) f.store->do_work(f.now);
    f.audit();
    // Whatever is free is written to now: nothing of it is under the reader's eyes.
    for (int i = 0; f.store->stats().free_bytes > 0; ++i) {
      const OwnedKey filler("filler" + std::to_string(i));
      REQUIRE(f.put(filler, std::min(f.store->stats().free_bytes, kPart), 200));
    }
    CHECK(f.all(pin.bytes, static_cast<std::uint8_t>(read)));
    std::uint64_t missing = 0;
    for (int i = 1; i < 16; i += 2) {
      const int byte = f.byte_of(f.name(i));
      const int now = i == replaced && other.start == WriteStart::reserved ? 55 : i;
      CHECK((byte == -1 || byte == now));
      missing += byte == -1 ? 1 : 0;
    }
    CHECK(missing <= f.store->stats().evicted + 1);
    f.store->end_read(pin);
    CHECK(f.store->stats().lingering == 0);
  }
}

TEST_CASE("a damaged record that moves stays damaged, and is found out") {
  Checkered f;
  StoreTestAccess::record_of(*f.store, f.name(5)).payload_digest ^= 1;
  REQUIRE(f.put(OwnedKey("long"), 8 * kPart));
  ReadPin pin;
  CHECK(f.store->begin_read(f.name(5), kNoLease, f.now, pin) == Status::corrupt);
  CHECK(f.store->stats().quarantined == 1);
}

TEST_CASE("moving never costs more than the object that comes") {
  StoreFixture f(9 * kPart);
  // Holes of half a part between objects of two.
  for (int i = 0; i < 3; ++i) {
    REQUIRE(f.put(OwnedKey("big" + std::to_string(i)), 2 * kPart));
    REQUIRE(f.put(OwnedKey("small" + std::to_string(i)), kPart));
  }
  for (int i = 0; i < 3; ++i) f.store->remove(OwnedKey("small" + std::to_string(i)), f.now);
  REQUIRE(f.put(OwnedKey("new"), kPart + kPart / 2));
  CHECK(f.store->stats().moved == 0);
  CHECK(f.store->stats().evicted > 0);
}

}  // namespace simm::store::testing
