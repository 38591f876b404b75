#include "daemon/base/error_log.h"

#include <algorithm>

#include "daemon/base/clean_copy.h"
#include "daemon/base/event_log.h"
#include "daemon/base/hash.h"

namespace simm::base {
namespace {

// With a zero behind it.
template <std::size_t N>
void copy_text(std::array<char, N>& out, std::string_view text) noexcept {
  out[clean_copy(std::span(out).first(N - 1), text)] = '\0';
}

}  // namespace

ErrorLog::ErrorLog(const Clock& clock, EventLog* events)
    : clock_(clock),
      events_(events),
      table_(std::make_unique<std::array<Entry, kDistinctErrorsMax>>()),
      sites_(std::make_unique<std::array<Site, kSitesMax>>()) {}

bool ErrorLog::record(std::string_view site, Status status, std::string_view text,
                      std::string_view first_from) noexcept {
  const std::uint64_t parts[] = {payload_digest(site.data(), site.size()),
                                 payload_digest(text.data(), text.size()),
                                 static_cast<std::uint64_t>(status)};
  const std::uint64_t identity = payload_digest(parts, sizeof parts) | 1;  // 0 means free
  const TimeNs now = clock_.now_ns();
  for (std::size_t probe = 0; probe < kProbesMax; ++probe) {
    Entry& entry = (*table_)[(identity + probe) % kDistinctErrorsMax];
    std::uint64_t holder = entry.identity.load(std::memory_order_acquire);
    bool claimed = false;
    if (holder == 0) {
      if (!has_room(payload_digest(site.data(), site.size()))) break;
      claimed = entry.identity.compare_exchange_strong(holder, identity, std::memory_order_acq_rel);
      if (claimed) holder = identity;
    }
    if (holder != identity) continue;
    entry.count.fetch_add(1, std::memory_order_relaxed);
    entry.last_ns.store(now, std::memory_order_relaxed);
    if (!claimed) return false;
    entry.first_ns.store(now, std::memory_order_relaxed);
    entry.status = static_cast<std::int32_t>(status);
    copy_text(entry.site, site);
    copy_text(entry.text, text);
    copy_text(entry.first_from, first_from);
    entry.ready.store(true, std::memory_order_release);
    if (events_ != nullptr) events_->record(EventKind::error, site, text);
    return true;
  }
  dropped_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

bool ErrorLog::has_room(std::uint64_t site) noexcept {
  const std::uint64_t identity = site | 1;  // 0 means free
  for (std::size_t probe = 0; probe < kSitesMax; ++probe) {
    Site& of = (*sites_)[(identity + probe) % kSitesMax];
    std::uint64_t holder = of.identity.load(std::memory_order_acquire);
    if (holder == 0 &&
        of.identity.compare_exchange_strong(holder, identity, std::memory_order_acq_rel)) {
      holder = identity;
    }
    if (holder != identity) continue;
    return of.entries.load(std::memory_order_relaxed) < kErrorsOfSiteMax &&
           of.entries.fetch_add(1, std::memory_order_relaxed) < kErrorsOfSiteMax;
  }
  return false;
}

std::vector<ErrorEntry> ErrorLog::entries() const {
  std::vector<ErrorEntry> all;
  for (const Entry& entry : *table_) {
    if (!entry.ready.load(std::memory_order_acquire)) continue;
    all.push_back({entry.site.data(), static_cast<Status>(entry.status), entry.text.data(),
                   entry.first_from.data(), entry.count.load(std::memory_order_relaxed),
                   entry.first_ns.load(std::memory_order_relaxed),
                   entry.last_ns.load(std::memory_order_relaxed)});
  }
  std::sort(all.begin(), all.end(),
            [](const ErrorEntry& a, const ErrorEntry& b) { return a.first_ns < b.first_ns; });
  return all;
}

}  // namespace simm::base
