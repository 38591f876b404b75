#include "daemon/store/stock_keeper.h"

namespace simm::store {

StockKeeper::StockKeeper(ObjectBook& book) noexcept
    : book_(book),
      byte_stock_(stock_of(book.config, book.extents.arena_bytes(), book.config.free_bytes_max)),
      record_stock_(stock_of(book.config, book.records.capacity(), book.config.free_records_max)) {}

bool StockKeeper::wants(std::uint64_t free_soon_bytes, Scarce& scarce) noexcept {
  const std::uint64_t free_records = book_.records.capacity() - book_.records.used();
  const auto is_short = [](std::uint64_t free, const Stock& stock, bool& evicting) {
    evicting = free < (evicting ? stock.high : stock.low);
    return evicting;
  };
  const bool bytes =
      is_short(book_.extents.free_bytes() + free_soon_bytes, byte_stock_, evicting_bytes_);
  const bool records = is_short(free_records, record_stock_, evicting_records_);
  scarce = bytes ? Scarce::bytes : Scarce::records;
  return bytes || records;
}

int StockKeeper::do_work(std::uint64_t free_soon_bytes, base::TimeNs now_ns) noexcept {
  constexpr int kEvictionsPerTurn = 16;
  int evicted = 0;
  Need stock;
  while (evicted < kEvictionsPerTurn && wants(free_soon_bytes, stock.scarce)) {
    const std::uint32_t victim = book_.groups.victim(stock, now_ns).group;
    if (victim == kNone) {
      evicting_bytes_ = evicting_records_ = false;
      break;
    }
    evicted += static_cast<int>(book_.evict_from(victim, false, now_ns));
  }
  const AccountBook& accounts = book_.groups.accounts();
  crowded_ = accounts.next_crowded(crowded_);
  while (crowded_ != kNone && accounts[crowded_].crowded && evicted < kEvictionsPerTurn) {
    const GroupBook::Victim victim = book_.groups.quota_victim(crowded_, now_ns);
    if (victim.group == kNone || victim.breaks_lease) break;
    const std::uint32_t gone = book_.evict_from(victim.group, false, now_ns);
    book_.counts.evicted_for_quota += gone;
    evicted += static_cast<int>(gone);
  }
  return evicted;
}

}  // namespace simm::store
