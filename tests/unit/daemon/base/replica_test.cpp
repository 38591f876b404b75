// The names of second copies, and which namespaces have them.
#include "daemon/base/replica.h"

#include <doctest/doctest.h>

namespace {

using namespace simm::base;

TEST_CASE("the replica of a replica is the object, and both have slots that mirror each other") {
  for (std::uint32_t i = 0; i < kSlotCount; ++i) {
    const auto slot = static_cast<Slot>(i);
    REQUIRE(mirror_of(slot) != slot);
    REQUIRE(mirror_of(slot) < kSlotCount);
    REQUIRE(mirror_of(mirror_of(slot)) == slot);
  }
  std::uint64_t group = 0x0123'4567'89AB'CDEF;
  for (int i = 0; i < 1'000; ++i) {
    REQUIRE(slot_of(mirrored_group(group)) == mirror_of(slot_of(group)));
    REQUIRE(mirrored_group(mirrored_group(group)) == group);
    group = group * 0x9E37'79B9'7F4A'7C15 + 1;
  }
  constexpr KeyHash kHash{1, 2};
  CHECK(replica_of(kHash) != kHash);
  CHECK(replica_of(replica_of(kHash)) == kHash);
  constexpr NamespaceId kName{7};
  CHECK(replica_of(kName) != kName);
  CHECK(replica_of(replica_of(kName)) == kName);
}

TEST_CASE("the names of replicas stay what other releases say that they are") {
  CHECK(mirror_of(5) == 5 + 8'192);
  CHECK(mirrored_group(1) == 0x8000'0000'0000'0001);
  CHECK(replica_of(KeyHash{0, 9}) == KeyHash{0x6A09'E667'F3BC'C908, 9});
  CHECK(replica_of(NamespaceId{0}) == NamespaceId{0xBB67'AE85'84CA'A73B});
}

TEST_CASE("a namespace has replicas by tenant and name, under both names") {
  CHECK(ReplicatedNamespaces().empty());
  std::vector<ReplicatedNamespaces::Entry> entries;
  for (std::uint64_t i = 1; i <= 100; ++i) entries.push_back({{i % 7}, {1'000 * i}});
  const ReplicatedNamespaces some(entries);
  CHECK_FALSE(some.empty());
  for (const auto& [tenant, name_space] : entries) {
    CHECK(some.has(tenant, name_space));
    CHECK(some.has(tenant, replica_of(name_space)));
    CHECK_FALSE(some.has({tenant.value + 1}, name_space));
    CHECK_FALSE(some.has(tenant, {name_space.value + 1}));
  }
}

}  // namespace
