// Registering in chunks on fake devices: what is registered when and in which order, what becomes
// of failures, and that nothing is left of a range that has gone.
#include "daemon/transport/rdma/registration/chunk_registrar.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "registrar_world.h"
#include "tests/unit/daemon/memory/memory_fixture.h"

namespace chunk_registrar_test {

using namespace registrar_world;

const auto kFails = [](const MemoryRange&) {
  return std::make_unique<Error>(Error{Status::out_of_memory, "RLIMIT_MEMLOCK is too low"});
};

TEST_CASE("registrar: in the background near rails only, chunk after chunk, all bytes once") {
  World world;
  auto range = world.add(3 * kGiB + 5, 0b10, RemoteAccess::read_write);
  world.start();
  KeyedSpan span;
  until([&] { return world.rdma[1]->live() == 4; });
  until([&] { return world.registrar->progress()[1].registrations == 4; });
  const auto seen = world.rdma[1]->seen();
  for (std::size_t i = 0; i < seen.size(); ++i) {
    CHECK(seen[i].range.base == nowhere(World::kBase + i * kGiB));
    CHECK(seen[i].range.bytes == (i < 3 ? kGiB : 5));
    CHECK(seen[i].access == RemoteAccess::read_write);
  }
  CHECK(range->chunks().find(1, kGiB - 1, 2, span) == KeysFound::all);
  REQUIRE(span.part_count == 2);
  CHECK(span.parts[0].keys.local_key == 1);
  CHECK(span.parts[0].keys.remote_key == 1'000'001);
  CHECK(span.parts[0].keys.remote_address == FakeRdmaDevice::remote_address(1) + kGiB - 1);
  CHECK(span.parts[1].keys.remote_address == FakeRdmaDevice::remote_address(2));
  CHECK(world.rdma[0]->seen().empty());
  const auto progress = world.registrar->progress();
  CHECK(progress[1].name == "fake_1/1");
  CHECK(progress[1].registered_bytes == 3 * kGiB + 5);
  CHECK(progress[1].wanted_bytes == 3 * kGiB + 5);
  CHECK(progress[0].wanted_bytes == 0);
  CHECK(world.counters.value("rdma.rail.1.registered_bytes") == 3 * kGiB + 5);
  range.reset();
  CHECK(world.rdma[1]->live() == 0);
  CHECK(world.registrar->progress()[1].registrations == 0);
  CHECK(world.registrar->progress()[1].wanted_bytes == 0);
  CHECK(world.counters.value("rdma.rail.1.registered_bytes") == 0);
}

TEST_CASE("registrar: a rail that is not near registers the chunks that it is to move") {
  World world;
  auto range = world.add(10 * kGiB, 0b01);
  world.start();
  World::await(*range, 1, 7 * kGiB + 3, KeysFound::all);
  REQUIRE(world.rdma[1]->seen().size() == 1);
  CHECK(world.rdma[1]->seen()[0].range.base == nowhere(World::kBase + 7 * kGiB));
  CHECK(world.registrar->progress()[1].wanted_bytes == kGiB);
  range.reset();
  CHECK(world.rdma[1]->live() == 0);
  CHECK(world.registrar->progress()[1].wanted_bytes == 0);
}

TEST_CASE("registrar: one rail knows all of a range before the next one begins") {
  World world;
  world.rdma[1]->close_gate();
  auto pool = world.add(3 * kGiB, 0b11);
  world.start();
  world.rdma[1]->await_at_gate(1);
  CHECK(world.rdma[0]->live() == 3);
  CHECK(pool->chunks().find_whole(0) == KeysFound::all);
  CHECK(pool->chunks().find_whole(1) == KeysFound::later);
  world.rdma[1]->open_gate();
  until([&] { return pool->chunks().find_whole(1) == KeysFound::all; });
}

TEST_CASE("registrar: what an agent waits for comes before the background") {
  World world;
  world.rdma[0]->close_gate();
  auto range = world.add(600 * kGiB, 0b01);
  world.start();
  world.rdma[0]->await_at_gate(1);
  KeyedSpan span;
  CHECK(range->chunks().find(0, 500 * kGiB, 1, span) == KeysFound::later);
  world.rdma[0]->open_gate();
  until([&] { return world.registrar->progress()[0].registrations == 600; });
  const auto seen = world.rdma[0]->seen();
  CHECK(seen.size() == 600);
  CHECK(seen[1].range.base == nowhere(World::kBase + 500 * kGiB));
  CHECK(seen[2].range.base == nowhere(World::kBase + 1 * kGiB));
  CHECK(range->chunks().find(0, 500 * kGiB, 1, span) == KeysFound::all);
}

TEST_CASE("registrar: ranges take turns, in the background and when they are asked for") {
  World world;
  world.rdma[0]->close_gate();
  auto large = world.add(100 * kGiB, 0b01);
  auto small = world.add(2 * kGiB + 1, 0b01);
  world.start();
  world.rdma[0]->await_at_gate(1);
  KeyedSpan span;
  for (std::uint64_t i = 90; i < 99; ++i) (void)large->chunks().find(0, i * kGiB, 1, span);
  (void)small->chunks().find(0, 2 * kGiB, 1, span);
  world.rdma[0]->open_gate();
  until([&] { return world.registrar->progress()[0].registrations == 103; });
  const auto seen = world.rdma[0]->seen();
  const auto place_of = [&seen](std::uint64_t bytes) {
    for (std::size_t i = 0; i < seen.size(); ++i) {
      if (seen[i].range.bytes == bytes) return i;
    }
    return seen.size();
  };
  CHECK(place_of(1) <= 2);  // behind one of the nine that were asked for
  // The background goes on after those, and comes to both ranges.
  std::size_t in_small = 0;
  for (std::size_t i = 11; i < 15; ++i) {
    const bool is_first = seen[i].range.base == nowhere(World::kBase);
    const bool is_second = seen[i].range.base == nowhere(World::kBase + kGiB);
    in_small += is_first || is_second ? 1 : 0;
  }
  CHECK(in_small == 3);  // both of the small one, and the large one's second
}

TEST_CASE("registrar: threads register at the same time") {
  World world(3);
  world.start();
  // Again and again, because all of them sleep when the work comes, and one may take the bell.
  for (int i = 0; i < 30; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    world.rdma[0]->close_gate();
    auto range = world.add(5 * kGiB, 0b01);
    world.rdma[0]->await_at_gate(3);
    world.rdma[0]->open_gate();
    until([&] { return world.registrar->progress()[0].registrations == 5; });
  }
}

TEST_CASE("registrar: a failure is said once, and tried again only when it is used after a while") {
  World world(1, 1, 50 * base::kNsPerMs);
  world.rdma[0]->failure = kFails;
  auto range = world.add(3 * kGiB, 0b01);
  world.start();
  until([&] { return world.registrar->progress()[0].failures == 3; });
  CHECK(world.counters.value("rdma.rail.0.registration_failures") == 3);
  CHECK(world.registrar->progress()[0].failed_bytes == 3 * kGiB);
  CHECK(world.registrar->progress()[0].waiting_bytes() == 0);
  CHECK(world.counters.value("rdma.rail.0.failed_bytes") == 3 * kGiB);
  const auto entries = world.errors.entries();
  REQUIRE(entries.size() == 1);
  CHECK(entries[0].count == 3);
  CHECK(entries[0].status == Status::out_of_memory);
  CHECK(entries[0].text == "fake_0/1: RLIMIT_MEMLOCK is too low");
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  CHECK(world.rdma[0]->seen().size() == 3);
  // It is used all the time, and tried once in 50 ms.
  KeyedSpan span;
  const auto begin = std::chrono::steady_clock::now();
  until([&] {
    CHECK(range->chunks().find(0, 0, 1, span) != KeysFound::all);
    return world.rdma[0]->seen().size() >= 5;
  });
  CHECK(std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(45));
  world.registrar->stop();  // nobody looks at what changes now
  CHECK(range->chunks().state(1, 0) == ChunkState::failed);
  CHECK(range->chunks().find(0, kGiB, 1, span) == KeysFound::failed);
}

TEST_CASE("registrar: what has failed is registered when it is possible again") {
  // What has failed takes no room of the one registration that there may be.
  World world(1, 1, base::kNsPerMs, 1);
  std::atomic<bool> is_full{true};
  world.rdma[0]->failure = [&is_full](const MemoryRange& part) {
    return is_full ? kFails(part) : nullptr;
  };
  auto range = world.add(kGiB, 0);
  world.start();
  World::await(*range, 0, 0, KeysFound::failed);
  is_full = false;
  World::await(*range, 0, 0, KeysFound::all);
  CHECK(world.registrar->progress()[0].wanted_bytes == kGiB);
  CHECK(world.registrar->progress()[0].failed_bytes == 0);
  CHECK(world.registrar->progress()[0].registered_bytes == kGiB);
}

TEST_CASE("registrar: who asks for the whole range has all of it tried again that has failed") {
  World world(1, 1, base::kNsPerMs);
  std::atomic<bool> is_full{true};
  world.rdma[0]->failure = [&is_full](const MemoryRange& part) {
    return is_full && part.base != nowhere(World::kBase) ? kFails(part) : nullptr;
  };
  auto range = world.add(3 * kGiB, 0b01);
  world.start();
  until([&] { return range->chunks().find_whole(0) == KeysFound::failed; });
  until([&] {
    (void)range->chunks().find_whole(0);
    return world.registrar->progress()[0].failures >= 8;
  });
  CHECK(world.registrar->progress()[0].registrations == 1);
  is_full = false;
  until([&] { return range->chunks().find_whole(0) == KeysFound::all; });
  CHECK(world.registrar->progress()[0].failed_bytes == 0);
  CHECK(world.registrar->progress()[0].registered_bytes == 3 * kGiB);
}

TEST_CASE("registrar: progress is of what waits, of what failed, and of ranges that are there") {
  World world;
  world.rdma[0]->close_gate();
  world.rdma[0]->failure = [](const MemoryRange& part) {
    return part.base == nowhere(World::kBase + kGiB) ? kFails(part) : nullptr;
  };
  auto range = world.add(4 * kGiB + 9, 0b01);
  world.start();
  world.rdma[0]->await_at_gate(1);
  CHECK(world.registrar->progress()[0].waiting_bytes() == 4 * kGiB + 9);
  world.rdma[0]->open_gate();
  until([&] { return world.registrar->progress()[0].waiting_bytes() == 0; });
  const RailProgress rail = world.registrar->progress()[0];
  CHECK(rail.registered_bytes == 3 * kGiB + 9);
  CHECK(rail.failed_bytes == kGiB);
  CHECK(rail.wanted_bytes == 4 * kGiB + 9);
  range.reset();
  CHECK(world.registrar->progress()[0].failed_bytes == 0);
  CHECK(world.registrar->progress()[0].wanted_bytes == 0);
}

TEST_CASE("registrar: a rail has so many registrations and no more, until some have gone") {
  World world(2, 1, base::kNsPerMs, 4);
  auto first = world.add(3 * kGiB, 0b01);
  world.start();
  until([&] { return world.registrar->progress()[0].registrations == 3; });
  auto second = world.add(3 * kGiB, 0b01);
  until([&] { return world.registrar->progress()[0].failures >= 2; });
  CHECK(world.registrar->progress()[0].registrations == 4);
  CHECK(world.rdma[0]->seen().size() == 4);
  REQUIRE(world.errors.entries().size() == 1);
  CHECK(world.errors.entries()[0].text.find("there are 4 registrations") != std::string::npos);
  first.reset();
  for (std::uint64_t i = 0; i < 3; ++i) World::await(*second, 0, i * kGiB, KeysFound::all);
  CHECK(world.rdma[0]->live() == 3);
}

TEST_CASE("registrar: the end of a range waits for what is under way, and drops what is not") {
  World world;
  world.rdma[0]->close_gate();
  auto range = world.add(100 * kGiB, 0b01);
  KeyedSpan span;
  (void)range->chunks().find(0, 50 * kGiB - 1, 2, span);
  world.start();
  world.rdma[0]->await_at_gate(1);
  std::atomic<bool> is_gone{false};
  std::thread ending([&] {
    range.reset();
    is_gone = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_FALSE(is_gone);
  world.rdma[0]->open_gate();
  ending.join();
  CHECK(world.rdma[0]->live() == 0);
  CHECK(world.rdma[0]->seen().size() == 1);
  // The thread goes on with others.
  auto next = world.add(kGiB, 0b01);
  World::await(*next, 0, 0, KeysFound::all);
}

TEST_CASE("registrar: ranges go after a stop, too, and nothing is begun then") {
  World world(4);
  auto range = world.add(2 * kGiB, 0b01);
  world.start();
  until([&] { return world.rdma[0]->live() == 2; });
  world.registrar->stop();
  auto late = world.add(kGiB, 0b01);
  range.reset();
  late.reset();
  CHECK(world.rdma[0]->live() == 0);
  CHECK(world.rdma[0]->seen().size() == 2);
}

TEST_CASE("registrar: a rail that ends knows nothing any more, and all that was wanted when back") {
  World world(2, 2, 0);
  auto pool = world.add(3 * kGiB, 0b11);
  auto region = world.add(2 * kGiB, 0b10, RemoteAccess::read_write);
  world.start();
  until([&] { return world.rdma[0]->live() == 3 && world.rdma[1]->live() == 5; });
  World::await(*region, 0, kGiB, KeysFound::all);  // on demand
  const std::vector<RailProgress> before = world.registrar->progress();
  world.registrar->close_rail(0);
  CHECK(world.rdma[0]->live() == 0);
  CHECK(world.rdma[1]->live() == 5);
  const RailProgress closed = world.registrar->progress()[0];
  CHECK(closed.registrations == 0);
  CHECK(closed.registered_bytes == 0);
  CHECK(closed.wanted_bytes == 3 * kGiB);  // what was on demand may never be wanted again
  // Whatever is asked for meanwhile waits, and the other rail goes on.
  KeyedSpan span;
  CHECK(region->chunks().find(0, 0, 1, span) == KeysFound::later);
  CHECK(pool->chunks().find_whole(0) == KeysFound::later);
  auto later = world.add(kGiB, 0b11);
  until([&] { return world.rdma[1]->live() == 6; });
  CHECK(world.rdma[0]->live() == 0);
  world.registrar->open_rail(0);
  until([&] { return pool->chunks().find_whole(0) == KeysFound::all; });
  World::await(*later, 0, 0, KeysFound::all);
  World::await(*region, 0, 0, KeysFound::all);
  CHECK(region->chunks().find(0, kGiB, 1, span) == KeysFound::later);  // asks
  World::await(*region, 0, kGiB, KeysFound::all);
  CHECK(world.registrar->progress()[0].registered_bytes == 6 * kGiB);
  CHECK(world.registrar->progress()[0].wanted_bytes == 6 * kGiB);
  CHECK(world.registrar->progress()[1].registrations == before[1].registrations + 1);
  pool.reset();
  region.reset();
  later.reset();
  for (const RailProgress& rail : world.registrar->progress()) {
    CHECK(rail.registrations == 0);
    CHECK(rail.wanted_bytes == 0);
  }
}

TEST_CASE("registrar: a rail ends behind what it is registering, and drops what it was asked for") {
  World world(1, 2, 0);
  auto range = world.add(4 * kGiB, 0);
  world.start();
  world.rdma[0]->close_gate();
  KeyedSpan span;
  for (const std::uint64_t chunk : {0U, 1U, 2U}) {
    CHECK(range->chunks().find(0, chunk * kGiB, 1, span) == KeysFound::later);
  }
  world.rdma[0]->await_at_gate(1);
  std::atomic<bool> is_closed{false};
  std::thread closing([&] {
    world.registrar->close_rail(0);
    is_closed = true;
  });
  CHECK_FALSE(is_closed);
  world.rdma[0]->open_gate();
  closing.join();
  CHECK(world.rdma[0]->live() == 0);
  // It may have registered some of the others before it was closed.
  const std::size_t seen = world.rdma[0]->seen().size();
  World::await(*range, 1, 0, KeysFound::all);  // whoever works would have worked on those
  CHECK(world.rdma[0]->seen().size() == seen);
  CHECK(world.registrar->progress()[0].wanted_bytes == 0);
  world.registrar->open_rail(0);
  for (const std::uint64_t chunk : {0U, 1U, 2U})
    World::await(*range, 0, chunk * kGiB, KeysFound::all);
}

TEST_CASE("registrar: a dma-buf is registered by offset, and said to be unsupported elsewhere") {
  World world;
  RangeSpec spec;
  spec.memory.bytes = 2 * kGiB + 7;
  spec.memory.dmabuf_descriptor = 5;
  spec.memory.offset = 4096;
  spec.access = RemoteAccess::read_write;
  spec.background = 0b11;
  auto range = world.registrar->add(spec);
  world.start();
  until([&] {
    const auto progress = world.registrar->progress();
    return progress[0].registrations == 3 && progress[1].failures == 3;
  });
  const auto seen = world.rdma[0]->seen();
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(seen[i].range.base == nullptr);
    CHECK(seen[i].range.dmabuf_descriptor == 5);
    CHECK(seen[i].range.offset == 4096 + i * kGiB);
    CHECK(seen[i].range.bytes == (i < 2 ? kGiB : 7));
  }
  REQUIRE(world.errors.entries().size() == 1);
  CHECK(world.errors.entries()[0].status == Status::unsupported);
  KeyedSpan span;
  CHECK(range->chunks().find(1, 0, 1, span) == KeysFound::failed);
}

TEST_CASE("registrar: absent pages of a client wait for use, and cost its session's budget once") {
  using namespace simm::memory::testing;
  constexpr std::uint64_t kBytes = 8 << 20;
  World world(1, 1, base::kNsPerMs);
  world.start();
  const auto add = [&world](const memory::RegionMemory& memory) {
    RangeSpec spec;
    spec.memory.base = memory.region().base;
    spec.memory.bytes = memory.region().length;
    spec.background = 0b01;
    spec.pages = memory.region().pages;
    return world.registrar->add(spec);
  };
  SUBCASE("there is not enough of it: none is taken") {
    Fixture fixture(kBytes - kPage);
    auto fd = plain_memfd(kBytes);
    const auto memory = fixture.region(fd.get(), kBytes);
    auto range = add(*memory);
    World::await(*range, 0, 0, KeysFound::failed);
    CHECK(fixture.touches.left_bytes() == kBytes - kPage);
    CHECK(world.rdma[0]->seen().empty());
    REQUIRE(world.errors.entries().size() == 1);
    CHECK(world.errors.entries()[0].text.find("memory.touch_budget_bytes") != std::string::npos);
  }
  SUBCASE("the client touches them: what is present costs nothing") {
    // Not enough for one page, whenever the registrar looks while the client is at it.
    Fixture fixture(kPage - 1);
    auto fd = plain_memfd(kBytes);
    const auto memory = fixture.region(fd.get(), kBytes);
    auto range = add(*memory);
    World::await(*range, 0, 0, KeysFound::failed);
    make_present(fd.get(), kBytes);
    World::await(*range, 0, 0, KeysFound::all);
    CHECK(fixture.touches.left_bytes() == kPage - 1);
  }
  SUBCASE("there is enough of it") {
    Fixture fixture(kBytes);
    auto fd = plain_memfd(kBytes);
    const auto memory = fixture.region(fd.get(), kBytes);
    auto range = add(*memory);
    // The background comes to it, and leaves it: the next range is behind it.
    auto next = world.add(kGiB, 0b01);
    until([&] { return world.rdma[0]->live() == 1; });
    CHECK(range->chunks().state(0, 0) == ChunkState::absent);
    CHECK(fixture.touches.left_bytes() == kBytes);
    World::await(*range, 0, 0, KeysFound::all);
    CHECK(fixture.touches.left_bytes() == 0);
    CHECK(world.errors.entries().empty());
  }
}

// Two agents look up while threads publish, and other ranges come and go.
TEST_CASE("registrar: agents read keys while they are published and other ranges go") {
  World world(3, 2);
  for (auto& device : world.rdma) device->slow_us = 50;
  constexpr std::uint64_t kChunks = 300;
  auto range = world.add(kChunks * kGiB, 0b01);
  auto shared = world.add(kGiB, 0b11);
  world.start();
  const auto agent = [&](std::uint32_t rail) {
    KeyedSpan span;
    for (std::uint64_t chunk = 0; chunk + 1 < kChunks;) {
      const std::uint64_t offset = chunk * kGiB + kGiB / 2;
      if (range->chunks().find(rail, offset, kGiB, span) != KeysFound::all) {
        std::this_thread::yield();
        continue;
      }
      CHECK(span.part_count == 2);
      const ChunkKeys& keys = span.parts[0].keys;
      CHECK(keys.remote_address == FakeRdmaDevice::remote_address(keys.local_key) + kGiB / 2);
      CHECK(span.parts[1].keys.remote_address ==
            FakeRdmaDevice::remote_address(span.parts[1].keys.local_key));
      (void)shared->chunks().find(rail, 0, 1, span);
      ++chunk;
    }
  };
  std::thread first(agent, 0);
  std::thread second(agent, 1);
  for (int i = 0; i < 40; ++i) {
    auto passing = world.add(20 * kGiB, 0b11);
    KeyedSpan span;
    (void)passing->chunks().find(static_cast<std::uint32_t>(i % 2), 15 * kGiB, 1, span);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    passing.reset();
    (void)world.registrar->progress();
  }
  first.join();
  second.join();
  range.reset();
  shared.reset();
  for (const auto& device : world.rdma) CHECK(device->live() == 0);
  for (const RailProgress& rail : world.registrar->progress()) {
    CHECK(rail.registered_bytes == 0);
    CHECK(rail.wanted_bytes == 0);
    CHECK(rail.failures == 0);
  }
}

TEST_CASE("registrar: what ends is deregistered with all rails at the same time") {
  constexpr std::size_t kRails = 4;
  World world(kRails, kRails);
  std::mutex mutex;
  std::condition_variable met;
  std::set<std::size_t> ending;
  bool has_met = true;
  for (std::size_t rail = 0; rail < kRails; ++rail) {
    world.rdma[rail]->on_end = [&, rail] {
      std::unique_lock<std::mutex> lock(mutex);
      ending.insert(rail);
      met.notify_all();
      // Who has all rails for itself would wait for ever.
      has_met &= met.wait_for(lock, std::chrono::seconds(30),
                              [&] { return ending.size() == kRails || !has_met; });
    };
  }
  world.start();
  auto range = world.add(3 * kGiB, (1U << kRails) - 1);
  for (const auto& device : world.rdma) until([&] { return device->live() == 3; });
  range.reset();
  CHECK(has_met);
  for (const auto& device : world.rdma) CHECK(device->live() == 0);
  for (const RailProgress& rail : world.registrar->progress()) CHECK(rail.registrations == 0);
}

TEST_CASE("registrar: without a thread, or behind one that is stuck, a range ends all the same") {
  World world(1);
  world.start();
  auto range = world.add(2 * kGiB, 3);
  for (const auto& device : world.rdma) until([&] { return device->live() == 2; });
  world.rdma[0]->close_gate();
  auto stuck = world.add(kGiB, 1);
  world.rdma[0]->await_at_gate(1);
  range.reset();
  for (const auto& device : world.rdma) CHECK(device->live() == 0);
  world.rdma[0]->open_gate();
  stuck.reset();
  auto last = world.add(kGiB, 1);
  until([&] { return world.rdma[0]->live() == 1; });
  world.registrar->stop();
  last.reset();
  CHECK(world.rdma[0]->live() == 0);
}

}  // namespace chunk_registrar_test
