#include "daemon/attach/region_release.h"

#include <utility>

namespace simm::control {

void RegionRelease::start(JobThread& thread, std::uint64_t tenant, Regions regions,
                          std::function<void()> when_gone) {
  std::make_shared<RegionRelease>(thread, tenant, std::move(regions), std::move(when_gone))
      ->submit();
}

void RegionRelease::submit() {
  thread_.submit_release([self = shared_from_this()] { self->step(); }, tenant_);
}

void RegionRelease::step() {
  while (!free_piece()) {
    // Of a thread that ends nobody wants anything any more.
    if (!thread_.is_stopping()) return submit();
  }
  when_gone_();
}

bool RegionRelease::free_piece() {
  std::uint64_t freed = 0;
  while (!regions_.empty()) {
    if (freed >= kReleasePieceBytes) return false;
    const std::uint64_t bytes = regions_.back()->unmap_piece(kReleasePieceBytes);
    freed += bytes;
    if (bytes == 0) regions_.pop_back();
  }
  return true;
}

}  // namespace simm::control
