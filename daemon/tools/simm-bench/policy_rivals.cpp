#include "daemon/tools/simm-bench/policy_rivals.h"

namespace simm::bench {

S3FifoCache::S3FifoCache(std::uint32_t unique_pages, std::uint64_t units)
    : pages_(unique_pages), capacity_(units) {}

void S3FifoCache::use(std::uint32_t page) {
  std::uint8_t& uses = pages_[page].uses;
  if (uses < kUsesMost) ++uses;
}

void S3FifoCache::put(std::uint32_t page, std::uint32_t units) {
  if (has(page)) return use(page);
  if (units > capacity_) return;
  Page& p = pages_[page];
  const Where where = p.ghost ? Where::main : Where::small;
  make_room(units);
  p.units = units;
  p.uses = 0;
  p.ghost = false;
  enter(page, where);
}

void S3FifoCache::enter(std::uint32_t page, Where where) {
  pages_[page].where = where;
  (where == Where::small ? small_ : main_).push_back(page);
  (where == Where::small ? small_units_ : main_units_) += pages_[page].units;
}

void S3FifoCache::make_room(std::uint32_t units) {
  while (small_units_ + main_units_ + units > capacity_) {
    if (main_.empty() || (!small_.empty() && small_units_ * 10 >= capacity_)) {
      evict_small();
    } else {
      evict_main();
    }
  }
}

// One page leaves the small queue: for the main one when it was used twice, else as a ghost.
void S3FifoCache::evict_small() {
  const std::uint32_t page = small_.front();
  small_.pop_front();
  Page& p = pages_[page];
  small_units_ -= p.units;
  if (p.uses > 1) {
    p.uses = 0;
    return enter(page, Where::main);
  }
  p.where = Where::out;
  p.ghost = true;
  ghosts_.push_back(page);
  ghost_units_ += p.units;
  // As many as the main queue has room for; one that came back leaves an entry behind.
  while (ghost_units_ * 10 > capacity_ * 9) {
    Page& oldest = pages_[ghosts_.front()];
    oldest.ghost = false;
    ghost_units_ -= oldest.units;
    ghosts_.pop_front();
  }
}

void S3FifoCache::evict_main() {
  const std::uint32_t page = main_.front();
  main_.pop_front();
  Page& p = pages_[page];
  if (p.uses > 0) {
    --p.uses;
    main_.push_back(page);
    return;
  }
  main_units_ -= p.units;
  p.where = Where::out;
}

void BeladyCache::use(std::uint32_t page, std::uint32_t units, std::uint32_t next) {
  Page& p = pages_[page];
  p.next = next;
  if (next == kNever) {
    if (p.units > 0) drop(page);
    return;
  }
  if (p.units == 0) used_ += p.units = units;
  kept_.emplace(next, page);
  while (used_ > capacity_) {
    const auto [last, victim] = kept_.top();
    kept_.pop();
    if (pages_[victim].units > 0 && pages_[victim].next == last) drop(victim);
  }
}

void BeladyCache::drop(std::uint32_t page) {
  used_ -= pages_[page].units;
  pages_[page].units = 0;
}

}  // namespace simm::bench
