// A client takes a huge page of its region away and sees to it that no other can be had.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "simm/client.h"
#include "tests/siege/two_tenant_daemon.h"
#include "tests/siege/victim.h"
#include "tests/support/huge_pool.h"
#include "tests/support/raw_client.h"

namespace simm::siege {
namespace huge_page_attack {

using test_support::HugePool;
using test_support::RawClient;

constexpr std::uint32_t kPages = 4;
constexpr std::uint32_t kVanishing = 2;  // the page that goes
constexpr std::uint64_t kObjectBytes = 1 << 20;
constexpr std::uint32_t kKeyBytes = 16;

// A hugetlb region as a program may have made it: no seal, so its pages can be punched out.
struct HugeRegion {
  explicit HugeRegion(RawClient& client)
      : file(::memfd_create("siege", MFD_CLOEXEC | MFD_HUGETLB)) {
    REQUIRE(file.valid());
    REQUIRE(::ftruncate(file.get(), kBytes) == 0);
    void* mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
    REQUIRE(mapped != MAP_FAILED);
    memory = static_cast<std::byte*>(mapped);
    fill();
    const auto reply =
        client.register_region(file.get(), memory, kBytes, ipc::RegionRequestKind::shared);
    REQUIRE(reply.status == Status::ok);
    handle = reply.handle;
  }
  ~HugeRegion() { ::munmap(memory, kBytes); }
  HugeRegion(const HugeRegion&) = delete;
  HugeRegion& operator=(const HugeRegion&) = delete;

  void fill() const {
    for (std::uint32_t page = 0; page < kPages; ++page) {
      std::memset(memory + page * HugePool::kPageBytes, static_cast<int>(page + 1), kObjectBytes);
    }
  }
  void lose_page() const {
    REQUIRE(::fallocate(file.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        kVanishing * static_cast<off_t>(HugePool::kPageBytes),
                        static_cast<off_t>(HugePool::kPageBytes)) == 0);
  }

  static constexpr std::uint64_t kBytes = kPages * HugePool::kPageBytes;
  ipc::UniqueFd file;
  std::byte* memory = nullptr;
  ipc::RegionHandle handle = ipc::kNoRegion;
};

std::string key_of(const char* round, std::uint32_t page) {
  std::string key = std::string(round) + " huge " + std::to_string(page);
  key.resize(kKeyBytes, '.');
  return key;
}

// One submission of all pages; their results, or nothing when it did not complete.
std::optional<std::array<ipc::PageResult, kPages>> run(RawClient& client, ipc::ClientLane& lane,
                                                       ipc::Opcode opcode, const char* round,
                                                       ipc::RegionHandle region) {
  for (std::uint32_t i = 0; i < kPages; ++i) {
    const std::string key = key_of(round, i);
    REQUIRE(lane.write_key(i * kKeyBytes, key.data(), kKeyBytes) == Status::ok);
    REQUIRE(lane.write_page(i, RawClient::page(region, i * HugePool::kPageBytes, kObjectBytes,
                                               i * kKeyBytes, kKeyBytes)) == Status::ok);
  }
  ipc::Submission submission{};
  submission.timeout_ns = 20'000'000'000;
  submission.page_count = kPages;
  submission.opcode = static_cast<std::uint8_t>(opcode);
  REQUIRE(lane.push(submission) == Status::ok);
  client.ring();
  ipc::Completion completion{};
  const bool completed = test_support::eventually(
      [&] { return lane.poll_completion(completion) == ipc::Poll::taken; }, 20'000);
  if (!completed) return std::nullopt;
  std::array<ipc::PageResult, kPages> results{};
  for (std::uint32_t i = 0; i < kPages; ++i) {
    REQUIRE(lane.read_result(i, results[i]) == Status::ok);
  }
  return results;
}

// What another client finds under the keys of a round.
void check_only_whole_objects(const OneTenantDaemon& daemon, const char* round, bool has_vanished) {
  ClientOptions options;
  options.socket_path = daemon.socket();
  options.sync_timeout_ms = 20'000;
  auto client = Client::connect(options);
  REQUIRE(client.has_value());
  auto region = client->allocate_region(kObjectBytes);
  REQUIRE(region.has_value());
  for (std::uint32_t page = 0; page < kPages; ++page) {
    CAPTURE(page);
    const auto got = client->get(key_of(round, page), View(*region, 0, kObjectBytes));
    if (has_vanished && page == kVanishing) {
      CHECK(got.status == Status::not_found);
      continue;
    }
    REQUIRE(got.status == Status::ok);
    const auto* bytes = region->data();
    CHECK(std::all_of(bytes, bytes + kObjectBytes,
                      [&](std::byte b) { return b == static_cast<std::byte>(page + 1); }));
  }
}

void attack(ipc::Opcode opcode, const char* round) {
  HugePool pool(kPages);
  if (!pool.ready()) return;
  OneTenantDaemon daemon;
  Victim victim(daemon.socket());
  {
    RawClient client = RawClient::attached(daemon.socket());
    const HugeRegion region(client);
    ipc::ClientLane lane(client.lane_memory(0));
    if (opcode == ipc::Opcode::get) {
      const auto stored = run(client, lane, ipc::Opcode::put, round, region.handle);
      REQUIRE(stored.has_value());
      for (const ipc::PageResult& result : *stored) REQUIRE(result.status == 0);
    }
    region.lose_page();
    REQUIRE(pool.take_free_pages());
    const auto results = run(client, lane, opcode, round, region.handle);
    CHECK(client.wait_for_poison() == ipc::PoisonReason::region_fault);
    REQUIRE(results.has_value());
    for (std::uint32_t page = 0; page < kPages; ++page) {
      const Status wanted = page == kVanishing ? Status::transfer_failed : Status::ok;
      CHECK((*results)[page].status == static_cast<std::int32_t>(wanted));
    }
  }
  check_only_whole_objects(daemon, round, opcode == ipc::Opcode::put);
  CHECK(daemon.counter("session.0.poisoned.region_fault") == 1);
  CHECK(victim.does_rounds(3));
  victim.stop();
  CHECK(daemon.alive());
  CHECK(victim.wrong() == 0);
  CHECK(victim.failed() == 0);
  CHECK(daemon.sessions_settled_to(0) == 0);
}

TEST_CASE("a huge page that vanishes under a put, with the pool empty, is not stored") {
  attack(ipc::Opcode::put, "put");
}

TEST_CASE("a huge page that vanishes under a get, with the pool empty, costs its session only") {
  attack(ipc::Opcode::get, "get");
}

}  // namespace huge_page_attack
}  // namespace simm::siege
