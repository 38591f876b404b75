// Random: the only source of randomness in the daemon. Seam: SystemRandom asks the kernel, and
// SeededRandom (xoshiro256**, seeded by splitmix64; Blackman and Vigna, "Scrambled linear
// pseudorandom number generators") repeats itself from one seed, for tests and the simulation.
// Thread: the one that owns the object.
#pragma once

#include <sys/random.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "simm/check.h"

namespace simm::base {

class Random {
public:
  virtual ~Random() = default;

  virtual std::uint64_t next() noexcept = 0;

  // Uniform in [0, limit); limit > 0. Rejects the uneven tail, so there is no bias.
  std::uint64_t below(std::uint64_t limit) noexcept {
    SIMM_CHECK(limit > 0);
    const std::uint64_t uneven = (~std::uint64_t{0} - limit + 1) % limit;  // 2^64 mod limit
    std::uint64_t value = next();
    while (value < uneven) value = next();
    return value % limit;
  }

  // True once in `n` on average.
  bool one_in(std::uint64_t n) noexcept { return below(n) == 0; }
};

// One step of splitmix64: also a fine way to derive independent seeds from one.
inline std::uint64_t splitmix64(std::uint64_t& state) noexcept {
  state += 0x9e3779b97f4a7c15u;
  std::uint64_t mixed = state;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
  return mixed ^ (mixed >> 31);
}

class SeededRandom final : public Random {
public:
  explicit SeededRandom(std::uint64_t seed) noexcept {
    for (std::uint64_t& word : state_) word = splitmix64(seed);
  }

  std::uint64_t next() noexcept override {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

private:
  std::array<std::uint64_t, 4> state_;
};

// Unpredictable numbers from the kernel, 64 at a time: identities, secrets, seeds.
class SystemRandom final : public Random {
public:
  std::uint64_t next() noexcept override {
    if (used_ == pool_.size()) refill();
    return pool_[used_++];
  }

private:
  void refill() noexcept {
    // Up to 256 bytes are never interrupted once the kernel's generator is initialised.
    auto* bytes = reinterpret_cast<unsigned char*>(pool_.data());
    for (std::size_t filled = 0; filled < sizeof(pool_);) {
      const std::size_t ask = sizeof(pool_) - filled < 256 ? sizeof(pool_) - filled : 256;
      // SAFETY: filled < sizeof(pool_) by the loop's condition, and ask fits in what remains.
      const ssize_t got = ::getrandom(bytes + filled, ask, 0);
      if (got > 0) filled += static_cast<std::size_t>(got);
    }
    used_ = 0;
  }

  std::array<std::uint64_t, 64> pool_{};
  std::size_t used_ = 64;
};

}  // namespace simm::base
