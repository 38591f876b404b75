#include "libclient/lane.h"

#include <utility>

namespace simm::detail {

void Lane::bind(std::shared_ptr<Session> to) {
  unbind();
  session = std::move(to);
  ring.emplace(session->lane(index_));
  wait = ipc::WaitStrategy(wait_mode_);
  progress_seen = session->words().progress();
}

void Lane::unbind() noexcept {
  ring.reset();
  staging = Staging();
  staging_request.reset();
  session.reset();
  in_flight.fill(InFlight{});
  nobody = BatchRun{};
  head = tail = 0;
  silence_ends_ns = 0;
  pages.clear();
  keys.clear();
}

bool Lane::has_calls() noexcept {
  for (std::uint32_t sequence = head; sequence != tail; ++sequence) {
    const BatchRun* const run = entry(sequence).run;
    if (run != nullptr && run != &nobody) return true;
  }
  return false;
}

void Lane::reclaim() noexcept {
  while (head != tail && entry(head).run == nullptr) {
    const InFlight& oldest = entry(head);
    if (oldest.page_count != 0) {
      pages.free_to(oldest.pages_mark);
      keys.free_to(oldest.keys_mark);
      if (oldest.staging_mark != RangeRing::kNone) staging.free_to(oldest.staging_mark);
    }
    ++head;
  }
}

}  // namespace simm::detail
