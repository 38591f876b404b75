#include "daemon/store/store_tables.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include "daemon/store/space/reserved_memory.h"

namespace simm::store {
namespace store_tables_test {

// Whether the memory page that begins there is there without a fault.
bool is_there(std::byte* page) {
  unsigned char seen = 0;
  REQUIRE(::mincore(page, 1, &seen) == 0);
  return (seen & 1u) != 0;
}

TEST_CASE("the first memory page of each table is there before the first put") {
  constexpr std::uint32_t kObjects = 1'000'000;  // each table has several huge pages
  auto memory = ReservedMemory::map(StoreTables::bytes_for(kObjects));
  REQUIRE(memory.has_value());
  const StoreTables tables(memory->data(), kObjects);
  std::byte* part = memory->data();
  for (const std::uint64_t bytes :
       {HashIndex::bytes_for(kObjects), HashIndex::bytes_for(kObjects),
        Table<Group>::bytes_for(kObjects),
        Table<PackedBlock>::bytes_for(StoreTables::blocks_for(kObjects))}) {
    CHECK(is_there(part));
    part += StoreTables::pages(bytes);
  }
  CHECK(part == memory->data() + memory->bytes());
  CHECK_FALSE(is_there(part - StoreTables::pages(1)));  // and no more than that
}

}  // namespace store_tables_test
}  // namespace simm::store
