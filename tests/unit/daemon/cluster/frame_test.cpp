#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>

#include "daemon/cluster/hello/frame_opener.h"
#include "daemon/cluster/hello/frame_sealer.h"

namespace frame_test {

using namespace simm;
using namespace simm::cluster;
using Bytes = std::vector<std::byte>;

Mac key_of(unsigned char letter) {
  Mac key;
  key.fill(std::byte{letter});
  return key;
}

Bytes text(const std::string& words) {
  const auto bytes = std::as_bytes(std::span(words));
  return {bytes.begin(), bytes.end()};
}

Bytes seal(FrameSealer& sealer, const Bytes& payload) {
  auto frame = sealer.seal(payload);
  REQUIRE(frame.has_value());
  return std::move(*frame);
}

// Feeds all of it, as far as it is taken; the messages that came out.
std::vector<Bytes> open(FrameOpener& opener, std::span<const std::byte> bytes,
                        std::size_t piece = 100) {
  std::vector<Bytes> messages;
  while (!bytes.empty() && opener.wanted() > 0) {
    const std::size_t now = std::min({piece, bytes.size(), opener.wanted()});
    if (opener.feed(bytes.first(now)) != Status::ok) return messages;
    bytes = bytes.subspan(now);
    if (auto message = opener.take()) messages.push_back(std::move(*message));
  }
  return messages;
}

bool is_broken(FrameOpener& opener) {
  return opener.wanted() == 0 && opener.feed({}) == Status::corrupt && !opener.take();
}

TEST_CASE("messages come out as they went in, in order, in pieces of any size") {
  for (const std::size_t piece : {1u, 3u, 16u, 1000u}) {
    FrameSealer sealer(key_of('k'));
    FrameOpener opener(key_of('k'));
    Bytes wire;
    std::vector<Bytes> sent;
    for (int i = 1; i < 40; ++i) {
      sent.push_back(text(std::string(static_cast<std::size_t>(i), static_cast<char>('a' + i))));
      const Bytes frame = seal(sealer, sent.back());
      wire.insert(wire.end(), frame.begin(), frame.end());
    }
    CHECK(open(opener, wire, piece) == sent);
    CHECK_FALSE(opener.take().has_value());
  }
}

TEST_CASE("whole frames are opened where they are, and parts of frames are left for feed()") {
  FrameSealer sealer(key_of('k'));
  FrameOpener opener(key_of('k'));
  Bytes wire;
  for (const char* const words : {"one", "two", "three", "four"}) {
    const Bytes frame = seal(sealer, text(words));
    wire.insert(wire.end(), frame.begin(), frame.end());
  }
  std::span<const std::byte> bytes(wire);
  const auto as_text = [](std::span<const std::byte> of) { return Bytes(of.begin(), of.end()); };
  CHECK(as_text(opener.open_in_place(bytes)) == text("one"));
  // A part of the second: nothing is taken, and feed() collects it.
  std::span<const std::byte> part = bytes.first(20);
  CHECK(opener.open_in_place(part).empty());
  CHECK(part.size() == 20);
  CHECK(open(opener, part).empty());
  std::span<const std::byte> rest = bytes.subspan(20);
  CHECK(opener.open_in_place(rest).empty());
  const std::size_t missing = opener.wanted();
  CHECK(open(opener, rest.first(missing)) == std::vector<Bytes>{text("two")});
  rest = rest.subspan(missing);
  CHECK(as_text(opener.open_in_place(rest)) == text("three"));
  CHECK(as_text(opener.open_in_place(rest)) == text("four"));
  CHECK(rest.empty());
}

TEST_CASE("a whole frame with any bit changed is the end, also in place") {
  FrameSealer sealer(key_of('k'));
  const Bytes frame = seal(sealer, text("message"));
  for (std::size_t bit = 0; bit < frame.size() * 8; ++bit) {
    Bytes changed = frame;
    changed[bit / 8] ^= std::byte{1} << (bit % 8);
    FrameOpener opener(key_of('k'));
    std::span<const std::byte> bytes(changed);
    CHECK(opener.open_in_place(bytes).empty());
    CHECK(bytes.size() == changed.size());
    CHECK(open(opener, bytes).empty());
    CHECK((is_broken(opener) || opener.wanted() > 0));
  }
  // Again after it was taken.
  FrameOpener opener(key_of('k'));
  std::span<const std::byte> bytes(frame);
  CHECK_FALSE(opener.open_in_place(bytes).empty());
  bytes = frame;
  CHECK(opener.open_in_place(bytes).empty());
  CHECK(open(opener, bytes).empty());
  CHECK(is_broken(opener));
}

TEST_CASE("a message has a size that fits") {
  FrameSealer sealer(key_of('k'));
  FrameOpener opener(key_of('k'));
  CHECK(sealer.seal({}).status() == Status::invalid_argument);
  CHECK(sealer.seal(Bytes(kFramePayloadBytesMax + 1)).status() == Status::invalid_argument);
  const Bytes largest(kFramePayloadBytesMax, std::byte{1});
  // Also the first with its number: what was refused used none.
  CHECK(open(opener, seal(sealer, largest), 65536) == std::vector<Bytes>{largest});
}

TEST_CASE("a frame with any bit changed is the end") {
  FrameSealer sealer(key_of('k'));
  const Bytes frame = seal(sealer, text("message"));
  for (std::size_t bit = 0; bit < frame.size() * 8; ++bit) {
    Bytes changed = frame;
    changed[bit / 8] ^= std::byte{1} << (bit % 8);
    FrameOpener opener(key_of('k'));
    CHECK(open(opener, changed).empty());
    // A length that grew within its bound waits for bytes that will not fit the tag either.
    CHECK((is_broken(opener) || opener.wanted() > 0));
    changed.resize(kFramePayloadBytesMax + kFrameOverheadBytes);
    FrameOpener patient(key_of('k'));
    CHECK(open(patient, changed, 65536).empty());
    CHECK(is_broken(patient));
  }
}

TEST_CASE("a frame that is cut at any byte gives no message, and what follows breaks") {
  FrameSealer sealer(key_of('k'));
  const Bytes first = seal(sealer, text("first"));
  const Bytes second = seal(sealer, text("second, and long enough to fill up the first"));
  for (std::size_t length = 1; length < first.size(); ++length) {
    FrameOpener opener(key_of('k'));
    CHECK(open(opener, std::span(first).first(length)).empty());
    CHECK(opener.wanted() > 0);
    CHECK(open(opener, second).empty());
    CHECK(is_broken(opener));
  }
}

TEST_CASE("frames that are repeated, left out, reordered or reflected are the end") {
  FrameSealer sealer(key_of('k'));
  const Bytes first = seal(sealer, text("first"));
  const Bytes second = seal(sealer, text("second"));
  const auto messages_of = [](std::initializer_list<Bytes> frames) {
    FrameOpener opener(key_of('k'));
    std::size_t messages = 0;
    for (const Bytes& frame : frames) messages += open(opener, frame).size();
    return std::pair(messages, is_broken(opener));
  };
  CHECK(messages_of({first, second}) == std::pair(std::size_t{2}, false));
  CHECK(messages_of({first, first}) == std::pair(std::size_t{1}, true));
  CHECK(messages_of({second}) == std::pair(std::size_t{0}, true));
  CHECK(messages_of({second, first}) == std::pair(std::size_t{0}, true));
  CHECK(messages_of({first, second, first}) == std::pair(std::size_t{2}, true));
  // Of another connection, or of the other direction of this one: another key.
  FrameSealer other(key_of('l'));
  CHECK(messages_of({seal(other, text("first"))}) == std::pair(std::size_t{0}, true));
}

TEST_CASE("the number is bound by the tag") {
  FrameSealer sealer(key_of('k'));
  FrameOpener opener(key_of('k'));
  const Bytes first = seal(sealer, text("pay 1"));
  CHECK(open(opener, first).size() == 1);
  Bytes renumbered = first;
  const std::uint64_t one = 1;
  std::memcpy(renumbered.data() + offsetof(FrameHeader, sequence), &one, sizeof(one));
  CHECK(open(opener, renumbered).empty());
  CHECK(is_broken(opener));
}

TEST_CASE("an absurd length is refused with the header, before memory is spent on it") {
  for (const std::uint32_t length : {0u, std::uint32_t{kFramePayloadBytesMax + 1}, ~0u}) {
    const FrameHeader header{kFrameMagic, length, 0};
    FrameOpener opener(key_of('k'));
    CHECK(opener.feed(std::as_bytes(std::span(&header, 1))) == Status::corrupt);
    CHECK(is_broken(opener));
  }
}

}  // namespace frame_test
