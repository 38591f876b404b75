// The common half of the codecs: a packet of bytes to and from a Cap'n Proto message. It sets
// limits, and turns every exception of the library into an Error. For the .cpp files of codecs
// only.
// Thread: any.
#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "simm/expected.h"
#include "simm/status.h"

namespace simm::ipc::packet {

// Far more than any message needs and far less than an attack would like. Each pointer that is
// followed costs the size of its target, so a packet of self-overlapping pointers ends here.
inline constexpr std::uint64_t kTraversalWordsMax = 4 * 64 * 1024 / sizeof(capnp::word);
inline constexpr int kNestingMax = 8;

// Thrown inside a codec only, for a value that breaks a limit.
struct BadField {
  Error error;
};

[[noreturn]] inline void refuse(Status status, std::string context) {
  throw BadField{Error{status, std::move(context)}};
}

// Runs `body`, which may throw BadField and whatever Cap'n Proto throws, and returns its result.
template <typename Body>
auto guarded(Body body) -> Expected<decltype(body())> {
  try {
    return body();
  } catch (BadField& bad) {
    return std::move(bad.error);
  } catch (const kj::Exception& failure) {
    return Error{Status::invalid_argument,
                 std::string("malformed packet: ") + failure.getDescription().cStr()};
  } catch (const std::bad_alloc&) {
    return Error{Status::out_of_memory, "no memory for a control message"};
  }
}

// Cap'n Proto reads aligned words in place, so the packet is copied once into such words.
inline std::vector<capnp::word> words_of(std::span<const std::byte> packet, std::size_t bytes_max) {
  if (packet.empty() || packet.size() > bytes_max || packet.size() % sizeof(capnp::word) != 0) {
    refuse(Status::invalid_argument, "packet of " + std::to_string(packet.size()) + " bytes");
  }
  std::vector<capnp::word> words(packet.size() / sizeof(capnp::word));
  std::memcpy(words.data(), packet.data(), packet.size());
  return words;
}

inline capnp::ReaderOptions reader_limits() {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = kTraversalWordsMax;
  options.nestingLimit = kNestingMax;
  return options;
}

inline std::vector<std::byte> bytes_of(capnp::MessageBuilder& message, std::size_t bytes_max) {
  const kj::Array<capnp::word> words = capnp::messageToFlatArray(message);
  const auto bytes = words.asBytes();
  if (bytes.size() > bytes_max) {
    refuse(Status::invalid_argument, "message of " + std::to_string(bytes.size()) + " bytes");
  }
  std::vector<std::byte> packet(bytes.size());
  std::memcpy(packet.data(), bytes.begin(), bytes.size());
  return packet;
}

inline std::string_view checked(std::string_view field, std::string_view text, std::size_t most) {
  if (text.size() > most) {
    refuse(Status::invalid_argument, std::string(field) + " has " + std::to_string(text.size()) +
                                         " bytes, at most " + std::to_string(most) +
                                         " are allowed");
  }
  return text;
}

// A text of one line: control characters would let a client forge lines of a log.
inline std::string line_of(std::string_view field, capnp::Text::Reader text, std::size_t most) {
  const std::string_view view = checked(field, {text.begin(), text.size()}, most);
  for (const char c : view) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      refuse(Status::invalid_argument, std::string(field) + " contains a control character");
    }
  }
  return std::string(view);
}

// Texts of builders: sizes are in our own hands except where users choose names.
inline capnp::Text::Reader text_of(std::string_view field, const std::string& text,
                                   std::size_t most) {
  checked(field, text, most);
  return capnp::Text::Reader(text.c_str(), text.size());
}

// A status from the other side. A newer daemon may know more of them than we do.
inline Status status_of(std::int32_t value) {
  return is_known_status(value) ? static_cast<Status>(value) : Status::incompatible;
}

}  // namespace simm::ipc::packet
