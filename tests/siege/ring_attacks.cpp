#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "ipc/memory_file.h"
#include "simm/client.h"
#include "tests/siege/attacks.h"
#include "tests/siege/greedy_client.h"
#include "tests/support/raw_client.h"

namespace simm::siege {
namespace {

using test_support::RawClient;

// A client with a batch of long pages.
struct Batch {
  static constexpr std::size_t kPages = 16;
  static constexpr std::uint64_t kPageBytes = 256 * 1024;

  explicit Batch(const std::string& socket) {
    ClientOptions options;
    options.socket_path = socket;
    client = std::make_unique<Client>(Client::connect(options).value());
    region = client->allocate_region(kPages * kPageBytes).value();
    std::memset(region.data(), 0x5A, region.size());
    for (std::size_t i = 0; i < kPages; ++i) keys.push_back("hasty/" + std::to_string(i));
    for (std::size_t i = 0; i < kPages; ++i) {
      items.push_back({keys[i], View(region, i * kPageBytes, kPageBytes)});
    }
  }
  void call(bool writes, std::uint32_t timeout_ms) {
    CallOptions options;
    options.timeout_ms = timeout_ms;
    options.mode = PutMode::replace;
    (void)(writes ? client->put(items, results, options) : client->get(items, results, options));
  }

  std::unique_ptr<Client> client;
  Region region;
  std::vector<std::string> keys;
  std::vector<Item> items;
  std::vector<PageResult> results = std::vector<PageResult>(kPages);
};

// Fills the lane with one submission of so many pages, and waits until the first has an answer.
void push_and_wait(RawClient& client, ipc::ClientLane& lane, const ipc::Submission& submission,
                   const Until& until) {
  while (lane.push(submission) == Status::ok) {
  }
  client.ring();
  ipc::Completion done{};
  while (!until.is_over() && lane.poll_completion(done) != ipc::Poll::taken) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

// Gets of a microsecond and of a tenth of a millisecond.
void shoot_hasty_gets(const Place& place, const Until& until) {
  constexpr std::uint64_t kPageBytes = 256 * 1024;
  RawClient client = RawClient::attached(place.red);
  const auto file = ipc::MemoryFile::create({"hasty", kPageBytes, false, true});
  REQUIRE(file.has_value());
  const auto region =
      client.register_region(file->fd(), nullptr, kPageBytes, ipc::RegionRequestKind::shared);
  ipc::ClientLane lane(client.lane_memory(0));
  REQUIRE(lane.write_key(0, "hasty/0", 7) == Status::ok);
  for (std::uint32_t page = 0; page < 8; ++page) {
    REQUIRE(lane.write_page(page, RawClient::page(region.handle, 0, kPageBytes, 0, 7)) ==
            Status::ok);
  }
  ipc::Submission get{};
  get.opcode = static_cast<std::uint8_t>(ipc::Opcode::get);
  get.page_count = 8;
  for (std::uint64_t shot = 0; !until.is_over(); ++shot) {
    get.timeout_ns = shot % 2 == 0 ? 1'000 : 100'000;
    push_and_wait(client, lane, get, until);
  }
}

}  // namespace

void attack_by_short_deadlines(const Place& place, const Until& until) {
  std::thread raw([&] { shoot_hasty_gets(place, until); });
  {
    Batch batch(place.red);
    batch.call(true, 10'000);
    for (std::uint32_t call = 0; !until.is_over(); ++call) {
      batch.call(call % 2 == 0, call % 4 < 2 ? 1 : 5);
    }
  }
  raw.join();
}

void attack_by_long_deadlines(const Place& place, const Until& until) {
  GreedyClient::put_object(place.red);
  while (!until.is_over()) {
    GreedyClient greedy(place.red);
    REQUIRE(greedy.has_pushed());
    for (int i = 0; i < 300 && !until.is_over(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

void attack_by_idle_lanes(const Place& place, const Until& until) {
  std::vector<RawClient> idle;
  for (int i = 0; i < 64; ++i) REQUIRE(idle.emplace_back(place.red).attach(16));
  while (!until.is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void attack_by_long_keys(const Place& place, const Until& until) {
  constexpr std::uint32_t kLanes = 4;
  RawClient client(place.red);
  REQUIRE(client.attach(kLanes));
  const std::string key(ipc::kKeyBytesMax, 'k');
  std::vector<ipc::ClientLane> lanes;
  for (std::uint32_t i = 0; i < kLanes; ++i) {
    ipc::ClientLane& lane = lanes.emplace_back(client.lane_memory(i));
    REQUIRE(lane.write_key(0, key.data(), ipc::kKeyBytesMax) == Status::ok);
    for (std::uint32_t page = 0; page < ipc::kPagesPerSubmissionMax; ++page) {
      REQUIRE(lane.write_page(page, RawClient::page(ipc::kNoRegion, 0, 0, 0, ipc::kKeyBytesMax)) ==
              Status::ok);
    }
  }
  ipc::Submission exists{};
  exists.opcode = static_cast<std::uint8_t>(ipc::Opcode::exists);
  exists.page_count = ipc::kPagesPerSubmissionMax;
  exists.timeout_ns = 1'000'000'000;
  while (!until.is_over()) {
    for (ipc::ClientLane& lane : lanes) push_and_wait(client, lane, exists, until);
  }
}

}  // namespace simm::siege
