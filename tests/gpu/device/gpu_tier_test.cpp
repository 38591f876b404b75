// GpuTier on the driver of the tests, in this process.
#include "daemon/memory/gpu/gpu_tier.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "daemon/memory/gpu/gpu_seen.h"

#include "tests/gpu/gpu_buffer.h"
#include "tests/support/number_from.h"
#include "tests/support/temporary_directory.h"

namespace gpu_tier_unit {

using namespace simm::memory;
using gpu_tests::driver;
using simm::cuda::kSuccess;

constexpr std::uint64_t kExtentBytes = 2 << 20;
constexpr std::uint64_t kPieceBytes = 512 << 10;  // four in an extent

std::uint64_t time_ns = 1;  // of all tiers here

struct Rig {
  explicit Rig(std::uint64_t extents, std::uint64_t gpu_bytes = 1 << 30,
               const simm::cuda::Driver& used = driver()) {
    ::setenv("SIMM_TEST_GPU_FAULTS", (directory / "faults").c_str(), 1);
    // What tests before this one have made is not given back to the driver by their end alone.
    set_gpu_bytes(gpu_bytes);
    (void)driver();
    REQUIRE(driver().stream_create(&stream, simm::cuda::kStreamNonBlocking) == kSuccess);
    GpuTierConfig config;
    config.extent_bytes = kExtentBytes;
    config.piece_bytes_min = 4096;
    tier = std::make_unique<GpuTier>(
        used, 0, stream, counts, *names, [] { return time_ns; }, config);
    tier->resize(extents * kExtentBytes, 0);
  }
  ~Rig() {
    if (tier != nullptr) {
      tier->resize(0, 0);
      settle();
    }
    ::unsetenv("SIMM_TEST_GPU_FAULTS");
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  // So much is free now.
  void set_gpu_bytes(std::uint64_t bytes) const {
    std::size_t free_bytes = 0;
    std::size_t all_bytes = 0;
    REQUIRE(driver().memory_get_info(&free_bytes, &all_bytes) == kSuccess);
    write("memory=" + std::to_string(all_bytes - free_bytes + bytes));
  }
  void write(const std::string& line) const {
    std::ofstream(directory / "new") << line << "\n";
    std::filesystem::rename(directory / "new", directory / "faults");
  }
  // Until nothing waits to be given back.
  void settle() const {
    REQUIRE(driver().stream_synchronize(stream) == kSuccess);
    for (int turn = 0; turn < 100 && tier->is_giving_back(); ++turn) REQUIRE(tier->do_work());
    REQUIRE_FALSE(tier->is_giving_back());
  }

  // As the daemon asks: what has no place gets one at the second time.
  GpuTier::Place find(std::uint64_t serial, std::uint64_t tenant = 1,
                      std::uint64_t bytes = kPieceBytes, std::uint64_t offset = 0) const {
    const std::uint64_t print = gpu_name_print({1, serial, offset}, tenant);
    const bool takes_in = !names->has(print) && once->begin(print, true) == GpuSeen::Turn::second;
    const GpuTier::Place place = tier->find({1, serial, offset}, bytes, tenant, takes_in);
    if (takes_in) once->end(print);
    INFO(std::string(tier->audit() == nullptr ? "" : tier->audit()));
    REQUIRE(tier->audit() == nullptr);
    return place;
  }
  // Asks until it is there; false: it gets no place.
  bool admit(std::uint64_t serial, std::uint64_t tenant = 1) const {
    for (int time = 0; time < 2; ++time) {
      if (find(serial, tenant).address != 0) return true;
    }
    return false;
  }
  [[nodiscard]] bool is_there(std::uint64_t serial, std::uint64_t tenant = 1) const {
    return find(serial, tenant).is_filled;
  }
  [[nodiscard]] std::vector<std::byte> read(simm::cuda::DevicePointer address,
                                            std::uint64_t bytes) const {
    std::vector<std::byte> seen(bytes);
    REQUIRE(driver().copy_from_device(seen.data(), address, bytes, stream) == kSuccess);
    REQUIRE(driver().stream_synchronize(stream) == kSuccess);
    return seen;
  }
  void write_piece(simm::cuda::DevicePointer address, const std::vector<std::byte>& bytes) const {
    REQUIRE(driver().copy_to_device(address, bytes.data(), bytes.size(), stream) == kSuccess);
    REQUIRE(driver().stream_synchronize(stream) == kSuccess);
  }

  const simm::test_support::TemporaryDirectory directory{"/tmp"};
  simm::cuda::Stream stream = nullptr;
  GpuTierCounts counts{};
  std::unique_ptr<GpuNames> names = std::make_unique<GpuNames>();
  std::unique_ptr<GpuSeen> once = std::make_unique<GpuSeen>();  // what was got
  std::unique_ptr<GpuTier> tier;
};

}  // namespace gpu_tier_unit

TEST_CASE(
    "gpu tier: a piece is admitted when it is got for the second time, and then it is there") {
  using namespace gpu_tier_unit;
  const Rig rig(2);
  CHECK(rig.tier->find({1, 1, 0}, kPieceBytes, 1, false).address == 0);
  CHECK(rig.tier->find({1, 1, 0}, kPieceBytes, 1, false).address == 0);
  const GpuTier::Place place = rig.tier->find({1, 1, 0}, kPieceBytes, 1, true);
  CHECK(place.address != 0);
  CHECK_FALSE(place.is_filled);
  const GpuTier::Place again = rig.find(1);
  CHECK(again.address == place.address);
  CHECK(again.is_filled);
  // A shorter range of it is there too, a longer one takes its place.
  CHECK(rig.find(1, 1, 5000).is_filled);
  CHECK_FALSE(rig.find(1, 1, 2 * kPieceBytes).is_filled);
  CHECK(rig.find(1, 1, 2 * kPieceBytes).is_filled);
  CHECK(rig.counts.hits == 3);
  CHECK(rig.counts.hit_bytes == 3 * kPieceBytes + 5000);
  CHECK(rig.counts.admitted == 2);
  // Another version, another place in the object, another tenant: other bytes.
  CHECK(rig.find(2).address == 0);
  CHECK(rig.find(1, 1, kPieceBytes, 4096).address == 0);
  CHECK(rig.find(1, 2).address == 0);
  // No name, too short, too long.
  for (int time = 0; time < 3; ++time) {
    CHECK(rig.tier->find({0, 9, 0}, kPieceBytes, 1, true).address == 0);
    CHECK(rig.find(10, 1, 4095).address == 0);
    CHECK(rig.find(11, 1, kExtentBytes + 1).address == 0);
  }
}

TEST_CASE("gpu tier: what was not used for longest makes way") {
  using namespace gpu_tier_unit;
  const Rig rig(1);
  for (std::uint64_t serial = 1; serial <= 4; ++serial) CHECK(rig.admit(serial));
  CHECK(rig.counts.bytes == kExtentBytes);
  CHECK(rig.counts.used_bytes == kExtentBytes);
  CHECK(rig.is_there(1));
  CHECK(rig.admit(5));
  CHECK(rig.counts.evicted == 1);
  for (const std::uint64_t serial : {1u, 3u, 4u, 5u}) CHECK(rig.is_there(serial));
  // Nobody has asked for 2 since it went, so to ask once is not enough.
  CHECK(rig.find(2).address == 0);
}

TEST_CASE("gpu tier: a tenant takes from those who have more than their share, and nobody else") {
  using namespace gpu_tier_unit;
  const Rig rig(4);
  for (std::uint64_t serial = 1; serial <= 16; ++serial) CHECK(rig.admit(serial, 1));
  for (std::uint64_t serial = 101; serial <= 108; ++serial) CHECK(rig.admit(serial, 2));
  // Each has two extents. What either gets now, the other does not lose.
  for (std::uint64_t serial = 21; serial <= 60; ++serial) CHECK(rig.admit(serial, 1));
  for (std::uint64_t serial = 101; serial <= 108; ++serial) CHECK(rig.is_there(serial, 2));
  CHECK(rig.is_there(60, 1));
  CHECK(rig.is_there(53, 1));
  CHECK(rig.find(52, 1).is_filled == false);
  // A third and a fourth one find room, and so does nobody beyond the extents.
  CHECK(rig.admit(201, 3));
  CHECK(rig.admit(301, 4));
  CHECK_FALSE(rig.admit(401, 5));
}

TEST_CASE("gpu tier: a tenant finds no byte of another one in what it is given") {
  using namespace gpu_tier_unit;
  const Rig rig(2);
  const std::vector<std::byte> secret(kPieceBytes, std::byte{0xa5});
  for (std::uint64_t serial = 1; serial <= 8; ++serial) {
    CHECK(rig.find(serial, 1).address == 0);
    rig.write_piece(rig.find(serial, 1).address, secret);
  }
  CHECK(rig.find(9, 2).address == 0);
  const GpuTier::Place place = rig.find(9, 2);
  REQUIRE(place.address != 0);
  CHECK(rig.counts.evicted == 4);
  for (const std::byte byte : rig.read(place.address, kExtentBytes)) {
    if (byte != std::byte{0}) FAIL("a byte of another tenant");
  }
}

TEST_CASE("gpu tier: whatever is asked for, a place holds what was filled in under that name") {
  using namespace gpu_tier_unit;
  const std::uint64_t seed = simm::test_support::number_from("SIMM_TEST_SEED", 22);
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const Rig rig(6);
  const auto byte_of = [](std::uint64_t tenant, std::uint64_t serial) {
    return static_cast<std::byte>(tenant << 5 | (serial * 7 + tenant) % 31 | 1);
  };
  const auto tenant_of = [](std::byte byte) { return static_cast<std::uint64_t>(byte) >> 5; };
  std::uint64_t hits = 0;
  std::uint64_t given_on = 0;  // extents that another tenant had before
  for (int step = 0; step < 6000; ++step) {
    if (random() % 400 == 0) {
      rig.tier->resize((random() % 6) * kExtentBytes, 0);
      REQUIRE(rig.tier->audit() == nullptr);
    }
    REQUIRE(rig.tier->do_work());
    const std::uint64_t tenant = 1 + random() % 3 * (random() % 2);
    const std::uint64_t serial = random() % (random() % 4 == 0 ? 200 : 12) + tenant * 1000;
    const std::uint64_t bytes = std::uint64_t{64 << 10} << serial % 4;
    const GpuTier::Place place = rig.find(serial, tenant, bytes);
    if (place.address == 0) continue;
    const std::vector<std::byte> seen = rig.read(place.address, bytes);
    const std::byte wanted = byte_of(tenant, serial);
    if (place.is_filled) {
      ++hits;
      REQUIRE(std::all_of(seen.begin(), seen.end(), [=](std::byte b) { return b == wanted; }));
      continue;
    }
    if (seen[0] == std::byte{0}) ++given_on;
    REQUIRE(std::all_of(seen.begin(), seen.end(), [&](std::byte byte) {
      return byte == std::byte{0} || tenant_of(byte) == tenant;
    }));
    rig.write_piece(place.address, std::vector<std::byte>(bytes, wanted));
  }
  CHECK(hits > 1000);
  CHECK(given_on > 100);
  CHECK(rig.counts.revoked_bytes > 0);
}

TEST_CASE("gpu tier: a GPU without memory makes a smaller tier, which grows later") {
  using namespace gpu_tier_unit;
  const Rig rig(4, 2 * kExtentBytes + kExtentBytes / 2);
  for (std::uint64_t serial = 1; serial <= 12; ++serial) CHECK(rig.admit(serial));
  CHECK(rig.counts.bytes == 2 * kExtentBytes);
  CHECK(rig.counts.refused == 1);  // it is not tried again at once
  // The driver may say no as well.
  rig.write("create=2");
  time_ns += 2'000'000'000;
  CHECK(rig.admit(13));
  CHECK(rig.counts.bytes == 2 * kExtentBytes);
  CHECK(rig.counts.refused == 2);
  rig.write("");
  time_ns += 2'000'000'000;
  CHECK(rig.admit(14));
  CHECK(rig.counts.bytes == 3 * kExtentBytes);
}

TEST_CASE("gpu tier: it gives memory back when others need it, and when it is told") {
  using namespace gpu_tier_unit;
  const Rig rig(4);
  for (std::uint64_t serial = 1; serial <= 16; ++serial) CHECK(rig.admit(serial));
  CHECK(rig.is_there(1));  // the first extent is the youngest now
  rig.tier->resize(4 * kExtentBytes, 8 * kExtentBytes);
  rig.set_gpu_bytes(7 * kExtentBytes);
  REQUIRE(rig.tier->do_work());
  // It is found by nobody at once, and back when the copies have ended.
  CHECK_FALSE(rig.is_there(5));
  CHECK(rig.is_there(1));
  rig.settle();
  CHECK(rig.counts.bytes == 3 * kExtentBytes);
  CHECK(rig.counts.revoked_bytes == kExtentBytes);
  // The reserve is kept: it does not grow again.
  time_ns += 2'000'000'000;
  for (std::uint64_t serial = 31; serial <= 40; ++serial) CHECK(rig.admit(serial));
  CHECK(rig.counts.bytes == 3 * kExtentBytes);
  rig.tier->resize(kExtentBytes, 0);
  CHECK(rig.tier->is_giving_back());
  CHECK(rig.is_there(1) == false);
  time_ns += 5'000;
  rig.settle();
  CHECK(rig.counts.bytes == kExtentBytes);
  CHECK(rig.counts.revoke_ns == 5'000);
  CHECK(rig.counts.revoke_max_ns == 5'000);
}

TEST_CASE(
    "gpu tier: memory whose copies can not be waited for is not given back, the helper ends") {
  using namespace gpu_tier_unit;
  Rig rig(2);
  for (std::uint64_t serial = 1; serial <= 8; ++serial) CHECK(rig.admit(serial));
  rig.write("event=999");
  rig.tier->resize(kExtentBytes, 0);
  REQUIRE(driver().stream_synchronize(rig.stream) == kSuccess);
  CHECK_FALSE(rig.tier->do_work());
  CHECK(rig.counts.revoked_bytes == 0);
  rig.tier.reset();
}

TEST_CASE("gpu tier: an order is done when its memory is back, and not before") {
  using namespace gpu_tier_unit;
  const Rig rig(4);
  for (std::uint64_t serial = 1; serial <= 16; ++serial) CHECK(rig.admit(serial));
  rig.tier->resize(3 * kExtentBytes, 0, 5);
  CHECK(rig.counts.order_done == 4);
  // The next one asks for nothing back, and what was asked for before it is still on its way.
  rig.tier->resize(3 * kExtentBytes, 0, 6);
  CHECK(rig.counts.order_done == 4);
  rig.settle();
  CHECK(rig.counts.order_done == 6);
  CHECK(rig.counts.bytes == 3 * kExtentBytes);
  rig.tier->resize(8 * kExtentBytes, 0, 7);  // more room is there at once
  CHECK(rig.counts.order_done == 7);
  CHECK(rig.counts.spare_bytes > 0);
  // What leaves for others' sake: the next order waits for it.
  rig.tier->resize(8 * kExtentBytes, 8 * kExtentBytes, 8);
  rig.set_gpu_bytes(7 * kExtentBytes);
  time_ns += 2'000'000'000;
  REQUIRE(rig.tier->do_work());
  CHECK(rig.tier->is_giving_back());
  CHECK(rig.counts.order_done == 8);
  rig.tier->resize(8 * kExtentBytes, 0, 9);
  CHECK(rig.counts.order_done == 8);
  rig.settle();
  CHECK(rig.counts.order_done == 9);
}

TEST_CASE("gpu tier: for memory of another GPU it gives what it has, and takes nothing in") {
  using namespace gpu_tier_unit;
  const Rig rig(2);
  const auto print = [](std::uint64_t serial, std::uint64_t tenant) {
    return gpu_name_print({1, serial, 0}, tenant);
  };
  for (int time = 0; time < 3; ++time) {
    CHECK(rig.tier->find_for_peer({1, 1, 0}, kPieceBytes, 1).address == 0);
  }
  CHECK(rig.counts.bytes == 0);
  CHECK_FALSE(rig.names->has(print(1, 1)));
  CHECK(rig.find(1).address == 0);
  const GpuTier::Place place = rig.find(1);
  CHECK(place.address != 0);
  CHECK(rig.names->has(print(1, 1)));
  CHECK_FALSE(rig.names->has(print(1, 2)));
  CHECK(rig.tier->find_for_peer({1, 1, 0}, kPieceBytes, 1).address == place.address);
  CHECK(rig.tier->find_for_peer({1, 1, 0}, 5000, 1).is_filled);
  CHECK(rig.tier->find_for_peer({1, 1, 0}, kPieceBytes + 1, 1).address == 0);
  CHECK(rig.tier->find_for_peer({1, 1, 0}, kPieceBytes, 2).address == 0);
  CHECK(rig.tier->find_for_peer({1, 1, 4096}, kPieceBytes, 1).address == 0);
  CHECK(rig.counts.peer_hits == 2);
  CHECK(rig.counts.peer_hit_bytes == kPieceBytes + 5000);
  CHECK(rig.counts.hits == 0);
  // A look from there counts as a use: what nobody has looked for makes way.
  for (std::uint64_t serial = 2; serial <= 8; ++serial) CHECK(rig.admit(serial));
  CHECK(rig.tier->find_for_peer({1, 1, 0}, kPieceBytes, 1).is_filled);
  CHECK(rig.admit(9));
  CHECK(rig.is_there(1));
  CHECK_FALSE(rig.names->has(print(2, 1)));
  rig.tier->resize(0, 0);
  CHECK_FALSE(rig.names->has(print(1, 1)));
  CHECK(rig.tier->find_for_peer({1, 1, 0}, kPieceBytes, 1).address == 0);
}

namespace gpu_tier_unit {

const GpuTierCounts* spied_counts = nullptr;
std::uint64_t spied_order_done = 0;  // at most, when an extent began to leave

}  // namespace gpu_tier_unit

TEST_CASE("gpu tier: an order is not done, not even for a moment, before its memory leaves") {
  using namespace gpu_tier_unit;
  simm::cuda::Driver spy = driver();
  spy.event_create = [](simm::cuda::Event* event, unsigned flags) {
    spied_order_done = std::max(spied_order_done, spied_counts->order_done.load());
    return driver().event_create(event, flags);
  };
  const Rig rig(3, 1 << 30, spy);
  spied_counts = &rig.counts;
  for (std::uint64_t serial = 1; serial <= 12; ++serial) CHECK(rig.admit(serial));
  rig.tier->resize(0, 0, 7);
  CHECK(spied_order_done < 7);
  rig.settle();
  CHECK(rig.counts.order_done == 7);
}
