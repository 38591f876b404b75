#include "daemon/base/event_log.h"

#include <algorithm>

#include "daemon/base/clean_copy.h"
#include "daemon/base/random.h"
#include "daemon/base/sanitize.h"
#include "daemon/base/wall_time.h"

namespace simm::base {
namespace {

using SubjectBytes = decltype(PackedEvent::subject);
using TextBytes = decltype(PackedEvent::text);

template <std::size_t N>
std::uint8_t copy_cut(std::array<char, N>& out, std::string_view text) noexcept {
  static_assert(N <= 255);
  return static_cast<std::uint8_t>(text.copy(out.data(), N));
}

}  // namespace

EventLog::EventLog(const Clock& clock, Log& log, CounterSet& counters)
    : clock_(clock), log_(log), life_(SystemRandom().next()), counters_(counters) {}

void EventLog::record(EventKind kind, std::string_view subject, std::string_view text) noexcept {
  SubjectBytes clean_subject;
  TextBytes clean_text;
  const std::size_t subject_bytes = clean_copy(clean_subject, subject);
  const std::size_t text_bytes = clean_copy(clean_text, text);
  put(kind, {clean_subject.data(), subject_bytes}, {clean_text.data(), text_bytes});
}

void EventLog::tell(EventKind kind, std::initializer_list<LogField> fields,
                    std::string_view message) {
  const EventKindRow& row = row_of(kind);
  if (message.empty()) message = row.message;
  log_.write(row.severity, row.component, message, fields);
  std::string text = row.message.empty() ? sanitize(message) : std::string();
  for (const LogField& field : fields) {
    if (&field == fields.begin()) continue;
    if (!text.empty()) text += ' ';
    text += field_text(field);
  }
  put(kind, sanitize(fields.begin()->value), text);
}

void EventLog::put(EventKind kind, std::string_view subject, std::string_view text) noexcept {
  LogBudget& budget = budgets_[static_cast<std::size_t>(kind)];
  if (!budget.admit(clock_.now_ns(), kEventBurst, 1)) return counters_.left_out.add_shared();
  PackedEvent event{};
  event.wall_ns = wall_time_ns();
  event.left_out = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(budget.take_left_out(), ~std::uint32_t{0}));
  event.kind = static_cast<std::uint8_t>(kind);
  event.subject_bytes = copy_cut(event.subject, subject);
  event.text_bytes = copy_cut(event.text, text);
  const bool is_there = ring_.put(ring_.draw(), event);
  (is_there ? counters_.recorded : counters_.left_out).add_shared();
}

EventLog::Page EventLog::page(std::uint64_t since, std::optional<EventKind> only) const {
  const std::uint64_t newest = ring_.newest();
  if (since > newest) since = 0;
  const std::uint64_t oldest = newest > kEventsMax ? newest - kEventsMax + 1 : 1;
  Page page;
  page.next = std::max(since, oldest - 1);
  page.missed = page.next - since;
  while (page.next < newest) {
    if (page.events.size() == kEventsPageMax) {
      page.is_last = false;
      break;
    }
    PackedEvent event;
    const EventRing::Found found = ring_.take(page.next + 1, event);
    if (found == EventRing::Found::not_yet) break;
    ++page.next;
    if (found == EventRing::Found::gone) {
      ++page.missed;
      continue;
    }
    const auto kind = static_cast<EventKind>(event.kind);
    if (only && *only != kind) continue;
    page.events.push_back({page.next, event.wall_ns, kind, event.left_out,
                           std::string(event.subject.data(), event.subject_bytes),
                           std::string(event.text.data(), event.text_bytes)});
  }
  return page;
}

}  // namespace simm::base
