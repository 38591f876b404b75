// Tags: only the next message of the right sender opens, over TCP and over RDMA.
#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <vector>

#include "daemon/transport/rdma/message_codec.h"
#include "daemon/transport/tcp/frame_codec.h"
#include "tests/support/link_keys.h"

namespace frame_seal_test {

using namespace simm::transport;
using Bytes = std::vector<std::byte>;

// The two transports, as far as seals go: each makes the same kind of message, and opens it.
struct Tcp {
  static Bytes make(FrameSeal& seal, std::byte body) {
    wire::FrameHeader header = frame_header(wire::FrameKind::roster, 0, 0);
    header.body_bytes = sizeof(wire::RosterBody);
    Bytes bytes(sizeof header + header.body_bytes, body);
    header.digest = seal.digest(bytes.data() + sizeof header, header.body_bytes);
    seal_header(header, seal, bytes.data());
    return bytes;
  }
  static bool opens(FrameSeal& seal, const Bytes& bytes) {
    wire::FrameHeader header;
    return open_header(bytes.data(), seal, header) &&
           header.digest == seal.digest(bytes.data() + sizeof header, header.body_bytes);
  }
};

struct Rdma {
  static Bytes make(FrameSeal& seal, std::byte body) {
    wire::Envelope envelope = make_envelope(wire::MessageKind::roster, 0, 0);
    envelope.body_bytes = envelope.part_bytes = sizeof(wire::RosterBody);
    Bytes bytes(sizeof envelope + envelope.part_bytes, body);
    seal_envelope(envelope, seal, bytes.data());
    return bytes;
  }
  static bool opens(FrameSeal& seal, const Bytes& bytes) {
    wire::Envelope envelope;
    return open_envelope(bytes, seal, envelope);
  }
};

const LinkKeys kRequester = support::requester_keys(1);
const LinkKeys kServer = support::server_keys(1);

TEST_CASE_TEMPLATE("seal: messages open in their order", Transport, Tcp, Rdma) {
  for (const bool has_key : {true, false}) {
    FrameSeal sends = has_key ? FrameSeal(kRequester.send) : FrameSeal();
    FrameSeal receives = has_key ? FrameSeal(kServer.receive) : FrameSeal();
    for (int i = 0; i < 100; ++i) {
      CHECK(Transport::opens(receives, Transport::make(sends, static_cast<std::byte>(i))));
    }
  }
}

TEST_CASE_TEMPLATE("seal: a message with any bit changed does not open", Transport, Tcp, Rdma) {
  FrameSeal sends(kRequester.send);
  const Bytes sent = Transport::make(sends, std::byte{7});
  for (std::size_t bit = 0; bit < sent.size() * 8; ++bit) {
    Bytes changed = sent;
    changed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    FrameSeal receives(kServer.receive);
    CHECK_FALSE(Transport::opens(receives, changed));
  }
}

TEST_CASE_TEMPLATE("seal: repeated, left out, moved and reflected messages do not open", Transport,
                   Tcp, Rdma) {
  FrameSeal sends(kRequester.send);
  const Bytes first = Transport::make(sends, std::byte{1});
  const Bytes second = Transport::make(sends, std::byte{2});
  {
    FrameSeal receives(kServer.receive);
    CHECK(Transport::opens(receives, first));
    CHECK_FALSE(Transport::opens(receives, first));
  }
  {
    FrameSeal receives(kServer.receive);
    CHECK_FALSE(Transport::opens(receives, second));
  }
  FrameSeal own(kRequester.receive);
  CHECK_FALSE(Transport::opens(own, first));
  FrameSeal of_another_link(support::server_keys(2).receive);
  CHECK_FALSE(Transport::opens(of_another_link, first));
}

TEST_CASE_TEMPLATE("seal: who does not know the key makes no message", Transport, Tcp, Rdma) {
  FrameSeal stranger;
  FrameSeal receives(kServer.receive);
  CHECK_FALSE(Transport::opens(receives, Transport::make(stranger, std::byte{1})));
  // And a daemon that expects no tags takes none: both ends agreed on that.
  FrameSeal sends(kRequester.send);
  FrameSeal plain;
  CHECK_FALSE(Transport::opens(plain, Transport::make(sends, std::byte{1})));
}

}  // namespace frame_seal_test
