// Counters: 64-bit values in a file that other processes read while the daemon runs. The file
// describes itself, so a reader needs this header's layout and nothing else:
//
//   CountersHeader | labels: capacity x CounterLabel | values: capacity x uint64
//
// Names are dotted, coarse to fine: "session.poisoned.ring_cursor", "store.get.hits". A counter has
// one writing thread: add, set and raise are a relaxed load and store, no locked instruction.
// Exceptions are those that are written with add_shared() only. Readers see each value untorn, not
// one moment of all.
//
// Thread: CounterSet::counter() while nothing else registers (set-up or control thread); a Counter
// is used by its writer; CountersReader by anybody, in any process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/metric.h"
#include "simm/expected.h"

namespace simm::base {

inline constexpr std::uint64_t kCountersMagic = 0x314e54434d4d4953;  // "SIMMCTN1", little-endian
inline constexpr std::uint32_t kCountersVersion = 1;
inline constexpr std::uint32_t kCountersMax = 32'768;  // 64 data agents have 470 each
inline constexpr std::uint32_t kCounterNameBytesMax = 120;

struct CountersHeader {
  std::uint64_t magic;
  std::uint64_t labels_offset;
  std::uint64_t values_offset;
  std::uint64_t file_bytes;
  std::uint64_t pid;
  std::uint32_t capacity;
  std::uint32_t count;  // labels below it are complete; grows with release
  std::uint32_t label_bytes;
  std::uint32_t layout_version;  // written last, with release
  std::uint64_t reserved[8];
};
static_assert(sizeof(CountersHeader) == 120);

struct CounterLabel {
  std::uint32_t name_bytes;  // 0: a gap that keeps two writers off one cache line
  std::uint32_t reserved;
  char name[kCounterNameBytesMax];
};
static_assert(sizeof(CounterLabel) == 128);

// A handle to one value. Default-made it counts into a cell that nobody reads.
class Counter {
public:
  Counter() noexcept : cell_(&unread_) {}
  explicit Counter(std::uint64_t* cell) noexcept : cell_(cell) {}

  void add(std::uint64_t by = 1) noexcept { set(value() + by); }
  void sub(std::uint64_t by = 1) noexcept { set(value() - by); }  // for gauges
  void set(std::uint64_t value) noexcept { cell().store(value, std::memory_order_relaxed); }
  void raise(std::uint64_t to) noexcept {  // for maxima
    if (to > value()) set(to);
  }
  void add_shared(std::uint64_t by = 1) noexcept {  // for counters with several writers
    cell().fetch_add(by, std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t value() const noexcept {
    return cell().load(std::memory_order_relaxed);
  }

private:
  [[nodiscard]] std::atomic_ref<std::uint64_t> cell() const noexcept {
    return std::atomic_ref<std::uint64_t>(*cell_);
  }
  alignas(8) static inline std::uint64_t unread_ = 0;
  std::uint64_t* cell_;
};

class CounterSet {
public:
  // In private memory: tests, tools, the simulation.
  CounterSet();
  // In a new file at `path`, which appears complete (rename) and replaces an older one. Fails with
  // the errno of the file system. The file stays after the daemon's death, for the post-mortem.
  static Expected<std::unique_ptr<CounterSet>> create_file(const std::string& path);
  ~CounterSet();
  CounterSet(const CounterSet&) = delete;
  CounterSet& operator=(const CounterSet&) = delete;

  // The counter of that name; the same one when it is asked for again. When the table is full or
  // the name too long: an unread counter, and "counters.refused" says so. `labels` stand before
  // those of the metric: "agent=0,op=get". Without a metric the page shows it as simm_other.
  [[nodiscard]] Counter counter(std::string_view name, const Metric& metric = {},
                                std::string_view labels = {});

  // The next counters start on cache lines of their own. Call before each agent's registrations.
  CounterSet& begin_writer() noexcept;

  [[nodiscard]] std::uint64_t value(std::string_view name) const;  // 0 when there is none
  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> snapshot() const;

  // What a counter is on the metrics page.
  struct Meaning {
    Metric metric;
    std::string labels;  // all of them
  };

  // visit(name, counter, meaning) for each that was registered since a call returned `since` (0:
  // for all); returns what to give the next time. While nothing else registers. Names and handles
  // stay good for the life of the set.
  template <typename Visit>
  std::uint32_t each_since(std::uint32_t since, Visit&& visit) const {
    for (std::uint32_t i = since; i < count_; ++i) {
      const CounterLabel& text = label(i);
      if (text.name_bytes == 0) continue;
      visit(std::string_view(text.name, text.name_bytes), Counter(&cell(i)), meanings_[i]);
    }
    return count_;
  }

private:
  struct Mapping {
    unsigned char* bytes = nullptr;
    std::size_t length = 0;
  };
  explicit CounterSet(Mapping mapping);
  void preface();
  [[nodiscard]] CountersHeader& header() const noexcept;
  [[nodiscard]] CounterLabel& label(std::uint32_t index) const noexcept;
  [[nodiscard]] std::uint64_t& cell(std::uint32_t index) const noexcept;

  Mapping mapping_;
  std::uint32_t count_ = 0;
  std::map<std::string, std::uint32_t, std::less<>> index_;
  std::vector<Meaning> meanings_;  // by index, gaps included
};

// Another process's counters. Validates the file: a damaged one is an error, never a crash.
class CountersReader {
public:
  static Expected<CountersReader> open(const std::string& path);
  CountersReader(CountersReader&& other) noexcept;
  CountersReader& operator=(CountersReader&& other) noexcept;
  ~CountersReader();

  [[nodiscard]] std::vector<std::pair<std::string, std::uint64_t>> snapshot() const;
  [[nodiscard]] std::uint64_t pid() const noexcept { return pid_; }

private:
  CountersReader() = default;
  const unsigned char* bytes_ = nullptr;
  std::size_t length_ = 0;
  std::size_t labels_offset_ = 0;
  std::size_t values_offset_ = 0;
  std::uint32_t capacity_ = 0;
  std::uint64_t pid_ = 0;
};

}  // namespace simm::base
