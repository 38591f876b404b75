// ErrorLog: the distinct errors of a daemon. A repeated error is one entry with a count and the
// first and last time it happened, so a flood stays a number. Entries are distinguished by
// (site, status, text). The table is fixed, and each site has a part of it: what a client says at
// one place hides no error of another place. Further kinds only count as dropped.
//
// Thread: record() from any thread, also data agents: no lock, no allocation, bounded probing.
// entries() from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "simm/status.h"

namespace simm::base {

class EventLog;

struct ErrorEntry {
  std::string site;  // where: a dotted name of ours
  Status status = Status::ok;
  std::string text;        // sanitised
  std::string first_from;  // the same; empty: from nowhere
  std::uint64_t count = 0;
  TimeNs first_ns = 0;
  TimeNs last_ns = 0;
};

class ErrorLog {
public:
  static constexpr std::size_t kSiteBytesMax = 40;
  static constexpr std::size_t kTextBytesMax = 200;
  static constexpr std::size_t kFromBytesMax = 120;

  // `events` hears of each error that is new; null: nobody does.
  explicit ErrorLog(const Clock& clock, EventLog* events = nullptr);

  // `site` is a name of ours ("control.attach"); `text` may hold words of a client and is sanitised
  // and cut here. Never put key bytes into it.
  // `first_from`: where the first one came from. It is no part of the identity: however many
  // strangers say the same, that is one error.
  // True when this error is new: the moment to write a log line about it.
  bool record(std::string_view site, Status status, std::string_view text,
              std::string_view first_from = {}) noexcept;

  // A snapshot, in the order of first appearance.
  [[nodiscard]] std::vector<ErrorEntry> entries() const;
  [[nodiscard]] std::uint64_t dropped() const noexcept {
    return dropped_.load(std::memory_order_relaxed);
  }

private:
  static constexpr std::size_t kProbesMax = 32;

  // `identity` is claimed once (0 -> hash); the text behind it is readable when `ready` is set.
  struct Entry {
    std::atomic<std::uint64_t> identity{0};
    std::atomic<bool> ready{false};
    std::atomic<std::uint64_t> count{0};
    std::atomic<TimeNs> first_ns{0};
    std::atomic<TimeNs> last_ns{0};
    std::int32_t status = 0;
    std::array<char, kSiteBytesMax> site{};
    std::array<char, kTextBytesMax> text{};
    std::array<char, kFromBytesMax> first_from{};
  };

  struct Site {
    std::atomic<std::uint64_t> identity{0};  // as in Entry
    std::atomic<std::uint32_t> entries{0};
  };
  static constexpr std::size_t kSitesMax = 128;  // that this daemon's sources name, twice over

  // Counts one more entry of the site; false: it has had its part.
  bool has_room(std::uint64_t site) noexcept;

  const Clock& clock_;
  EventLog* const events_;
  const std::unique_ptr<std::array<Entry, kDistinctErrorsMax>> table_;
  const std::unique_ptr<std::array<Site, kSitesMax>> sites_;
  std::atomic<std::uint64_t> dropped_{0};
};

}  // namespace simm::base
