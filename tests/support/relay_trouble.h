// RelayTrouble: what is wrong with one direction of a NetworkRelay's connections.
#pragma once

#include <chrono>
#include <cstdint>

namespace simm::test_support {

struct RelayTrouble {
  std::chrono::milliseconds delay{0};
  std::uint64_t bytes_per_s = 0;  // 0: as fast as it goes
  // Nothing goes on. What comes waits, and goes on when this has ended: as with packets that were
  // lost and are sent again.
  bool holds = false;
  // What comes is gone. A connection that has lost bytes passes none in this direction ever after.
  bool swallows = false;
  // A byte stream is damaged about every so many bytes: a bit is turned, some bytes are missing, or
  // the stream ends there. 0: never.
  std::uint64_t damage_every_bytes = 0;
  // Behind the first roster of a connection comes another one, made of it by somebody on the way:
  // that requester's last word, by which it uses this link alone.
  bool forges_rosters = false;
};

}  // namespace simm::test_support
