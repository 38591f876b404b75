// A store over a metadata table of any bytes. The first byte of the input chooses: the header is
// the input's (1), else it is right; the records are the input's (2), else they are described by
// it, sealed, and nearly right. Whatever comes: the books are right, what is there can be read, the
// store can be used, and is found again.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/hash.h"
#include "daemon/store/store.h"
#include "simm/check.h"

namespace {

using namespace simm;
using namespace simm::store;

constexpr std::uint32_t kObjects = 12;
constexpr std::uint64_t kArenaBytes = 16 * 1024;
constexpr std::uint64_t kRecordsAt = 4096;
constexpr base::TimeNs kNow = 1000 * base::kNsPerSecond;

struct World {
  World() {
    config.objects_max = kObjects;
    config.eviction = EvictionKind::lru;  // made faster
    table.resize(Store::table_bytes_for(config, kArenaBytes) + kRecordsAt);
    payload.resize(kArenaBytes);
  }
  // The records begin on a page.
  [[nodiscard]] std::span<std::byte> table_bytes() {
    const std::size_t past = reinterpret_cast<std::uintptr_t>(table.data()) % kRecordsAt;
    return std::span(table).subspan(kRecordsAt - past, table.size() - kRecordsAt);
  }
  [[nodiscard]] Record& record(std::uint32_t number) {
    return *reinterpret_cast<Record*>(table_bytes().data() + kRecordsAt + number * sizeof(Record));
  }
  [[nodiscard]] std::unique_ptr<Store> open(Contents contents) {
    const ShardMemory memory{payload, table_bytes(), contents, 1, kNow};
    auto made = Store::create(config, memory);
    SIMM_CHECK(made.has_value());
    SIMM_CHECK((*made)->audit() == nullptr);
    return std::move(*made);
  }

  StoreConfig config;
  std::vector<std::byte> table;
  std::vector<std::byte> payload;
};

// A record that a store could have written, or nearly: eight bytes say in what it differs from the
// others, and which bit of it is flipped.
void describe(World& world, std::uint32_t number, std::span<const std::uint8_t> by) {
  Record& record = world.record(number);
  record.hash.low = by[0] % 4;
  record.tenant.value = by[0] / 4 % 4;
  record.key_bytes = by[1];
  record.long_key = (by[1] > kInlineKeyBytes) != (by[2] % 16 == 1) ? by[2] / 16u : 0;
  record.length = by[3] * 33u;
  record.generation = by[4];
  record.epoch = 1;
  record.expires_ns = by[5] % 4 == 0 ? kNow + by[5] - 8u : 0;
  const std::size_t key_bytes = std::min<std::size_t>(record.key_bytes, kInlineKeyBytes);
  if (record.long_key == 0) {
    record.key_check = key_check_of({record.key_inline, key_bytes});
  } else {
    const std::string zeros(record.key_bytes, '\0');
    record.key_check = key_check_of(zeros);
  }
  record.place = place_at(record, by[6] * ExtentAllocator::kGranuleBytes);
  seal(record);
  if (by[7] >= 128) return;
  reinterpret_cast<unsigned char*>(&record)[by[7] * 2u] ^= 1;
}

ObjectKey key_of(const Record& record) {
  return {record.hash,
          record.group_hash,
          record.tenant,
          record.name_space,
          {record.key_inline, record.key_bytes}};
}

void use(World& world, Store& store) {
  for (std::uint32_t n = 1; n <= kObjects; ++n) {
    const Record copy = world.record(n);
    if (copy.seal == 0 || copy.key_bytes > kInlineKeyBytes) continue;
    ReadPin pin;
    if (store.begin_read(key_of(copy), 0, kNow, pin) != Status::ok) continue;
    SIMM_CHECK(pin.unverified);
    SIMM_CHECK(pin.bytes.data() >= world.payload.data());
    SIMM_CHECK(pin.bytes.data() + pin.bytes.size() <= world.payload.data() + world.payload.size());
    if (base::payload_digest(pin.bytes.data(), pin.bytes.size()) == pin.digest) {
      store.note_verified(pin);
    } else {
      store.quarantine(pin, kNow);
    }
    store.end_read(pin);
  }
  const base::KeyHasher hasher(1);
  for (int i = 0; i < 20; ++i) {
    const std::string name = std::string(i % 3 == 0 ? 130 : 3, 'p') + std::to_string(i);
    const base::KeyHash hash = hasher(name);
    const ObjectKey key{hash, hash.high, {static_cast<std::uint64_t>(i % 2)}, {}, name};
    const WriteResult begun = store.begin_write({key, 1500, ipc::PutMode::replace, 0}, kNow);
    if (begun.start != WriteStart::reserved) continue;
    std::memset(begun.reservation.extent.data(), i, begun.reservation.extent.size());
    store.publish(begun.reservation, 1, 1, kNow);
  }
  SIMM_CHECK(store.audit() == nullptr);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World world;
  if (size == 0) return 0;
  const std::uint8_t choice = data[0];
  std::span<const std::uint8_t> input(data + 1, size - 1);
  std::fill(world.table.begin(), world.table.end(), std::byte{0});
  static_cast<void>(world.open(Contents::fresh));
  auto& header = *reinterpret_cast<MetaTable::Header*>(world.table_bytes().data());
  if ((choice & 1) != 0) {
    const std::size_t given = std::min(input.size(), sizeof header);
    if (given > 0) std::memcpy(&header, input.data(), given);
    input = input.subspan(given);
  } else {
    const std::uint32_t highest = kObjects;
    header.highest = std::uint64_t{base::crc32c(&highest, sizeof highest)} << 32 | highest;
  }
  if ((choice & 2) != 0) {
    const std::span<std::byte> records = world.table_bytes().subspan(kRecordsAt);
    const std::size_t given = std::min(input.size(), records.size());
    if (given > 0) std::memcpy(records.data(), input.data(), given);
  } else {
    for (std::uint32_t n = 1; n <= kObjects && input.size() >= 8; ++n, input = input.subspan(8)) {
      describe(world, n, input.first(8));
    }
  }
  {
    const std::unique_ptr<Store> store = world.open(Contents::kept);
    use(world, *store);
    const std::uint64_t objects = store->stats().objects;
    SIMM_CHECK(world.open(Contents::kept)->stats().recovered == objects);
  }
  return 0;
}
