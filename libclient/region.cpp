#include "simm/region.h"

#include <utility>

#include "libclient/core.h"
#include "libclient/last_error.h"
#include "libclient/log.h"
#include "libclient/region_record.h"

namespace simm {

const char* region_kind_name(RegionKind kind) noexcept {
  switch (kind) {
    case RegionKind::automatic:
      return "automatic";
    case RegionKind::shared:
      return "shared";
    case RegionKind::adopted:
      return "adopted";
    case RegionKind::staged:
      return "staged";
    case RegionKind::foreign:
      return "foreign";
    case RegionKind::gpu:
      return "gpu";
  }
  return "unknown";
}

std::byte* Region::data() const noexcept {
  return record_ ? record_->address() : nullptr;
}
std::uint64_t Region::size() const noexcept {
  return record_ ? record_->length() : 0;
}
RegionKind Region::kind() const noexcept {
  return record_ ? record_->kind() : RegionKind::automatic;
}
std::string Region::kind_reason() const {
  return record_ ? record_->reason() : std::string();
}
bool Region::huge_pages() const noexcept {
  return record_ && record_->memory().huge_pages;
}
bool Region::valid() const noexcept {
  return record_ && !record_->closed();
}

Outcome Region::deregister() {
  const detail::PublicCall frame;
  detail::forget_last_error();
  if (!record_) return Done{};
  Outcome outcome = record_->core().deregister(*record_);
  if (!outcome) return detail::fail(std::move(outcome).error());
  return outcome;
}

}  // namespace simm
