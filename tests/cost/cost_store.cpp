// cost_store: gets or puts of one store, whose instructions are counted for one eviction policy and
// another. Usage: cost_store POLICY CALL TIMES. It ends with 1 when a call does not do what it
// should.
//
// Calls: get, with the default lease, of any of 200,000 objects; put, of a new object for which an
// old one is evicted. There are 200 calls a second of the store's clock, and what the store does
// between its calls (leases that end) counts as theirs.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "daemon/base/hash.h"
#include "daemon/base/random.h"
#include "daemon/store/store.h"

namespace {

using namespace simm;

constexpr std::uint64_t kObjectBytes = 64;
constexpr std::uint32_t kObjects = 200'000;
constexpr base::TimeNs kPerCallNs = base::kNsPerSecond / 200;
constexpr std::size_t kWarmUpCalls = 600'000;

struct Traffic {
  Traffic(store::Store& whose, std::size_t names) : store(whose), keys(names), bytes(names) {
    const base::KeyHasher hasher(1);
    for (std::size_t i = 0; i < names; ++i) {
      bytes[i] = "page/" + std::to_string(i);
      keys[i].bytes = bytes[i];
      keys[i].hash = hasher(bytes[i]);
      keys[i].group = keys[i].hash.high;
      keys[i].tenant = {1};
      keys[i].name_space = {1};
    }
  }

  bool get(std::size_t name) {
    begin();
    store::ReadPin pin;
    if (store.begin_read(keys[name], 0, now_ns, pin) != Status::ok) return false;
    store.end_read(pin);
    return true;
  }
  bool put(std::size_t name) {
    begin();
    store::WriteRequest write;
    write.key = keys[name];
    write.length = kObjectBytes;
    const store::WriteResult room = store.begin_write(write, now_ns);
    if (room.start != store::WriteStart::reserved) return false;
    store.publish(room.reservation, 0, 1, now_ns);
    return true;
  }
  void begin() {
    now_ns += kPerCallNs;
    static_cast<void>(store.do_work(now_ns));
  }

  store::Store& store;
  std::vector<store::ObjectKey> keys;
  std::vector<std::string> bytes;
  base::TimeNs now_ns = 1000 * base::kNsPerSecond;
};

// What a profiler collects: it is told this name.
[[gnu::noinline]] bool measured_call(Traffic& traffic, const std::vector<std::uint32_t>& names,
                                     bool puts) {
  for (const std::uint32_t name : names) {
    if (!(puts ? traffic.put(name) : traffic.get(name))) return false;
  }
  return true;
}

int fail(const char* why) {
  std::fprintf(stderr, "cost_store: %s\n", why);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return fail("usage: cost_store reuse|lru get|put TIMES");
  const bool puts = std::string_view(argv[2]) == "put";
  const std::size_t times = std::strtoul(argv[3], nullptr, 10);
  store::StoreConfig config;
  config.eviction =
      std::string_view(argv[1]) == "lru" ? store::EvictionKind::lru : store::EvictionKind::reuse;
  config.objects_max = kObjects + 1;
  config.free_low_permille = 0;  // what goes, goes because of a put
  config.free_high_permille = 0;
  std::vector<std::byte> arena(kObjects * kObjectBytes);
  auto made = store::Store::create(config, arena);
  if (!made) return fail(made.error().context.c_str());
  Traffic traffic(**made, kObjects + times);
  for (std::size_t i = 0; i < kObjects; ++i) {
    if (!traffic.put(i)) return fail("a put failed before the store was full");
  }
  base::SeededRandom random(1);
  for (std::size_t i = 0; i < kWarmUpCalls; ++i) {
    if (!traffic.get(random.below(kObjects))) return fail("a get failed");
  }
  std::vector<std::uint32_t> names;
  for (std::size_t i = 0; i < times; ++i) {
    names.push_back(static_cast<std::uint32_t>(puts ? kObjects + i : random.below(kObjects)));
  }
  return measured_call(traffic, names, puts) ? 0 : fail("a measured call failed");
}
