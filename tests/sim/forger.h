// Forger: somebody on the way between a node and a server, who hears their frames and sends some of
// them again: over the same connection, or over another one that goes the same way. The forger has
// no key. Frames with payload are not among them: they have no tag, because who can send them can
// rewrite payload as well, and nothing is promised against that (daemon/SECURITY.md). Owned by the
// SocketNetwork. Thread: the one simulated thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "daemon/transport/tcp/wire.h"
#include "tests/sim/dice.h"

namespace simm::sim {

class Forger {
public:
  using Bytes = std::vector<std::byte>;

  // That end of that connection has sent these bytes. What is slipped in behind them: mostly
  // nothing.
  Bytes hear(std::uint64_t connection, std::size_t end, std::span<const std::byte> bytes,
             std::uint32_t per_mille, Dice& dice);
  void forget(std::uint64_t connection);

private:
  // How far the frames of one direction have come.
  struct Stream {
    std::array<std::byte, sizeof(transport::wire::FrameHeader)> header{};
    std::size_t header_bytes = 0;
    std::uint64_t body_left = 0;
    bool has_payload = false;  // since it was between frames at the beginning of a send
    [[nodiscard]] bool is_between_frames() const { return header_bytes == 0 && body_left == 0; }
  };
  static constexpr std::size_t kHeardMax = 8;

  static void follow(Stream& stream, std::span<const std::byte> bytes);

  std::map<std::pair<std::uint64_t, std::size_t>, Stream> streams_;
  std::array<std::vector<Bytes>, 2> heard_;  // whole frames, the last ones, by their sender's end
};

}  // namespace simm::sim
