#include "tests/sim/wire_request.h"

namespace simm::sim {

WireRequestPtr WireRequest::of(transport::RequestToken token, const transport::Request& request,
                               base::TimeNs now_ns) {
  auto wire = std::make_shared<WireRequest>();
  wire->token = token;
  wire->header = request.header;
  const base::TimeNs deadline_ns = request.header.deadline_ns;
  wire->remaining_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
  wire->pages.assign(request.pages.begin(), request.pages.end());
  std::size_t key_bytes = 0;
  for (const transport::PageRequest& page : wire->pages) key_bytes += page.key_bytes;
  wire->keys.reserve(key_bytes);
  for (transport::PageRequest& page : wire->pages) {
    const std::size_t at = wire->keys.size();
    wire->keys.insert(wire->keys.end(), page.key, page.key + page.key_bytes);
    page.key = wire->keys.data() + at;  // SAFETY: reserved above, so it never moves
    // SAFETY: a slice lies inside its region: its factory proved it.
    wire->addresses.push_back(
        page.slice.region == nullptr ? nullptr : page.slice.region->base + page.slice.offset);
  }
  return wire;
}

}  // namespace simm::sim
