// Whoever sends frames again sends whole ones, which the same end of some connection has sent.
#include "tests/sim/forger.h"

#include <doctest/doctest.h>

#include <cstring>
#include <string>

namespace forger_test {

using namespace simm;
using namespace simm::sim;
using transport::wire::FrameHeader;
using transport::wire::FrameKind;

Forger::Bytes frame(std::uint32_t slot, std::uint32_t body_bytes,
                    FrameKind kind = FrameKind::request) {
  FrameHeader header{};
  header.kind = static_cast<std::uint8_t>(kind);
  header.magic = transport::wire::kMagic;
  header.slot = slot;
  header.body_bytes = body_bytes;
  Forger::Bytes bytes(sizeof header + body_bytes, std::byte{7});
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

TEST_CASE("a forger sends whole frames again, and only between frames") {
  Forger forger;
  Dice dice(1, 1);
  constexpr std::uint32_t kAlways = 1000;
  const Forger::Bytes first = frame(1, 10);
  CHECK(forger.hear(1, 0, first, 0, dice).empty());
  const Forger::Bytes second = frame(2, 0);
  const auto begin = std::span(second).first(20);
  CHECK(forger.hear(1, 0, begin, kAlways, dice).empty());
  // Its end is no whole frame by itself: what was heard before is sent again.
  CHECK(forger.hear(1, 0, std::span(second).subspan(20), kAlways, dice) == first);
  // Over another connection, but not the other way.
  CHECK(forger.hear(2, 1, begin, kAlways, dice).empty());
  CHECK(forger.hear(2, 1, std::span(second).subspan(20), kAlways, dice).empty());
  CHECK(forger.hear(3, 0, begin, kAlways, dice).empty());
  CHECK(forger.hear(3, 0, std::span(second).subspan(20), kAlways, dice) == first);
}

TEST_CASE("a forger sends no payload again, for nothing is promised against that") {
  Forger forger;
  Dice dice(1, 1);
  constexpr std::uint32_t kAlways = 1000;
  const Forger::Bytes data = frame(1, 10, FrameKind::data);
  CHECK(forger.hear(1, 0, data, kAlways, dice).empty());
  Forger::Bytes both = frame(1, 0, FrameKind::cancel);
  both.insert(both.end(), data.begin(), data.end());
  CHECK(forger.hear(1, 0, both, kAlways, dice).empty());
  const Forger::Bytes cancel = frame(2, 0, FrameKind::cancel);
  CHECK(forger.hear(1, 0, cancel, kAlways, dice) == cancel);
}

}  // namespace forger_test
