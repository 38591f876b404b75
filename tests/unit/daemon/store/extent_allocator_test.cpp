#include "daemon/store/space/extent_allocator.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <random>
#include <vector>

#include "daemon/base/random.h"
#include "tests/support/number_from.h"

namespace simm::store::testing {

namespace {

struct Extents {
  Extents(std::uint64_t arena_bytes, std::uint32_t extents)
      : memory(ExtentAllocator::blocks_for(extents) + 1),
        allocator(Table<PackedBlock>(memory.data(), ExtentAllocator::blocks_for(extents)),
                  arena_bytes) {}
  std::vector<PackedBlock> memory;
  ExtentAllocator allocator;
};

}  // namespace

TEST_CASE("an extent of exactly the arena fits, again and again") {
  for (const std::uint64_t bytes : {64u, 128u, 4096u, 5 * 64u, 1'000'000u / 64 * 64}) {
    Extents e(bytes, 4);
    for (int i = 0; i < 3; ++i) {
      const std::uint32_t whole = e.allocator.allocate(bytes);
      REQUIRE(whole != kNone);
      CHECK(e.allocator.free_bytes() == 0);
      CHECK(e.allocator.allocate(1) == kNone);
      CHECK(e.allocator.audit() == nullptr);
      e.allocator.release(whole);
      CHECK(e.allocator.free_bytes() == bytes);
      CHECK(e.allocator.audit() == nullptr);
    }
  }
}

TEST_CASE("an arena full of one odd size takes that size again wherever there is a hole") {
  constexpr std::uint64_t kSize = 67 * 64;  // inside a size class, not at its border
  Extents e(100 * kSize, 100);
  std::vector<std::uint32_t> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(e.allocator.allocate(kSize));
  REQUIRE(blocks.back() != kNone);
  for (const std::size_t i : {3u, 50u, 99u, 0u}) {
    const std::uint64_t offset = e.allocator.block(blocks[i]).offset;
    e.allocator.release(blocks[i]);
    blocks[i] = e.allocator.allocate(kSize);
    REQUIRE(blocks[i] != kNone);
    CHECK(e.allocator.block(blocks[i]).offset == offset);
  }
  CHECK(e.allocator.audit() == nullptr);
}

TEST_CASE("an extent takes in the holes beside it, and gives back what is behind its first bytes") {
  Extents e(4 * 4096, 8);
  const std::uint32_t first = e.allocator.allocate(4096);
  const std::uint32_t middle = e.allocator.allocate(4096);
  const std::uint32_t last = e.allocator.allocate(2 * 4096);
  const std::uint32_t second = e.allocator.after(first);
  REQUIRE(second == middle);
  e.allocator.release(first);
  e.allocator.release(last);
  std::uint32_t all = e.allocator.absorb(middle, e.allocator.after(middle));
  CHECK(e.allocator.block(all).bytes == 3 * 4096);
  CHECK(e.allocator.audit() == nullptr);
  all = e.allocator.absorb(all, e.allocator.before(all));
  CHECK(e.allocator.block(all).bytes == 4 * 4096);
  CHECK(e.allocator.free_bytes() == 0);
  CHECK(e.allocator.audit() == nullptr);
  e.allocator.trim(all, 4096 + 1);
  CHECK(e.allocator.block(all).bytes == 4096 + 64);
  CHECK(e.allocator.block(all).offset == 0);
  CHECK(e.allocator.holes() == 1);
  CHECK(e.allocator.audit() == nullptr);
  e.allocator.release(all);
  CHECK(e.allocator.largest_hole_bytes() == 4 * 4096);
}

TEST_CASE("of the free bytes, those in holes too short for an extent are counted") {
  Extents e(16 * 4096, 8);
  const std::uint32_t first = e.allocator.allocate(4096);
  const std::uint32_t between = e.allocator.allocate(4096);
  const std::uint32_t third = e.allocator.allocate(2 * 4096);
  const std::uint32_t rest = e.allocator.allocate(12 * 4096);
  REQUIRE(rest != kNone);
  CHECK(e.allocator.short_hole_bytes(4096) == 0);  // there is no hole at all
  e.allocator.release(first);
  e.allocator.release(third);
  CHECK(e.allocator.short_hole_bytes(4096) == 0);
  CHECK(e.allocator.short_hole_bytes(4097) == 4096);
  CHECK(e.allocator.short_hole_bytes(2 * 4096) == 4096);
  CHECK(e.allocator.short_hole_bytes(2 * 4096 + 1) == 3 * 4096);
  e.allocator.release(between);  // the three become one
  CHECK(e.allocator.short_hole_bytes(4 * 4096) == 0);
  CHECK(e.allocator.short_hole_bytes(4 * 4096 + 1) == 4 * 4096);
}

TEST_CASE("holes grow together from both sides") {
  Extents e(3 * 4096, 3);
  const std::uint32_t a = e.allocator.allocate(4096);
  const std::uint32_t b = e.allocator.allocate(4096);
  const std::uint32_t c = e.allocator.allocate(4096);
  e.allocator.release(a);
  e.allocator.release(c);
  CHECK(e.allocator.allocate(8192) == kNone);
  e.allocator.release(b);
  CHECK(e.allocator.audit() == nullptr);
  CHECK(e.allocator.allocate(3 * 4096) != kNone);
}

TEST_CASE("extents of an earlier life are claimed where they were") {
  struct Kept {
    std::uint64_t offset;
    std::uint64_t bytes;
  };
  for (const std::vector<Kept>& kept :
       {std::vector<Kept>{{0, 64}, {64, 100}, {512, 1}, {4032, 64}},  // both ends, and neighbours
        std::vector<Kept>{{128, 3000}}, std::vector<Kept>{{0, 4096}}, std::vector<Kept>{}}) {
    Extents e(4096, 8);
    std::vector<std::uint32_t> blocks;
    std::uint64_t bytes = 0;
    std::uint32_t hole = e.allocator.first();
    for (const Kept& extent : kept) {
      blocks.push_back(e.allocator.claim(hole, extent.offset, extent.bytes));
      CHECK(e.allocator.block(blocks.back()).offset == extent.offset);
      bytes += ExtentAllocator::rounded(extent.bytes);
      CHECK(e.allocator.extent_bytes() == bytes);
      CHECK(e.allocator.audit() == nullptr);
      hole = e.allocator.after(blocks.back());
    }
    for (const std::uint32_t block : blocks) e.allocator.release(block);
    CHECK(e.allocator.audit() == nullptr);
    CHECK(e.allocator.allocate(4096) != kNone);
  }
}

TEST_CASE("random sizes: bytes always add up, extents never overlap") {
  const std::uint64_t seed = test_support::number_from("SIMM_SEED", std::random_device{}());
  INFO("repeat: SIMM_SEED=" << seed << " unit_store -tc='random sizes*'");
  base::SeededRandom random(seed);
  const std::uint64_t rounds = test_support::rounds_from("SIMM_ROUNDS", 10);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const std::uint64_t arena_bytes = 64 + random.below(1 << 20);
    constexpr std::uint32_t kExtents = 200;
    Extents e(arena_bytes, kExtents);
    std::vector<std::uint32_t> held;
    for (int i = 0; i < 1000; ++i) {
      if (held.size() < kExtents && random.below(5) < 3) {
        // Adversarial: just around powers of two, and tiny ones between large ones.
        const std::uint64_t power = std::uint64_t{1} << random.below(18);
        const std::uint64_t bytes = power + random.below(3) + (random.one_in(3) ? power / 2 : 0);
        const std::uint64_t free = e.allocator.free_bytes();
        const std::uint32_t block = e.allocator.allocate(bytes);
        if (block == kNone) continue;
        held.push_back(block);
        CHECK(e.allocator.block(block).bytes == ExtentAllocator::rounded(bytes));
        CHECK(e.allocator.free_bytes() == free - ExtentAllocator::rounded(bytes));
      } else if (!held.empty()) {
        const std::size_t at = random.below(held.size());
        e.allocator.release(held[at]);
        held[at] = held.back();
        held.pop_back();
      }
      const char* wrong = e.allocator.audit();
      REQUIRE_MESSAGE(wrong == nullptr, (wrong == nullptr ? "" : wrong));
    }
    for (const std::uint32_t block : held) e.allocator.release(block);
    CHECK(e.allocator.free_bytes() == e.allocator.arena_bytes());
    CHECK(e.allocator.audit() == nullptr);
  }
}

}  // namespace simm::store::testing
