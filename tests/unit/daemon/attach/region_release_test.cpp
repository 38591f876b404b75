#include "daemon/attach/region_release.h"

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <future>
#include <vector>

#include "tests/unit/daemon/memory/memory_fixture.h"

namespace region_release_test {

using namespace simm;
using control::JobThread;
using control::kReleasePieceBytes;
using control::RegionRelease;
using memory::testing::Fixture;
using memory::testing::kPage;

constexpr std::uint64_t kRed = 1;
constexpr std::uint64_t kPieces = 4;

bool is_mapped(std::byte* page) {
  unsigned char present = 0;
  return ::mincore(page, kPage, &present) == 0;
}

// Sparse: mapping and unmapping it costs nothing.
struct Scene {
  Scene() {
    regions.push_back(fixture.region(file.get(), kPieces * kReleasePieceBytes));
    base = regions.back()->region().base;
  }
  [[nodiscard]] std::uint64_t mapped_pieces() const {
    std::uint64_t mapped = 0;
    while (mapped < kPieces && is_mapped(base + mapped * kReleasePieceBytes)) ++mapped;
    return mapped;
  }

  Fixture fixture;
  ipc::UniqueFd file = memory::testing::plain_memfd(kPieces * kReleasePieceBytes);
  RegionRelease::Regions regions;
  std::byte* base = nullptr;
};

TEST_CASE("what waits behind the freeing of a large region waits for one piece of it") {
  Scene scene;
  JobThread thread("test-release", 8);
  std::vector<std::uint64_t> seen;  // pieces that are still mapped, in another session's job
  bool is_gone = false;
  RegionRelease::start(thread, kRed, std::move(scene.regions), [&] {
    is_gone = true;
    CHECK(scene.fixture.pins.regions() == 0);
  });
  const auto job = [&] { seen.push_back(scene.mapped_pieces()); };
  REQUIRE(thread.submit(job, kRed));      // of the same tenant
  REQUIRE(thread.submit(job, kRed + 1));  // of another one
  std::promise<void> done;
  thread.submit_release([&] { done.set_value(); }, kRed);
  thread.start();
  done.get_future().wait();
  CHECK(seen == std::vector<std::uint64_t>{kPieces - 1, kPieces - 1});
  thread.stop();
  CHECK(is_gone);
  CHECK(scene.mapped_pieces() == 0);
}

TEST_CASE("a thread that ends frees what is left at once") {
  Scene scene;
  JobThread thread("test-release", 8);
  thread.start();
  thread.stop();
  bool is_gone = false;
  RegionRelease::start(thread, kRed, std::move(scene.regions), [&] { is_gone = true; });
  CHECK(is_gone);
  CHECK(scene.mapped_pieces() == 0);
}

}  // namespace region_release_test
