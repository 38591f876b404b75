// Which rails register a region in the background, and what a region's end leaves.
#include "daemon/transport/rdma/registration/region_nics.h"

#include <doctest/doctest.h>

#include "registrar_world.h"
#include "tests/unit/daemon/memory/memory_fixture.h"

namespace region_nics_test {

using namespace registrar_world;
using simm::memory::testing::Fixture;
using simm::memory::testing::make_present;
using simm::memory::testing::plain_memfd;

// NICs 0 and 2 on node 0, 1 and 3 on node 1.
NicTable table(std::vector<std::int32_t> nodes) {
  std::vector<Nic> nics(4);
  for (std::size_t i = 0; i < nics.size(); ++i) {
    nics[i].state = NicState::active;
    nics[i].numa_node = static_cast<std::int32_t>(i % 2);
  }
  return {std::move(nics), {}, std::move(nodes)};
}

TEST_CASE("rails near to a node are named as rails, not as NICs") {
  const NicTable two = table({0, 1});
  CHECK(rails_near(two, {3, 0, 1}, 1) == 0b101);
  CHECK(rails_near(two, {3, 0, 1}, 0) == 0b010);
  CHECK(rails_near(two, {3}, 0) == 0);
  // Where memory lies that nobody has touched is not known, unless there is one place only.
  CHECK(rails_near(two, {3, 0, 1}, -1) == 0);
  CHECK(rails_near(table({0}), {3, 0, 1}, -1) == 0b111);
}

TEST_CASE("a client's region is registered for the other end, and let go before it is unmapped") {
  constexpr std::uint64_t kBytes = 1 << 20;
  World world(1, 2);
  world.start();
  RegionNics nics(*world.registrar, table({0}), {0, 2});
  Fixture fixture;
  auto fd = plain_memfd(kBytes);
  make_present(fd.get(), kBytes);
  auto memory = fixture.region(fd.get(), kBytes);
  CHECK(chunks_of(memory->region()) == nullptr);
  memory->attach(nics.attach(memory->region()));
  ChunkTable* const chunks = chunks_of(memory->region());
  REQUIRE(chunks != nullptr);
  KeyedSpan span;
  until([&] { return chunks->find(0, 0, kBytes, span) == KeysFound::all; });
  CHECK(span.parts[0].keys.remote_key != 0);
  until([&] { return world.rdma[1]->live() == 1; });
  CHECK(world.rdma[0]->seen()[0].range.base == memory->region().base);
  CHECK(world.rdma[0]->seen()[0].access == RemoteAccess::read_write);
  memory.reset();
  CHECK(world.rdma[0]->live() == 0);
  CHECK(world.rdma[1]->live() == 0);
}

}  // namespace region_nics_test
