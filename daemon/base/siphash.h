// SipHash-1-3 of whole words (J.-P. Aumasson, D. J. Bernstein: "SipHash: a fast short-input PRF",
// 2012): a function of a secret key whose values nobody can guess who does not know the key. For
// tags of short messages, where HMAC would cost more than the message. SipHash-2-4 has a wider
// margin against attacks that need many guesses; here the first wrong guess is the last one.
// The words are taken as little-endian bytes. Pure, no allocation. Thread: any.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace simm::base {

struct SipKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

class SipHash {
public:
  // `words` are the whole message.
  [[nodiscard]] static std::uint64_t of(const SipKey& key,
                                        std::span<const std::uint64_t> words) noexcept {
    SipHash state(key);
    for (const std::uint64_t word : words) state.add(word);
    // The last word of the algorithm: the bytes that are left, here none, and the length modulo
    // 256.
    state.add(static_cast<std::uint64_t>(words.size_bytes()) << 56);
    state.c_ ^= 0xff;
    for (int i = 0; i < kLastRounds; ++i) state.round();
    return state.a_ ^ state.b_ ^ state.c_ ^ state.d_;
  }

private:
  static constexpr int kRounds = 1;
  static constexpr int kLastRounds = 3;

  explicit SipHash(const SipKey& key) noexcept
      : a_(key.low ^ 0x736f6d6570736575),
        b_(key.high ^ 0x646f72616e646f6d),
        c_(key.low ^ 0x6c7967656e657261),
        d_(key.high ^ 0x7465646279746573) {}

  void add(std::uint64_t word) noexcept {
    d_ ^= word;
    for (int i = 0; i < kRounds; ++i) round();
    a_ ^= word;
  }

  void round() noexcept {
    a_ += b_;
    c_ += d_;
    b_ = std::rotl(b_, 13) ^ a_;
    d_ = std::rotl(d_, 16) ^ c_;
    a_ = std::rotl(a_, 32);
    c_ += b_;
    a_ += d_;
    b_ = std::rotl(b_, 17) ^ c_;
    d_ = std::rotl(d_, 21) ^ a_;
    c_ = std::rotl(c_, 32);
  }

  std::uint64_t a_, b_, c_, d_;
};

}  // namespace simm::base
