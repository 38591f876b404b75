// PolicyWorkload: requests of pages in virtual time, made by small generators with a seed, and a
// store that serves them: a request reads its pages, and puts what was missing, the tail first and
// with the depth told. Hits count up to a request's first miss, as an engine can use them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <queue>
#include <unordered_set>
#include <utility>
#include <vector>

#include "daemon/base/random.h"
#include "daemon/store/store.h"
#include "tests/unit/daemon/store/store_fixture.h"

namespace simm::store::testing {

struct PolicyRequest {
  double at_s = 0;
  std::uint64_t tenant = 1;
  bool counts = true;  // for the hits
  std::vector<std::uint64_t> pages;
};

class PolicyWorkload {
public:
  explicit PolicyWorkload(std::uint64_t seed) : random_(seed) {}

  // Conversations arrive at `rate` a second from `from_s` on: a system prompt of 3 shared pages, a
  // first prompt, then with the chance `goes_on` another turn after 5 s and a lognormal time.
  void chat(double from_s, double until_s, double rate, double think_s, double goes_on = 0.6,
            std::uint64_t tenant = 1) {
    for (double at = from_s; (at += -std::log(1 - unit()) / rate) < until_s;) {
      PolicyRequest turn{at, tenant, true, {1, 2, 3}};
      add(turn, static_cast<std::uint64_t>(lognormal(10, 0.9)) + 1);
      while (turn.at_s < until_s) {
        requests_.push_back(turn);
        if (unit() >= goes_on || turn.pages.size() > 200) break;
        turn.at_s += 5 + lognormal(think_s, 1.0);
        add(turn, 1 + random_.below(4));
      }
    }
  }
  // `prompts` prompts of 3 shared and 5 own pages each, again and again in the same order.
  void loop(double from_s, int prompts, int times, double rate, std::uint64_t tenant, bool counts) {
    const std::uint64_t first = next_;
    next_ += 5 * static_cast<std::uint64_t>(prompts);
    for (int i = 0; i < prompts * times; ++i) {
      PolicyRequest one{from_s + i / rate, tenant, counts, {4, 5, 6}};
      const std::uint64_t own = first + 5 * static_cast<std::uint64_t>(i % prompts);
      for (std::uint64_t page = own; page < own + 5; ++page) one.pages.push_back(page);
      requests_.push_back(std::move(one));
    }
  }
  // Each `every_s` `count` pages are put, and each of them once more after exactly `delay_s`.
  void returning(double until_s, double every_s, std::uint64_t count, double delay_s) {
    for (double at = 0; at < until_s; at += every_s) {
      PolicyRequest one{at, 1, false, {}};
      add(one, count);
      requests_.push_back(one);
      one.at_s += delay_s;
      if (one.at_s < until_s) requests_.push_back(one);
    }
  }

  // Jobs at `rate` a second whose `count` pages come back after exactly 10 s and 20 s, never later.
  void burst(double until_s, double rate, std::uint64_t count) {
    for (double at = 0; at < until_s; at += 1 / rate) {
      PolicyRequest one{at, 1, false, {}};
      add(one, count);
      for (int i = 0; i < 3; ++i, one.at_s += 10) requests_.push_back(one);
    }
  }

  // In the order of time, when all has been made.
  void sort() {
    std::stable_sort(
        requests_.begin(), requests_.end(),
        [](const PolicyRequest& a, const PolicyRequest& b) { return a.at_s < b.at_s; });
    std::unordered_set<std::uint64_t> seen;
    for (const PolicyRequest& one : requests_) {
      for (const std::uint64_t page : one.pages) seen.insert(page * 4 + one.tenant);
    }
    unique_pages_ = seen.size();
  }
  // Percent of the pages of requests that count, in a store of a part of all pages.
  [[nodiscard]] double hits(EvictionKind kind, double part) const {
    const auto pages = static_cast<std::uint64_t>(part * static_cast<double>(unique_pages_));
    StoreConfig config = StoreFixture::quiet(static_cast<std::uint32_t>(pages) + 1);
    config.eviction = kind;
    std::vector<std::byte> arena(pages * 64);
    auto made = Store::create(config, arena);
    REQUIRE(made.has_value());
    Store& store = **made;
    double hit = 0;
    double asked = 0;
    for (const PolicyRequest& one : requests_) {
      const std::size_t found = serve(store, one);
      if (!one.counts) continue;
      hit += static_cast<double>(found);
      asked += static_cast<double>(one.pages.size());
    }
    return 100 * hit / asked;
  }

private:
  double unit() { return static_cast<double>(random_.below(1u << 30)) / (1u << 30); }
  double lognormal(double median, double sigma) {
    const double angle = 2 * 3.14159265358979 * unit();
    return median * std::exp(sigma * std::sqrt(-2 * std::log(1 - unit())) * std::cos(angle));
  }
  void add(PolicyRequest& request, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) request.pages.push_back(next_++);
  }
  static ObjectKey key_of(const std::uint64_t& page, std::uint64_t tenant) {
    ObjectKey key;
    key.bytes = {reinterpret_cast<const char*>(&page), sizeof page};
    std::uint64_t mixed = (page * 4 + tenant) * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 31)) * 0xbf58476d1ce4e5b9u;
    key.hash = {mixed ^ (mixed >> 29), mixed};
    key.group = key.hash.low;
    key.tenant = {tenant};
    key.name_space = {1};
    return key;
  }
  // How many pages of its prefix were there.
  static std::size_t serve(Store& store, const PolicyRequest& one) {
    const auto now_ns = static_cast<base::TimeNs>((1000 + one.at_s) * 1e9);
    std::size_t found = one.pages.size();
    for (std::size_t i = one.pages.size(); i-- > 0;) {
      const ObjectKey key = key_of(one.pages[i], one.tenant);
      ReadPin pin;
      if (store.begin_read(key, kNoLease, now_ns, pin) == Status::ok) {
        store.end_read(pin);
        store.touch(key, kNoLease, now_ns);
        continue;
      }
      found = i;
      WriteRequest write{key, 64, ipc::PutMode::if_absent, 0};
      write.depth = static_cast<std::uint32_t>(i) + 1;
      const WriteResult room = store.begin_write(write, now_ns);
      if (room.start != WriteStart::reserved) FAIL("there is always something to evict");
      store.publish(room.reservation, 0, 1, now_ns);
    }
    return found;
  }

  base::SeededRandom random_;
  std::uint64_t next_ = 100;  // the next page that nobody has seen
  std::uint64_t unique_pages_ = 0;
  std::vector<PolicyRequest> requests_;
};

}  // namespace simm::store::testing
