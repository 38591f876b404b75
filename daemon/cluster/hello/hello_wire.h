// The hello on the wire: five messages of fixed size, little-endian, tables and reasons in
// HELLO.md.
//
//   dialer                                acceptor
//     Hello      (identity, nonce) ---->
//                                  <----  Challenge (nonce)              or Refusal
//     Proof      (MAC)             ---->
//                                  <----  Verdict (identity, MAC)        or Refusal
//     Path       (long)            ---->
//                                  <----  Path (long)
//
// Reserved fields are zero, and a message in which one is not is garbage. Thread: any.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "daemon/cluster/hello/secret.h"

namespace simm::cluster {

static_assert(std::endian::native == std::endian::little, "the wire is little-endian");

inline constexpr std::uint64_t kHelloMagic = 0x4f4c48434d4d4953;  // "SIMMCHLO"
inline constexpr std::size_t kNonceBytes = 32;
inline constexpr std::size_t kNameBytesMax = 64;
using Nonce = std::array<std::byte, kNonceBytes>;
using WireName = std::array<char, kNameBytesMax>;  // the rest is zero

enum class HelloType : std::uint16_t { hello = 1, challenge, proof, verdict, refusal, path };

struct HelloHeader {
  std::uint64_t magic;
  std::uint16_t type;
  std::uint16_t reserved;
  std::uint32_t bytes;  // of the whole message; has one right value for each type
};
static_assert(sizeof(HelloHeader) == 16);

struct WireIncarnation {
  std::uint64_t high;
  std::uint64_t low;
};

struct HelloMessage {
  HelloHeader header;
  std::uint16_t version_min;  // what the dialer speaks; the acceptor chooses
  std::uint16_t version_max;
  std::uint8_t role;
  std::uint8_t purpose;
  std::uint8_t has_secret;
  std::uint8_t reserved0;
  std::uint64_t features;  // offered
  Nonce nonce;
  WireIncarnation incarnation;  // the dialer's
  WireIncarnation target;       // whom it means to reach; zero: whoever answers (control only)
  std::uint64_t link;           // the dialer's number of this connection (data only)
  std::uint16_t shard;          // data only
  std::uint16_t reserved1;
  std::uint32_t reserved2;
  WireName cluster;
  WireName name;  // the dialer's
};
static_assert(offsetof(HelloMessage, version_min) == 16 && offsetof(HelloMessage, role) == 20);
static_assert(offsetof(HelloMessage, purpose) == 21 && offsetof(HelloMessage, has_secret) == 22);
static_assert(offsetof(HelloMessage, features) == 24 && offsetof(HelloMessage, nonce) == 32);
static_assert(offsetof(HelloMessage, incarnation) == 64 && offsetof(HelloMessage, target) == 80);
static_assert(offsetof(HelloMessage, link) == 96 && offsetof(HelloMessage, shard) == 104);
static_assert(offsetof(HelloMessage, cluster) == 112 && offsetof(HelloMessage, name) == 176);
static_assert(sizeof(HelloMessage) == 240);

struct ChallengeMessage {
  HelloHeader header;
  std::uint16_t version;  // chosen
  std::uint16_t reserved0;
  std::uint32_t reserved1;
  std::uint64_t features;  // those of the offered ones that the acceptor knows as well
  Nonce nonce;
};
static_assert(offsetof(ChallengeMessage, version) == 16);
static_assert(offsetof(ChallengeMessage, features) == 24);
static_assert(offsetof(ChallengeMessage, nonce) == 32 && sizeof(ChallengeMessage) == 64);

struct ProofMessage {
  HelloHeader header;
  std::uint64_t fingerprint;  // of the hash seed
  Mac mac;                    // over everything before it
};
static_assert(offsetof(ProofMessage, fingerprint) == 16);
static_assert(offsetof(ProofMessage, mac) == 24 && sizeof(ProofMessage) == 56);

struct VerdictMessage {
  HelloHeader header;
  std::uint32_t refusal;  // HelloRefusal; 0: welcome
  std::uint8_t role;
  std::uint8_t reserved[3];
  WireIncarnation incarnation;  // the acceptor's
  WireName name;                // the acceptor's
  Mac mac;                      // over everything before it
};
static_assert(offsetof(VerdictMessage, refusal) == 16 && offsetof(VerdictMessage, role) == 20);
static_assert(offsetof(VerdictMessage, incarnation) == 24 && offsetof(VerdictMessage, name) == 40);
static_assert(offsetof(VerdictMessage, mac) == 104 && sizeof(VerdictMessage) == 136);

// To a dialer that has not proved itself (yet): a hint for a person, which proves nothing.
struct RefusalMessage {
  HelloHeader header;
  std::uint32_t refusal;
  std::uint16_t version_min;  // what the acceptor speaks
  std::uint16_t version_max;
};
static_assert(offsetof(RefusalMessage, refusal) == 16 && sizeof(RefusalMessage) == 24);

// A header and zeros. The message needs packets as long as the path's, also where those are jumbo
// frames (9,216 bytes). It still fits into the first ten packets of a connection.
inline constexpr std::size_t kPathMessageBytes = 12 * 1024;

// Of those that are kept whole, so not of the zeros.
inline constexpr std::size_t kHelloMessageBytesMax = sizeof(HelloMessage);

// What is compared, hashed and sent is every byte: none of them may be padding.
static_assert(std::has_unique_object_representations_v<HelloMessage> &&
              std::has_unique_object_representations_v<ChallengeMessage> &&
              std::has_unique_object_representations_v<ProofMessage> &&
              std::has_unique_object_representations_v<VerdictMessage> &&
              std::has_unique_object_representations_v<RefusalMessage>);

// The one right size of a message, 0 for a type that does not exist.
inline constexpr std::size_t hello_bytes_of(HelloType type) noexcept {
  switch (type) {
    case HelloType::hello:
      return sizeof(HelloMessage);
    case HelloType::challenge:
      return sizeof(ChallengeMessage);
    case HelloType::proof:
      return sizeof(ProofMessage);
    case HelloType::verdict:
      return sizeof(VerdictMessage);
    case HelloType::refusal:
      return sizeof(RefusalMessage);
    case HelloType::path:
      return kPathMessageBytes;
  }
  return 0;
}

template <typename Message>
Message make_hello_message(HelloType type) noexcept {
  Message message{};
  message.header = {kHelloMagic, static_cast<std::uint16_t>(type), 0,
                    static_cast<std::uint32_t>(sizeof(Message))};
  return message;
}

}  // namespace simm::cluster
