#include "daemon/memory/region_table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

namespace region_table_test {

using namespace simm::memory;
using simm::Status;
using simm::ipc::kNoRegion;
using simm::ipc::RegionHandle;

std::unique_ptr<RegionMemory> region_of(std::uint64_t length, std::uint64_t id = 0) {
  RegionMemory::Spec spec;
  spec.length = length;
  spec.id = id;
  spec.kind = RegionKind::foreign;
  return RegionMemory::copied(spec, {}, nullptr);
}

RegionHandle insert(RegionTable& table, std::uint64_t length, std::uint64_t id = 0) {
  auto memory = region_of(length, id);
  const RegionHandle handle = table.insert(memory);
  const bool is_taken = memory == nullptr;
  const bool is_named = handle != kNoRegion;
  CHECK(is_taken == is_named);
  return handle;
}

Status check(const RegionTable& table, RegionHandle handle, std::uint64_t offset,
             std::uint64_t length) {
  Slice slice;
  const Status status = table.slice(handle, offset, length, slice);
  const bool is_made = slice.region != nullptr;
  const bool is_ok = status == Status::ok;
  CHECK(is_made == is_ok);
  return status;
}

}  // namespace region_table_test

TEST_CASE("a slice lies inside its region or does not exist") {
  using namespace region_table_test;
  RegionTable table(4);
  const RegionHandle handle = insert(table, 1000);
  REQUIRE(handle != kNoRegion);
  CHECK(check(table, handle, 0, 1000) == Status::ok);
  CHECK(check(table, handle, 1000, 0) == Status::ok);
  CHECK(check(table, handle, 999, 1) == Status::ok);
  CHECK(check(table, handle, 999, 2) == Status::invalid_argument);
  CHECK(check(table, handle, 1001, 0) == Status::invalid_argument);
  CHECK(check(table, handle, UINT64_MAX, 2) == Status::invalid_argument);
  CHECK(check(table, handle, 2, UINT64_MAX) == Status::invalid_argument);
  CHECK(check(table, handle, UINT64_MAX, UINT64_MAX) == Status::invalid_argument);
}

TEST_CASE("of all handles only the living ones name something") {
  using namespace region_table_test;
  RegionTable table(300);
  std::vector<RegionHandle> living;
  for (int i = 0; i < 200; ++i) living.push_back(insert(table, 10));
  REQUIRE(table.retire(living[7]) == Status::ok);
  living.erase(living.begin() + 7);
  std::size_t found = 0;
  Slice slice;
  for (std::uint32_t index = 0; index <= 0xffff; ++index) {
    for (const std::uint32_t generation : {0u, 1u, 2u, 0xffffu}) {
      const RegionHandle handle = generation << 16 | index;
      if (table.slice(handle, 0, 1, slice) == Status::ok) {
        ++found;
        CHECK(std::find(living.begin(), living.end(), handle) != living.end());
      }
    }
  }
  CHECK(found == living.size());
}

TEST_CASE("a full table refuses and leaves the region with its owner") {
  using namespace region_table_test;
  RegionTable table(2);
  const RegionHandle first = insert(table, 1);
  REQUIRE(insert(table, 1) != kNoRegion);
  CHECK(insert(table, 1) == kNoRegion);
  REQUIRE(table.retire(first) == Status::ok);
  CHECK(insert(table, 1) == kNoRegion);  // retired, but not taken out yet
  REQUIRE(table.take_idle() != nullptr);
  CHECK(insert(table, 1) != kNoRegion);
}

TEST_CASE("a retired region goes when the last operation has dropped it") {
  using namespace region_table_test;
  RegionTable table(4);
  const RegionHandle handle = insert(table, 100, 42);
  Slice slice;
  REQUIRE(table.slice(handle, 0, 100, slice) == Status::ok);
  table.hold(*slice.region);
  table.hold(*slice.region);
  REQUIRE(table.retire(handle) == Status::ok);
  CHECK(table.retire(handle) == Status::invalid_argument);
  CHECK(check(table, handle, 0, 1) == Status::invalid_argument);
  CHECK(table.take_idle() == nullptr);
  table.drop(*slice.region);
  CHECK(table.take_idle() == nullptr);
  CHECK(table.size() == 1);
  table.drop(*slice.region);
  auto memory = table.take_idle();
  REQUIRE(memory != nullptr);
  CHECK(memory->region().id == 42);
  CHECK(table.size() == 0);
}

TEST_CASE("a handle is not used again for 65,535 uses of its slot") {
  using namespace region_table_test;
  RegionTable table(1);
  const RegionHandle first = insert(table, 1);
  RegionHandle handle = first;
  for (int i = 0; i < 0xffff; ++i) {
    REQUIRE(table.retire(handle) == Status::ok);
    REQUIRE(table.take_idle() != nullptr);
    REQUIRE(check(table, handle, 0, 1) == Status::invalid_argument);
    handle = insert(table, 1);
    REQUIRE((handle >> 16) != 0);
    if (i < 0xffff - 1) REQUIRE(handle != first);
  }
  CHECK(handle == first);
}

TEST_CASE("random use of a table agrees with a map") {
  using namespace region_table_test;
  const char* const chosen = std::getenv("SIMM_SEED");
  const std::uint64_t seed = chosen ? std::strtoull(chosen, nullptr, 10) : std::random_device{}();
  INFO("repeat with: SIMM_SEED=" << seed << " unit_memory -tc='random use of a table*'");
  std::mt19937_64 random(seed);
  RegionTable table(16);
  struct Known {
    const Region* region;
    std::uint64_t id;
    std::uint32_t holds;
    bool retired;
  };
  std::map<RegionHandle, Known> known;
  std::uint64_t next_id = 1;
  for (int step = 0; step < 50'000; ++step) {
    const auto pick = [&]() -> decltype(known)::iterator {
      if (known.empty()) return known.end();
      return std::next(known.begin(), static_cast<std::ptrdiff_t>(random() % known.size()));
    };
    switch (random() % 5) {
      case 0: {
        auto memory = region_of(64, next_id);
        const RegionHandle handle = table.insert(memory);
        const bool is_full = known.size() == 16;
        const bool is_refused = handle == kNoRegion;
        REQUIRE(is_full == is_refused);
        if (handle == kNoRegion) break;
        Slice slice;
        REQUIRE(table.slice(handle, 0, 64, slice) == Status::ok);
        REQUIRE(known.emplace(handle, Known{slice.region, next_id++, 0, false}).second);
        break;
      }
      case 1: {
        const auto it = pick();
        if (it == known.end()) break;
        const bool is_ok = table.retire(it->first) == Status::ok;
        REQUIRE(is_ok != it->second.retired);
        it->second.retired = true;
        break;
      }
      case 2: {
        const auto it = pick();
        if (it == known.end() || it->second.retired) break;
        table.hold(*it->second.region);
        ++it->second.holds;
        break;
      }
      case 3: {
        const auto it = pick();
        if (it == known.end() || it->second.holds == 0) break;
        table.drop(*it->second.region);
        --it->second.holds;
        break;
      }
      default: {
        auto memory = table.take_idle();
        const auto idle = std::find_if(known.begin(), known.end(), [&](const auto& entry) {
          return memory != nullptr ? entry.second.id == memory->region().id
                                   : entry.second.retired && entry.second.holds == 0;
        });
        const bool is_idle = idle != known.end();
        const bool is_taken = memory != nullptr;
        REQUIRE(is_idle == is_taken);
        if (memory == nullptr) break;
        REQUIRE(idle->second.retired);
        REQUIRE(idle->second.holds == 0);
        known.erase(idle);
      }
    }
    REQUIRE(table.size() == known.size());
  }
}
