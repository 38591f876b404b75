#include "daemon/store/pool/pool_header.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "daemon/base/hash.h"
#include "daemon/store/pool/meta_table.h"

namespace simm::store {
namespace {

constexpr std::uint64_t kPoolMagic = 0x6c6f6f706d6d6973;  // "simmpool", little-endian
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kLivesAt = 1024;
constexpr std::size_t kLifeStride = 1024;

struct ShapeBytes {
  std::uint64_t magic;
  std::uint32_t version;       // of this page
  std::uint32_t table_format;  // of the metadata tables
  std::uint64_t payload_bytes;
  std::uint64_t table_bytes;
  std::uint64_t shards;
  std::uint64_t hash_seed;
  std::uint64_t boot;
  std::uint64_t payload_file;
  std::array<char, kPoolOwnerBytesMax + 1> owner;
  std::uint64_t digest;  // xxh3-64 of what stands before it
};
static_assert(offsetof(ShapeBytes, owner) == 64 && offsetof(ShapeBytes, digest) == 288);
static_assert(sizeof(ShapeBytes) == 296 && sizeof(ShapeBytes) <= kLivesAt);

struct LifeBytes {
  std::uint64_t sequence;
  std::uint64_t incarnation_high;
  std::uint64_t incarnation_low;
  std::uint64_t epoch;
  std::uint64_t lives;
  std::uint32_t is_running;
  std::uint32_t is_discarded;
  std::uint64_t digest;  // xxh3-64 of what stands before it
};
static_assert(offsetof(LifeBytes, digest) == 48 && sizeof(LifeBytes) == 56);

struct LineageBytes {
  std::uint64_t sequence;  // of its life
  std::uint64_t high;
  std::uint64_t low;
  std::uint64_t digest;  // xxh3-64 of what stands before it
};
static_assert(offsetof(LineageBytes, digest) == 24 && sizeof(LineageBytes) == 32);
static_assert(sizeof(LifeBytes) + sizeof(LineageBytes) <= kLifeStride);

template <typename Bytes>
std::uint64_t digest_of(const Bytes& bytes) {
  return base::payload_digest(&bytes, offsetof(Bytes, digest));
}

// SAFETY: both lives lie inside the page: kLivesAt + 2 * kLifeStride <= kPoolHeaderBytes.
std::byte* life_at(std::byte* page, std::uint64_t sequence) {
  return page + kLivesAt + sequence % 2 * kLifeStride;
}

// Zeros: unknown.
LineageBytes lineage_of(std::byte* page, std::uint64_t sequence) {
  LineageBytes lineage;
  std::memcpy(&lineage, life_at(page, sequence) + sizeof(LifeBytes), sizeof lineage);
  const bool is_whole = lineage.sequence == sequence && lineage.digest == digest_of(lineage);
  return is_whole ? lineage : LineageBytes{};
}

std::optional<LifeBytes> newest_life(std::byte* page) {
  std::optional<LifeBytes> newest;
  for (const std::uint64_t which : {0U, 1U}) {
    LifeBytes life;
    std::memcpy(&life, life_at(page, which), sizeof life);
    if (life.digest != digest_of(life) || life.sequence == 0 || life.sequence % 2 != which) {
      continue;
    }
    if (!newest || life.sequence > newest->sequence) newest = life;
  }
  return newest;
}

std::string owner_text(const ShapeBytes& shape) {
  return {shape.owner.data(), ::strnlen(shape.owner.data(), shape.owner.size())};
}

Error differs(const char* field, const std::string& found, const std::string& expected) {
  return {Status::incompatible, std::string(field) + ": found " + found + ", expected " + expected};
}

}  // namespace

void PoolHeader::begin(const PoolShape& shape, const PoolLife& life) noexcept {
  std::memset(page_, 0, kPoolHeaderBytes);
  write(life);
  ShapeBytes bytes{};
  bytes.magic = kPoolMagic;
  bytes.version = kVersion;
  bytes.table_format = MetaTable::kFormat;
  bytes.payload_bytes = shape.payload_bytes;
  bytes.table_bytes = shape.table_bytes;
  bytes.shards = shape.shards;
  bytes.hash_seed = shape.hash_seed;
  bytes.boot = shape.boot;
  bytes.payload_file = shape.payload_file;
  const std::size_t owner = std::min(shape.owner.size(), kPoolOwnerBytesMax);
  std::memcpy(bytes.owner.data(), shape.owner.data(), owner);
  bytes.digest = digest_of(bytes);
  std::memcpy(page_, &bytes, sizeof bytes);
}

void PoolHeader::write(const PoolLife& life) noexcept {
  const std::optional<LifeBytes> before = newest_life(page_);
  LifeBytes bytes{};
  bytes.sequence = before ? before->sequence + 1 : 1;
  bytes.incarnation_high = life.incarnation_high;
  bytes.incarnation_low = life.incarnation_low;
  bytes.epoch = life.epoch;
  bytes.lives = life.lives;
  bytes.is_running = life.is_running ? 1 : 0;
  bytes.is_discarded = life.is_discarded ? 1 : 0;
  bytes.digest = digest_of(bytes);
  LineageBytes lineage{bytes.sequence, life.lineage_high, life.lineage_low, 0};
  lineage.digest = digest_of(lineage);
  std::byte* const at = life_at(page_, bytes.sequence);
  std::memcpy(at + sizeof bytes, &lineage, sizeof lineage);
  std::memcpy(at, &bytes, sizeof bytes);
}

Expected<PoolHeader::Kept> PoolHeader::check(const PoolShape& wanted) const {
  ShapeBytes found;
  std::memcpy(&found, page_, sizeof found);
  if (found.magic != kPoolMagic) {
    return Error{Status::incompatible, "no pool begins there"};
  }
  // Before the digest: in another version it may be somewhere else.
  if (found.version != kVersion) {
    return differs("version of the pool", std::to_string(found.version), std::to_string(kVersion));
  }
  if (found.digest != digest_of(found)) return Error{Status::corrupt, "the header is damaged"};
  struct Field {
    const char* name;
    std::uint64_t found;
    std::uint64_t expected;
  };
  const Field fields[] = {
      {"format of the metadata table", found.table_format, MetaTable::kFormat},
      {"shards (threading.data_agents)", found.shards, wanted.shards},
      {"bytes of a shard (node.pool_bytes)", found.payload_bytes, wanted.payload_bytes},
      {"bytes of a table (store.objects_max)", found.table_bytes, wanted.table_bytes},
      {"boot of the machine", found.boot, wanted.boot},
      {"file of the payloads", found.payload_file, wanted.payload_file},
  };
  for (const Field& field : fields) {
    if (field.found != field.expected) {
      return differs(field.name, std::to_string(field.found), std::to_string(field.expected));
    }
  }
  if (owner_text(found) != wanted.owner) return differs("owner", owner_text(found), wanted.owner);
  // Not their values: whoever knows the seed can make keys that collide.
  if (wanted.hash_seed != 0 && found.hash_seed != wanted.hash_seed) {
    return Error{Status::incompatible,
                 "hash seed: another one than the configuration, or the secret of the cluster, "
                 "gives now"};
  }
  const std::optional<LifeBytes> life = newest_life(page_);
  if (!life) return Error{Status::corrupt, "the header is damaged: it tells of no life"};
  if (life->is_discarded != 0) {
    return Error{Status::incompatible, "the daemon before this one has discarded its contents"};
  }
  Kept kept;
  kept.hash_seed = found.hash_seed;
  const LineageBytes lineage = lineage_of(page_, life->sequence);
  kept.life = {life->incarnation_high,
               life->incarnation_low,
               life->epoch,
               lineage.high,
               lineage.low,
               life->lives,
               life->is_running != 0,
               false};
  return kept;
}

}  // namespace simm::store
