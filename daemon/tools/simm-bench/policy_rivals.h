// Caches that PolicyReplay compares the store with: S3-FIFO, and Belady's rule, which knows the
// future. Pages are numbers from 0 on, lengths are units. Thread: any one.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

namespace simm::bench {

class S3FifoCache {
public:
  S3FifoCache(std::uint32_t unique_pages, std::uint64_t units);

  [[nodiscard]] bool has(std::uint32_t page) const { return pages_[page].where != Where::out; }
  void use(std::uint32_t page);
  void put(std::uint32_t page, std::uint32_t units);

private:
  static constexpr std::uint8_t kUsesMost = 3;

  enum class Where : std::uint8_t { out, small, main };
  struct Page {
    Where where = Where::out;
    bool ghost = false;
    std::uint8_t uses = 0;
    std::uint32_t units = 0;
  };
  void make_room(std::uint32_t units);
  void evict_small();
  void evict_main();
  void enter(std::uint32_t page, Where where);

  std::vector<Page> pages_;
  std::deque<std::uint32_t> small_;
  std::deque<std::uint32_t> main_;
  std::deque<std::uint32_t> ghosts_;
  std::uint64_t capacity_;
  std::uint64_t small_units_ = 0;
  std::uint64_t main_units_ = 0;
  std::uint64_t ghost_units_ = 0;
};

class BeladyCache {
public:
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

  BeladyCache(std::uint32_t unique_pages, std::uint64_t units)
      : pages_(unique_pages), capacity_(units) {}

  [[nodiscard]] bool has(std::uint32_t page) const { return pages_[page].units > 0; }
  // `next`: the request that uses it next.
  void use(std::uint32_t page, std::uint32_t units, std::uint32_t next);

private:
  struct Page {
    std::uint32_t units = 0;  // 0: it is not there
    std::uint32_t next = kNever;
  };
  void drop(std::uint32_t page);

  std::vector<Page> pages_;
  // By next use, the last one first; an entry that is not its page's next use any more is stale.
  std::priority_queue<std::pair<std::uint32_t, std::uint32_t>> kept_;
  std::uint64_t capacity_;
  std::uint64_t used_ = 0;
};

}  // namespace simm::bench
