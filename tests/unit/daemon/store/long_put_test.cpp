// One long object comes into a full store of small pages: it costs others about its own length.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "daemon/base/random.h"
#include "tests/unit/daemon/store/store_fixture.h"

namespace simm::store::testing {

namespace {

constexpr std::uint64_t kSmallPage = std::uint64_t{16} << 10;
constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

// Payload memory of which only what is moved is ever touched.
class SparseMemory {
public:
  explicit SparseMemory(std::size_t bytes) : bytes_(bytes) {
    void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    static_cast<void>(::madvise(mapped, bytes, MADV_NOHUGEPAGE));
    data_ = static_cast<std::byte*>(mapped);
  }
  ~SparseMemory() { ::munmap(data_, bytes_); }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  [[nodiscard]] std::span<std::byte> bytes() const { return {data_, bytes_}; }

private:
  std::byte* data_ = nullptr;
  std::size_t bytes_;
};

// A store that is full of pages that were put in order.
struct SmallPages {
  explicit SmallPages(std::uint64_t arena_bytes, StoreConfig config = {})
      : memory(arena_bytes), pages(static_cast<int>(arena_bytes / kSmallPage)) {
    auto made = Store::create(config, memory.bytes());
    REQUIRE(made.has_value());
    store = std::move(made).value();
    for (int i = 0; i < pages; ++i) REQUIRE(put_small(i));
    now += 100 * kSecond;
  }
  ~SmallPages() {
    const char* wrong = store->audit();
    CHECK_MESSAGE(wrong == nullptr, (wrong == nullptr ? "" : wrong));
  }

  static OwnedKey name(int i) { return OwnedKey("page" + std::to_string(i)); }
  bool put_small(int i) {
    now += base::kNsPerMs / 8;
    const OwnedKey key = name(i);
    WriteResult begun = store->begin_write({key, kSmallPage, {}, 0}, now);
    for (int tries = 0; begun.start == WriteStart::wait && tries < 4; ++tries) {
      store->do_work(now);
      begun = store->begin_write({key, kSmallPage, {}, 0}, now);
    }
    if (begun.start != WriteStart::reserved) return false;
    store->publish(begun.reservation, 0, 1, now);
    store->do_work(now);
    return true;
  }
  // Every fourth page, at random, has been used a second time, or is leased.
  void use_some(base::SeededRandom& random, bool leased) {
    for (int i = 0; i < pages / 4; ++i) {
      const OwnedKey key = name(static_cast<int>(random.below(static_cast<std::uint64_t>(pages))));
      store->touch(key, leased ? 60 * kSecond : kNoLease, now);
    }
    now += leased ? kSecond : 20 * kSecond;
  }
  // Asks once in a turn as the server does; what its last answer was.
  WriteStart put_long(const OwnedKey& key, std::uint64_t length, int turns_max) {
    WriteRequest request{key, length, {}, 0};
    WriteResult result;
    for (turns = 0; turns < turns_max; ++turns) {
      const StoreStats before = store->stats();
      result = store->begin_write(request, now);
      const StoreStats after = store->stats();
      evicted_in_a_call_max = std::max(evicted_in_a_call_max, after.evicted - before.evicted);
      moved_in_a_call_max = std::max(moved_in_a_call_max, after.moved_bytes - before.moved_bytes);
      if (result.start == WriteStart::reserved) store->publish(result.reservation, 0, 1, now);
      if (result.start != WriteStart::wait) break;
      request.evicted_bytes = result.evicted_bytes;
      now += base::kNsPerMs;
      store->do_work(now);
      if (each_turn) each_turn();
    }
    evicted_bytes = result.evicted_bytes;
    return result.start;
  }

  SparseMemory memory;
  const int pages;
  base::TimeNs now = 1000 * kSecond;
  std::unique_ptr<Store> store;
  std::function<void()> each_turn;
  int turns = 0;
  std::uint64_t evicted_bytes = 0;  // for the last long put, by its own account
  std::uint64_t evicted_in_a_call_max = 0;
  std::uint64_t moved_in_a_call_max = 0;
};

std::uint64_t seed_of_long_puts() {
  const char* text = std::getenv("SIMM_SEED");
  return text ? std::strtoull(text, nullptr, 10) : std::random_device{}();
}

}  // namespace

TEST_CASE("a long object among small pages costs about as many of them as it is long") {
  const std::uint64_t seed = seed_of_long_puts();
  INFO("repeat: SIMM_SEED=" << seed << " unit_store -tc='a long object among*'");
  base::SeededRandom random(seed);
  for (const bool leased : {false, true}) {
    CAPTURE(leased);
    SmallPages f(1024 * kMib);
    f.use_some(random, leased);
    const std::uint64_t length = 256 * kMib;
    const StoreStats before = f.store->stats();
    CHECK(f.put_long(OwnedKey("long"), length, 4000) == WriteStart::reserved);
    const StoreStats after = f.store->stats();
    CHECK(after.evicted_bytes - before.evicted_bytes <= 3 * length);
    CHECK(f.evicted_bytes <= 2 * length);
    // The work of a turn has a bound, whatever has to be made.
    CHECK(f.evicted_in_a_call_max <= 256);
    CHECK(f.moved_in_a_call_max <= 8 * kMib);
    CHECK(after.lingering == 0);
    for (const std::uint64_t lost : after.lost_in_lease) CHECK(lost == 0);
  }
}

TEST_CASE("short puts and reads go on while room for a long object is made") {
  const std::uint64_t seed = seed_of_long_puts();
  INFO("repeat: SIMM_SEED=" << seed << " unit_store -tc='short puts and reads go on*'");
  base::SeededRandom random(seed);
  SmallPages f(256 * kMib);
  f.use_some(random, false);
  int next = f.pages;
  std::vector<ReadPin> pins;
  f.each_turn = [&] {
    for (int i = 0; i < 8; ++i) REQUIRE(f.put_small(next++));
    for (int i = 0; i < 8; ++i) {
      ReadPin pin;
      const OwnedKey key = f.name(static_cast<int>(random.below(static_cast<std::uint64_t>(next))));
      if (f.store->begin_read(key, 15 * kSecond, f.now, pin) == Status::ok) pins.push_back(pin);
    }
    for (; pins.size() > 40; pins.erase(pins.begin())) f.store->end_read(pins.front());
  };
  const std::uint64_t length = 96 * kMib;
  CHECK(f.put_long(OwnedKey("long"), length, 4000) == WriteStart::reserved);
  CHECK(f.evicted_bytes <= 2 * length);
  for (const ReadPin& pin : pins) f.store->end_read(pin);
  for (const std::uint64_t lost : f.store->stats().lost_in_lease) CHECK(lost == 0);
}

TEST_CASE("two long objects at once: one after the other gets its room, and both fit") {
  SmallPages f(256 * kMib);
  const OwnedKey keys[] = {OwnedKey("one"), OwnedKey("other")};
  WriteRequest requests[] = {{keys[0], 64 * kMib, {}, 0}, {keys[1], 64 * kMib, {}, 0}};
  int reserved = 0;
  for (int turns = 0; turns < 1000 && reserved < 2; ++turns) {
    for (WriteRequest& request : requests) {
      if (request.length == 0) continue;
      const WriteResult result = f.store->begin_write(request, f.now);
      REQUIRE((result.start == WriteStart::wait || result.start == WriteStart::reserved));
      request.evicted_bytes = result.evicted_bytes;
      if (result.start != WriteStart::reserved) continue;
      CHECK(result.evicted_bytes <= 2 * request.length);
      f.store->publish(result.reservation, 0, 1, f.now);
      request.length = 0;
      ++reserved;
    }
    f.now += base::kNsPerMs;
    f.store->do_work(f.now);
  }
  CHECK(reserved == 2);
}

TEST_CASE("who gives up waiting for room leaves nothing withheld") {
  SmallPages f(256 * kMib);
  const OwnedKey key("long");
  WriteRequest request{key, 128 * kMib, {}, 0};
  for (int i = 0; i < 3; ++i) {
    REQUIRE(f.store->begin_write(request, f.now).start == WriteStart::wait);
    f.now += base::kNsPerMs;
    f.store->do_work(f.now);
  }
  const StoreStats before = f.store->stats();
  CHECK(before.largest_hole_bytes < 2 * kMib);
  f.now += 2 * kSecond;
  while (f.store->do_work(f.now) > 0) continue;
  const StoreStats after = f.store->stats();
  CHECK(after.largest_hole_bytes > 2 * kMib);
  CHECK(after.evicted - before.evicted <= 512);  // for the stock
  CHECK(after.extent_bytes + after.free_bytes == after.arena_bytes);
}

TEST_CASE("a put that has evicted about twice its bytes is refused, and evicts no more") {
  SmallPages f(64 * kMib, StoreFixture::quiet());
  const OwnedKey key("long");
  WriteRequest request{key, kMib, {}, 0};
  request.evicted_bytes = 2 * request.length + kEvictionSlackBytes;
  CHECK(f.store->begin_write(request, f.now).start == WriteStart::no_space);
  CHECK(f.store->stats().evicted == 0);
  CHECK(f.store->stats().refused_no_space == 1);
  // Another one of the same length gets its room.
  CHECK(f.put_long(OwnedKey("other"), kMib, 100) == WriteStart::reserved);
  // Objects that are read all the time, everywhere: it waits, and evicts no more than that.
  std::vector<ReadPin> pins;
  for (int i = 0; i < f.pages; i += 3) {
    ReadPin pin;
    if (f.store->begin_read(f.name(i), kNoLease, f.now, pin) == Status::ok) pins.push_back(pin);
  }
  const std::uint64_t before = f.store->stats().evicted_bytes;
  CHECK(f.put_long(OwnedKey("third"), kMib, 300) != WriteStart::reserved);
  CHECK(f.store->stats().evicted_bytes - before <= 2 * kMib + f.memory.bytes().size() / 16);
  for (const ReadPin& pin : pins) f.store->end_read(pin);
  CHECK(f.put_long(OwnedKey("fourth"), kMib, 300) == WriteStart::reserved);
}

}  // namespace simm::store::testing
