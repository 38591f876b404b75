#include "daemon/server/scrubber.h"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <string>
#include <utility>

#include "daemon/base/agent.h"

namespace simm::server {
namespace {

// While requests are under way, a piece in so long.
constexpr base::TimeNs kBusyPieceNs = base::kNsPerMs;
constexpr std::uint32_t kLooksPerPiece = 64;

}  // namespace

Scrubber::Scrubber(std::uint64_t bytes_per_s, store::Store& store, ScrubCounters counters,
                   base::ErrorLog* errors)
    : bytes_per_s_(bytes_per_s), store_(store), counters_(std::move(counters)), errors_(errors) {}

int Scrubber::do_work(base::TimeNs now_ns, bool busy) noexcept {
  if (bytes_per_s_ == 0 || now_ns < piece_due_ns_) return 0;
  if (busy && now_ns < piece_ns_ + kBusyPieceNs) return 0;
  if (!in_pass()) {
    if (now_ns < pass_due_ns_ || store_.objects() == 0) return 0;
    begin_pass(now_ns);
  }
  piece_ns_ = now_ns;
  const std::uint64_t bytes = reading_ ? read_piece(now_ns) : find_object(now_ns);
  // What was missed for longer than a nap is not made up for.
  const base::TimeNs from_ns = std::max(piece_due_ns_, now_ns - std::min(now_ns, kNapNs));
  piece_due_ns_ = from_ns + bytes * base::kNsPerSecond / bytes_per_s_;
  return 1;
}

base::TimeNs Scrubber::next_deadline_ns() const noexcept {
  if (bytes_per_s_ == 0 || store_.objects() == 0) return base::kNoDeadline;
  return in_pass() ? piece_due_ns_ + kNapNs : std::max(pass_due_ns_, piece_due_ns_);
}

void Scrubber::begin_pass(base::TimeNs now_ns) noexcept {
  next_ = 1;
  pass_began_ns_ = now_ns;
  only_unverified_ = store_.unverified() > 0;
  counters_.progress_permille.set(0);
}

void Scrubber::end_pass(base::TimeNs now_ns) noexcept {
  next_ = store::kNone;
  counters_.progress_permille.set(1000);
  if (only_unverified_) return;  // and the next one begins at once
  counters_.passes.add();
  counters_.pass_ns.set(now_ns - pass_began_ns_);
  pass_due_ns_ = pass_began_ns_ + kPassNs;
}

// Looks that find nothing are read bytes as well: those of the records.
std::uint64_t Scrubber::find_object(base::TimeNs now_ns) noexcept {
  const std::uint32_t highest = store_.records_highest();
  std::uint64_t bytes = 0;
  for (std::uint32_t looks = 0; looks < kLooksPerPiece && !reading_; ++looks, ++next_) {
    if (next_ > highest) {
      end_pass(now_ns);
      return bytes;
    }
    bytes += sizeof(store::Record);
    switch (store_.look_at(next_, now_ns, object_)) {
      case store::ScrubLook::nothing:
        break;
      case store::ScrubLook::object:
        reading_ = !only_unverified_ || store_.is_unverified(object_);
        break;
      case store::ScrubLook::damaged:
        counters_.damaged_records.add();
        tell("damaged record");
        break;
    }
  }
  counters_.progress_permille.set(std::uint64_t{1000} * (next_ - 1) / highest);
  if (reading_) {
    digest_.begin();
    read_bytes_ = 0;
  }
  return bytes;
}

std::uint64_t Scrubber::read_piece(base::TimeNs now_ns) noexcept {
  const std::span<const std::byte> all = store_.bytes_of(object_);
  if (all.empty()) {
    reading_ = false;
    return 0;
  }
  const std::span<const std::byte> piece =
      all.subspan(read_bytes_, std::min<std::uint64_t>(kPieceBytes, all.size() - read_bytes_));
  digest_.add(piece.data(), piece.size());
  read_bytes_ += piece.size();
  counters_.bytes.add(piece.size());
  if (read_bytes_ == all.size()) {
    reading_ = false;
    counters_.objects.add();
    if (!store_.end_scrub(object_, digest_.value() == object_.digest, now_ns)) {
      counters_.corrupt.add();
      tell("damaged bytes");
    }
  }
  return piece.size();
}

void Scrubber::tell(const char* what) noexcept {
  if (errors_ == nullptr || told_ == kToldMax) return;
  std::array<char, base::ErrorLog::kTextBytesMax> text{};
  if (++told_ == kToldMax) what = "and more: damaged";
  std::snprintf(text.data(), text.size(),
                "%s: tenant=%016" PRIx64 " key_hash=%016" PRIx64 "%016" PRIx64 " offset=%" PRIu64
                " bytes=%" PRIu64,
                what, object_.tenant.value, object_.hash.high, object_.hash.low, object_.offset,
                object_.length);
  (void)errors_->record("server.scrub", Status::corrupt, text.data());
}

}  // namespace simm::server
