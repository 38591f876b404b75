// The hello and its frames. The first byte chooses: bytes from nowhere for one end, or an honest
// hello in which the input changes bytes. Whatever comes, both ends return and stay within their
// bounds; a hello that was changed is never completed by both.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/cluster/hello/frame_opener.h"
#include "daemon/cluster/hello/frame_sealer.h"
#include "daemon/cluster/hello/hello_acceptor.h"
#include "daemon/cluster/hello/hello_dialer.h"
#include "simm/check.h"

namespace {

using namespace simm;
using namespace simm::cluster;
using Input = std::span<const std::byte>;

HelloSelf self_of(const char* name, std::uint64_t number, ClusterRole role) {
  HelloSelf self;
  self.cluster = "fuzz";
  self.name = name;
  self.incarnation = {number, number};
  self.role = role;
  self.shards = 4;
  self.features = 3 | kFeaturePathProof;
  return self;
}

struct Hellos {
  ClusterSecret secret = ClusterSecret::from_text("0123456789abcdef0123456789abcdef").value();
  HelloSelf dialer_self = self_of("dialer", 1, ClusterRole::node);
  HelloSelf acceptor_self = self_of("acceptor", 2, ClusterRole::storage);
  base::SeededRandom random{1};
  HelloRequest request{HelloPurpose::data, {2, 2}, 1, 77};
  HelloDialer dialer{secret, dialer_self, request, random};
  HelloAcceptor acceptor{secret, acceptor_self, random};
};

void feed(HelloMachine& end, Input bytes) {
  while (!bytes.empty() && end.wanted() > 0) {
    SIMM_CHECK(end.wanted() <= kPathMessageBytes);
    const std::size_t now = std::min(bytes.size(), end.wanted());
    end.feed(bytes.first(now));
    bytes = bytes.subspan(now);
  }
}

std::vector<std::byte> take(HelloMachine& end) {
  std::vector<std::byte> bytes(end.outgoing().begin(), end.outgoing().end());
  end.sent(bytes.size());
  return bytes;
}

void fuzz_one_end(HelloMachine& end, Input input) {
  feed(end, input);
  SIMM_CHECK(end.state() != HelloMachine::State::done);
  SIMM_CHECK(!end.explanation().empty());
}

// Triples: message, offset, what to add to the byte there.
void fuzz_changed(Input input) {
  Hellos hellos;
  bool is_changed = false;
  for (std::size_t message = 0; message < 6; ++message) {
    HelloMachine& from = message % 2 == 0 ? static_cast<HelloMachine&>(hellos.dialer)
                                          : static_cast<HelloMachine&>(hellos.acceptor);
    HelloMachine& to = message % 2 == 0 ? static_cast<HelloMachine&>(hellos.acceptor)
                                        : static_cast<HelloMachine&>(hellos.dialer);
    std::vector<std::byte> bytes = take(from);
    const std::vector<std::byte> honest = bytes;
    for (Input rest = input; rest.size() >= 3 && !bytes.empty(); rest = rest.subspan(3)) {
      if (static_cast<std::size_t>(rest[0]) % 6 != message) continue;
      bytes[static_cast<std::size_t>(rest[1]) % bytes.size()] ^= rest[2];
    }
    is_changed = is_changed || bytes != honest;
    feed(to, bytes);
  }
  const bool both_done = hellos.dialer.state() == HelloMachine::State::done &&
                         hellos.acceptor.state() == HelloMachine::State::done;
  SIMM_CHECK(both_done != is_changed);
}

// Bytes, then an honest frame: only the honest one may come out, and only if nothing was before it.
void fuzz_frames(Input input) {
  const Mac key{};
  FrameSealer sealer(key);
  FrameOpener opener(key);
  const std::array<std::byte, 5> payload{};
  auto frame = sealer.seal(payload).value();
  std::vector<std::byte> wire(input.begin(), input.end());
  wire.insert(wire.end(), frame.begin(), frame.end());
  Input rest = wire;
  std::size_t messages = 0;
  while (!rest.empty() && opener.wanted() > 0) {
    SIMM_CHECK(opener.wanted() <= kFramePayloadBytesMax + kFrameOverheadBytes);
    const std::size_t now = std::min(rest.size(), opener.wanted());
    if (opener.feed(rest.first(now)) != Status::ok) break;
    rest = rest.subspan(now);
    if (opener.take()) ++messages;
  }
  const bool is_honest = std::equal(wire.begin(), wire.begin() + static_cast<long>(frame.size()),
                                    frame.begin(), frame.end());
  SIMM_CHECK(messages == (is_honest ? 1 : 0));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Input input = std::as_bytes(std::span(data, size)).subspan(1);
  switch (data[0] % 4) {
    case 0: {
      Hellos hellos;
      fuzz_one_end(hellos.dialer, input);
      break;
    }
    case 1: {
      Hellos hellos;
      fuzz_one_end(hellos.acceptor, input);
      break;
    }
    case 2:
      fuzz_changed(input);
      break;
    default:
      fuzz_frames(input);
  }
  return 0;
}
