// RawStream: what TCP alone does between two hosts: a server process in the one, and in this
// process some connections from the other, over which each call moves bytes one way and waits for
// the end. What the network benchmark compares with. Thread: the one that started it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "ipc/fd.h"
#include "simm/expected.h"

namespace simm::bench {

class RawStream {
public:
  struct End {
    std::string network;  // a path, as NetworkGuest takes them
    std::string address;  // IPv4
  };
  static Expected<RawStream> start(const End& server, const End& caller, std::size_t connections);
  RawStream(RawStream&& other) noexcept;
  RawStream& operator=(RawStream&&) = delete;
  ~RawStream();

  // An equal part on each connection; returns when the server has all and said so.
  Outcome put(std::uint64_t bytes) { return call(bytes, true); }
  // Returns when all has come.
  Outcome get(std::uint64_t bytes) { return call(bytes, false); }

private:
  RawStream(std::vector<ipc::UniqueFd> connections, pid_t server);
  Outcome call(std::uint64_t bytes, bool is_put);

  std::vector<ipc::UniqueFd> connections_;
  std::vector<std::byte> memory_;
  pid_t server_ = -1;
};

}  // namespace simm::bench
