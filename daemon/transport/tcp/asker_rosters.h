// AskerRosters: the newest LinkRoster of every asker that a server's shard has heard of. It
// outlives the links, because one that was given up may say its name only after its successors did.
//
// Its room is bounded. Who has no link here may be forgotten, the one who was silent longest first;
// note() says so, and then no link may be trusted that has not said yet whose it is.
// Owned by a TcpResponder. Thread: the data agent. No allocation after construction.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/transport/tcp/link_roster.h"

namespace simm::transport {

class AskerRosters {
public:
  // At most `links_max` links are open at one time.
  explicit AskerRosters(std::uint32_t links_max) : askers_(std::size_t{2} * links_max) {}

  // What an asker said. `is_first`: of that link, which counts for the asker until leave(). False:
  // somebody else had to be forgotten for it.
  [[nodiscard]] bool note(const LinkRoster& roster, bool is_first) noexcept;
  // A link of that asker has ended.
  void leave(std::uint64_t asker) noexcept;
  // That link of that asker, who is known, was given up.
  [[nodiscard]] bool leaves_out(std::uint64_t asker, std::uint64_t link) const noexcept;

private:
  struct Asker {
    LinkRoster newest;  // asker 0: free
    std::uint32_t links = 0;
    std::uint64_t noted = 0;  // greater: later
  };
  [[nodiscard]] const Asker* find(std::uint64_t asker) const noexcept;
  [[nodiscard]] Asker* find(std::uint64_t asker) noexcept;

  std::vector<Asker> askers_;
  std::uint64_t notes_ = 0;
};

}  // namespace simm::transport
