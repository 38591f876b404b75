// TransportWorld: what an implementation of the Transport seam brings to the conformance suite: one
// engine's end, one server's end, a client region, and turns that the suite gives by hand. To have
// a transport tested, derive from it in a file here and register a factory with a static
// TransportRegistration.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/memory/region.h"
#include "daemon/transport/transport.h"

namespace conformance {

class TransportWorld {
public:
  virtual ~TransportWorld() = default;

  virtual simm::transport::Requester& requester() = 0;
  virtual simm::transport::Responder& responder() = 0;
  virtual simm::transport::Route route() = 0;              // to the server
  virtual simm::transport::Route unreachable_route() = 0;  // to nobody

  // The client's memory, at least kRegionBytes, mapped and writable.
  static constexpr std::uint64_t kRegionBytes = 48 * 1024 * 1024;
  virtual simm::memory::Region& region() = 0;

  // One turn of one end, or (the network) of what lies between them; what they did.
  virtual int requester_turn() = 0;
  virtual int responder_turn() = 0;
  virtual int network_turn() { return 0; }

  // By which both ends tell the time.
  virtual const simm::base::Clock& clock() = 0;

  // How many requests are accepted before the first is answered.
  virtual std::uint32_t credits() = 0;
  // True: a reset fences every request on the route. False: each request is a path of its own.
  virtual bool path_is_shared() = 0;
  // What a path had that broke is asked for over another one.
  virtual bool asks_again() { return false; }
  // Pages that are at most so long are copied by a CPU at the asking end: those of registered
  // memory that a device reaches can not fail.
  virtual std::uint64_t copied_page_bytes() { return kRegionBytes; }
  // From now on copies that touch [offset, offset + length) of the region fail.
  virtual void break_region(std::uint64_t offset, std::uint64_t length) = 0;
};

struct TransportFactory {
  std::string name;
  std::function<std::unique_ptr<TransportWorld>()> make;
};

// Where there is a transport of this name, it is tested alone.
inline constexpr const char* kVerbsTransport = "rdma_verbs";

// Every registered transport.
std::vector<TransportFactory>& transports();
// Those that are tested here.
std::vector<TransportFactory> chosen_transports();

struct TransportRegistration {
  TransportRegistration(std::string name, std::function<std::unique_ptr<TransportWorld>()> make) {
    transports().push_back({std::move(name), std::move(make)});
  }
};

}  // namespace conformance
