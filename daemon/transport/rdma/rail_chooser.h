// RailChooser: over which rails a request goes, and how it is shared out over them.
//
// A request goes over rails whose NICs know its memory, of those over the ones on the memory's NUMA
// node, and of those over the ones with the least to do. The pages of a long request are shared out
// over all rails of that class, by their speed and by what is out on them already; above
// stripe_bytes_min a page is cut (rdma_stripes.h).
// Owned by a RdmaRequester. Thread: its data agent. No allocation.
#pragma once

#include <array>
#include <cstdint>

#include "daemon/transport/rdma/rdma_batch.h"
#include "daemon/transport/rdma/rdma_link_set.h"
#include "daemon/transport/rdma/rdma_requester_link.h"

namespace simm::transport {

class RailChooser {
public:
  // How well a rail can move some memory. Another class is no use while a better one has links.
  enum class Fitness : std::uint8_t {
    near,          // its NIC knows the memory, and is on the memory's node
    far,           // ... and is on another one
    near_unknown,  // its NIC does not know the memory yet
    far_unknown,   // nor does that, or it never will
  };
  // Of each rail of one class the link that has least to do, of those that lead to a route and have
  // credit.
  struct Choice {
    std::array<RdmaRequesterLink*, kRailsMax> links{};
    std::size_t count = 0;
    std::uint32_t credits = 0;  // that are free, of all links of the route
    bool is_reachable = false;
    Fitness fitness = Fitness::far_unknown;
  };

  // All outlive the chooser.
  RailChooser(const RdmaRequesterConfig& config, const MemoryKeys& keys,
              const RdmaLinkSet<RdmaRequesterLink>& links) noexcept
      : config_(config), keys_(keys), links_(links) {}

  [[nodiscard]] bool is_reachable(Route route) const noexcept;
  // `slice`: of the first page; the others lie beside it, as a rule.
  [[nodiscard]] Choice choose(Route route, const memory::Slice& slice) const noexcept;
  // Makes the parts of the batch. Where long pages are to be cut, the choice is left with the links
  // whose rails can.
  void share_out(RdmaBatch& batch, Choice& choice) noexcept;
  // What is said of a part of a striped batch.
  [[nodiscard]] static wire::StripeBody stripe_of(const RdmaBatch& batch,
                                                  std::uint8_t part) noexcept;

private:
  [[nodiscard]] Fitness fitness_of(const RdmaRequesterLink& link,
                                   const memory::Slice& slice) const noexcept;
  [[nodiscard]] bool choose_stripes(const RdmaBatch& batch, Choice& choice) const noexcept;
  [[nodiscard]] std::uint64_t weight_of(const RdmaRequesterLink& link) const noexcept;
  void make_parts(RdmaBatch& batch, const Choice& choice) const noexcept;
  static void add_slice(RdmaBatch& batch, std::uint8_t part, std::uint16_t page,
                        std::uint64_t offset, std::uint64_t bytes) noexcept;

  const RdmaRequesterConfig& config_;
  const MemoryKeys& keys_;
  const RdmaLinkSet<RdmaRequesterLink>& links_;
  std::uint64_t stripe_numbers_ = 0;  // of striped requests so far
};

}  // namespace simm::transport
