// PageHasher, PageRouter, the pools and the translation of statuses.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "daemon/base/random.h"
#include "daemon/engine/operation_pool.h"
#include "daemon/engine/page_hasher.h"
#include "daemon/engine/page_router.h"
#include "daemon/engine/public_status.h"
#include "daemon/engine/request_pool.h"

namespace routing_test {

using namespace simm;
using engine::PageHasher;
using transport::PageRequest;
using transport::Route;

TEST_CASE("a key's hash depends on the cluster, the tenant and the namespace") {
  const std::string key = "0123456789abcdef0123456789abcdef_0_k";
  std::set<std::uint64_t> hashes, groups;
  for (std::uint64_t seed : {1u, 2u}) {
    for (std::uint64_t tenant : {1u, 2u}) {
      for (std::uint64_t name_space : {1u, 2u}) {
        const auto scope = PageHasher(seed).scope({tenant}, {name_space});
        hashes.insert(PageHasher::key_hash(scope, key).high);
        groups.insert(PageHasher::group_hash(scope, key));
      }
    }
  }
  CHECK(hashes.size() == 8);
  CHECK(groups.size() == 8);
}

TEST_CASE("the parts of a page have one group hash and different key hashes") {
  const auto scope = PageHasher(3).scope({1}, {1});
  const std::string digest = "0123456789abcdef0123456789abcdef";
  const std::string k = digest + "_0_k", v = digest + "_0_v";
  CHECK(PageHasher::group_hash(scope, k) == PageHasher::group_hash(scope, v));
  CHECK(PageHasher::key_hash(scope, k) != PageHasher::key_hash(scope, v));
}

struct RandomPlacement final : engine::Placement {
  std::uint32_t peers = 1;
  std::uint16_t shards = 1;
  base::Epoch epoch() const noexcept override { return 1; }
  Route route(base::Slot slot) const noexcept override {
    const std::uint32_t mixed = slot * 2654435761u;
    return {base::PeerId{mixed % peers}, static_cast<std::uint16_t>(mixed / 7 % shards)};
  }
};

// The sort as the standard library would do it: stable, owners in the order of first appearance.
std::vector<PageRequest> slow_sort(std::vector<PageRequest> pages, const RandomPlacement& map) {
  std::vector<Route> order;
  for (const PageRequest& page : pages) {
    const Route route = map.route(base::slot_of(page.group));
    if (std::find(order.begin(), order.end(), route) == order.end()) order.push_back(route);
  }
  const auto rank = [&](const PageRequest& page) {
    return std::find(order.begin(), order.end(), map.route(base::slot_of(page.group))) -
           order.begin();
  };
  std::stable_sort(pages.begin(), pages.end(),
                   [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  return pages;
}

TEST_CASE("random batches: sorting by owner is stable and keeps every page") {
  const char* text = std::getenv("SIMM_SEED");
  const std::uint64_t seed = text ? std::strtoull(text, nullptr, 10) : std::random_device{}();
  INFO("repeat: SIMM_SEED=" << seed << " unit_engine -tc='random batches*'");
  base::SeededRandom random(seed);
  auto router = std::make_unique<engine::PageRouter>();
  for (int round = 0; round < 300; ++round) {
    RandomPlacement map;
    map.peers = 1 + static_cast<std::uint32_t>(random.below(round % 10 == 0 ? 2000 : 5));
    map.shards = static_cast<std::uint16_t>(1 + random.below(6));
    std::vector<PageRequest> pages(1 + random.below(round % 10 == 0 ? 1024 : 60));
    for (std::size_t i = 0; i < pages.size(); ++i) {
      pages[i].group = random.next();
      pages[i].index = static_cast<std::uint16_t>(i);
    }
    const std::vector<PageRequest> wanted = slow_sort(pages, map);
    router->sort(pages, map);
    bool same = true;
    for (std::size_t i = 0; i < pages.size(); ++i) same &= pages[i].index == wanted[i].index;
    CHECK(same);
    const auto cap = 1 + static_cast<std::uint32_t>(random.below(64));
    const std::uint32_t run =
        engine::PageRouter::first_run(pages, map, cap, ipc::kKeyArenaBytes).pages;
    const Route first = map.route(base::slot_of(pages[0].group));
    CHECK(run >= 1);
    CHECK(run <= cap);
    CHECK(map.route(base::slot_of(pages[run - 1].group)) == first);
    if (run < pages.size() && run < cap) {
      CHECK(!(map.route(base::slot_of(pages[run].group)) == first));
    }
  }
}

TEST_CASE("a token names one use of a request entry") {
  engine::RequestPool pool(2);
  engine::SubRequest* request = pool.acquire();
  REQUIRE(request != nullptr);
  const auto first = pool.new_token(*request);
  CHECK(pool.find(first) == nullptr);  // not posted
  request->stage = engine::SubRequest::Stage::posted;
  CHECK(pool.find(first) == request);
  const auto second = pool.new_token(*request);
  CHECK(pool.find(first) == nullptr);
  CHECK(pool.find(second) == request);
  pool.release(*request);
  CHECK(pool.find(second) == nullptr);
  CHECK(pool.in_use() == 0);
  CHECK(pool.acquire() == request);
  CHECK(pool.acquire() != nullptr);
  CHECK(pool.acquire() == nullptr);
}

TEST_CASE("a pool of a hundred thousand operations costs address space only") {
  engine::OperationPool pool(100'000);
  engine::Operation* one = pool.allocate();
  engine::Operation* two = pool.allocate();
  REQUIRE(one != nullptr);
  REQUIRE(two != nullptr);
  CHECK(one != two);
  CHECK(pool.lent() == 2);
  one->page_count = 9;
  one->status = Status::timeout;
  pool.release(*one);
  CHECK(pool.allocate() == one);
  CHECK(one->page_count == 0);
  CHECK(one->status == Status::ok);
}

TEST_CASE("what clients are told") {
  using engine::public_status;
  using ipc::Opcode;
  CHECK(public_status(Opcode::put, Status::exists) == Status::ok);
  CHECK(public_status(Opcode::get, Status::size_mismatch) == Status::not_found);
  CHECK(public_status(Opcode::get, Status::corrupt) == Status::not_found);
  CHECK(public_status(Opcode::get, Status::cancelled) == Status::timeout);
  CHECK(public_status(Opcode::get, Status::wrong_epoch) == Status::not_found);
  CHECK(public_status(Opcode::exists, Status::unreachable) == Status::not_found);
  CHECK(public_status(Opcode::put, Status::wrong_epoch) == Status::unreachable);
  CHECK(public_status(Opcode::remove, Status::unreachable) == Status::unreachable);
  CHECK(public_status(Opcode::put, Status::no_space) == Status::no_space);
  CHECK(public_status(Opcode::get, Status::transfer_failed) == Status::transfer_failed);
}

}  // namespace routing_test
