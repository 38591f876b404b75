// The two hashes of SiMM. KeyHasher: 128-bit keyed hash of names: XXH3-128 under a 192-byte secret
// expanded from a cluster seed, so a client can not search for collisions offline. The store keeps
// and compares full keys besides. PayloadDigest: xxh3-64 of object payloads, streamed or at once.
// The library picks the widest vector unit at run time (x86); the values are the same everywhere.
// Thread: any for the const functions; a PayloadDigest belongs to one thread.
#pragma once

#include <xxhash.h>
#if defined(__x86_64__)
#include <xxh_x86dispatch.h>
#endif

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "daemon/base/key_hash.h"
#include "daemon/base/random.h"
#include "simm/check.h"

namespace simm::base {

class KeyHasher {
public:
  // Daemons of one cluster share the seed: the hash decides placement.
  explicit KeyHasher(std::uint64_t seed) noexcept {
    for (std::size_t at = 0; at < secret_.size(); at += sizeof(std::uint64_t)) {
      std::uint64_t word = splitmix64(seed);
      for (std::size_t i = 0; i < sizeof word; ++i, word >>= 8) {
        secret_[at + i] = static_cast<unsigned char>(word & 0xff);
      }
    }
  }

  [[nodiscard]] KeyHash operator()(const void* bytes, std::size_t length) const noexcept {
    const XXH128_hash_t hash =
        XXH3_128bits_withSecret(bytes, length, secret_.data(), secret_.size());
    return {hash.low64, hash.high64};
  }
  [[nodiscard]] KeyHash operator()(std::string_view bytes) const noexcept {
    return (*this)(bytes.data(), bytes.size());
  }

private:
  std::array<unsigned char, 192> secret_;
};

// The digest of a whole payload.
[[nodiscard]] inline std::uint64_t payload_digest(const void* bytes, std::size_t length) noexcept {
  return XXH3_64bits(bytes, length);
}

// Another digest for each seed; of seed 0, the one above.
[[nodiscard]] inline std::uint64_t seeded_digest(const void* bytes, std::size_t length,
                                                 std::uint64_t seed) noexcept {
  return XXH3_64bits_withSeed(bytes, length, seed);
}

// The digest of a whole payload, of one that arrives in pieces. Reusable: begin() starts over. Its
// state (576 bytes, aligned) is allocated when the digest is made, so keep digests in pools.
class PayloadDigest {
public:
  PayloadDigest() : state_(XXH3_createState()) { begin(); }

  void begin() noexcept { SIMM_CHECK(XXH3_64bits_reset(state_.get()) == XXH_OK); }
  void add(const void* bytes, std::size_t length) noexcept {
    SIMM_CHECK(XXH3_64bits_update(state_.get(), bytes, length) == XXH_OK);
  }
  [[nodiscard]] std::uint64_t value() const noexcept { return XXH3_64bits_digest(state_.get()); }

private:
  struct FreeState {
    void operator()(XXH3_state_t* state) const noexcept { XXH3_freeState(state); }
  };
  std::unique_ptr<XXH3_state_t, FreeState> state_;
};

}  // namespace simm::base
