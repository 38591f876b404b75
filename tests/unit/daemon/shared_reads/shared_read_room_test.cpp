#include "daemon/shared_reads/shared_read_room.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "daemon/base/manual_clock.h"

namespace shared_read_room_test {

using namespace simm;
using shared_reads::SharedRead;
using shared_reads::SharedReadRoom;
using shared_reads::SharedReadState;
using store::kNone;

constexpr std::uint32_t kEntries = 8;
constexpr std::uint64_t kBytes = 4096;

// A room for four objects of 1 KiB, and requests of one tenant for it.
struct Room {
  Room() {
    config.shared_reads_max = kEntries;
    config.tenants_max = 2;
  }

  transport::PageRequest page(const std::string& key, std::uint64_t bytes = 1024) {
    keys.push_back(std::make_unique<std::string>(key));
    transport::PageRequest page;
    page.key = keys.back()->data();
    page.key_bytes = static_cast<std::uint32_t>(key.size());
    page.hash = {std::hash<std::string>()(key), 1};
    page.slice.length = bytes;
    return page;
  }

  // A shared read of that key that landed, and that nobody uses.
  std::uint32_t landed(const std::string& key) {
    incoming.header = header;
    job.incoming = &incoming;
    job.share = room.shares().enter(header.tenant);
    const std::uint32_t number = room.start(job, page(key));
    room.shares().leave(job.share);
    if (number == kNone) return number;
    room.begin_fetch(number);
    room.table()[number].state = SharedReadState::ready;
    room.rest(number);
    return number;
  }

  std::uint32_t find(const std::string& key) { return room.joinable(header, page(key)); }
  const char* audit() { return room.audit({0, 0, waiters}); }

  shared_reads::SharedReadConfig config;
  base::ManualClock clock;
  engine::WriteMarks marks{16};
  shared_reads::SharedReadCounters counters;
  transport::RequestHeader header;
  transport::Incoming incoming;
  shared_reads::SharedReadJob job{};
  std::vector<std::unique_ptr<std::string>> keys;
  std::vector<std::byte> index = std::vector<std::byte>(store::HashIndex::bytes_for(kEntries));
  std::vector<std::byte> reads =
      std::vector<std::byte>(store::Table<SharedRead>::bytes_for(kEntries));
  std::vector<std::byte> blocks = std::vector<std::byte>(
      store::Table<store::PackedBlock>::bytes_for(store::ExtentAllocator::blocks_for(kEntries)));
  std::vector<std::byte> waiting =
      std::vector<std::byte>(store::Table<shared_reads::Waiter>::bytes_for(1));
  store::Table<shared_reads::Waiter> waiters{waiting.data(), 1};
  SharedReadRoom room{
      config,
      clock,
      marks,
      counters,
      {store::HashIndex(index.data(), kEntries), store::Table<SharedRead>(reads.data(), kEntries),
       store::Table<store::PackedBlock>(blocks.data(),
                                        store::ExtentAllocator::blocks_for(kEntries))},
      kBytes};
};

TEST_CASE("a shared read is found until it is too old, written, or asked for a longer lease") {
  Room r;
  const std::uint32_t number = r.landed("key");
  REQUIRE(number != kNone);
  CHECK(r.find("key") == number);
  CHECK(r.find("other") == kNone);
  CHECK(r.audit() == nullptr);
  SUBCASE("too old") {
    r.clock.advance_ns(r.config.linger_ns + 1);
  }
  SUBCASE("written") {
    r.marks.mark(r.page("key").hash);
  }
  SUBCASE("longer lease") {
    r.header.lease_ms = 60'000;
  }
  CHECK(r.find("key") == kNone);
  CHECK(r.room.table().used() == 0);  // nobody used it: it is gone at once
  CHECK(r.audit() == nullptr);
}

TEST_CASE("the copy that was not used for longest makes room, and none that is in use") {
  Room r;
  for (const char* key : {"a", "b", "c", "d"}) REQUIRE(r.landed(key) != kNone);
  const std::uint32_t used = r.find("a");
  r.room.wake(used);
  ++r.room.table()[used].users;
  REQUIRE(r.landed("e") != kNone);
  CHECK(r.find("b") == kNone);
  CHECK(r.find("a") == used);
  CHECK(r.find("c") != kNone);
  CHECK(r.audit() == nullptr);
  --r.room.table()[used].users;
  r.room.rest(used);
  REQUIRE(r.landed("f") != kNone);
  CHECK(r.find("c") == kNone);
  CHECK(r.find("a") == used);
}

TEST_CASE("what nobody can find any more is gone with its last use") {
  Room r;
  const std::uint32_t number = r.landed("key");
  r.room.wake(number);
  ++r.room.table()[number].users;
  r.marks.mark(r.page("key").hash);
  CHECK(r.find("key") == kNone);
  CHECK(r.room.table().used() == 1);
  CHECK(r.audit() == nullptr);
  --r.room.table()[number].users;
  r.room.rest(number);
  CHECK(r.room.table().used() == 0);
  CHECK(r.audit() == nullptr);
}

}  // namespace shared_read_room_test
