// RelayedStream: one direction of a relayed connection: what came from one socket and goes to the
// other one, late, slowly, damaged or not at all. No thread and no clock of its own.
// Thread: the relay's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <vector>

#include "tests/support/relay_trouble.h"

namespace simm::test_support {

class RelayedStream {
public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::size_t kHeldBytesMax = 1 << 20;

  explicit RelayedStream(std::uint64_t seed) : random_(seed) {}

  // Reads what `socket` has, once. False: nothing more comes from it.
  bool take(int socket, const RelayTrouble& trouble, Time now);
  // Writes to `socket` what is due. False: it takes nothing any more.
  bool give(int socket, Time now);

  [[nodiscard]] bool wants(const RelayTrouble& trouble) const {
    return !trouble.holds && held_bytes_ < kHeldBytesMax;
  }
  // Something may be given now, or else then: Time::max() when there is nothing.
  [[nodiscard]] Time due() const { return held_.empty() ? Time::max() : held_.front().due; }
  [[nodiscard]] bool is_empty() const { return held_.empty(); }
  // The damage was the end of the stream.
  [[nodiscard]] bool is_cut_short() const { return is_cut_short_; }

  [[nodiscard]] std::uint64_t held_bytes() const { return held_bytes_; }
  [[nodiscard]] std::uint64_t given_bytes() const { return given_bytes_; }
  [[nodiscard]] std::uint64_t damages() const { return damages_; }

private:
  struct Chunk {
    Time due;
    std::vector<std::byte> bytes;
  };
  void damage(std::vector<std::byte>& bytes, std::uint64_t every_bytes);
  void forge_roster(std::vector<std::byte>& bytes);

  std::mt19937_64 random_;
  std::deque<Chunk> held_;
  std::size_t held_bytes_ = 0;
  std::size_t first_given_bytes_ = 0;  // of the first chunk
  Time free_{};                        // when the line has sent what it was given before
  std::uint64_t until_damage_ = 0;     // bytes; 0: not drawn yet
  std::uint64_t given_bytes_ = 0;
  std::uint64_t damages_ = 0;
  bool has_lost_ = false;
  bool has_forged_ = false;
  bool is_cut_short_ = false;
};

}  // namespace simm::test_support
