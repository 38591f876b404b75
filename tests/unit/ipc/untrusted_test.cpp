#include "ipc/untrusted.h"

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <numeric>
#include <set>

#include "ipc/layout.h"
#include "ipc/range.h"

namespace untrusted_test {

// Counts how often each byte is accessed.
struct CountingAccess {
  static inline const unsigned char* base = nullptr;
  static inline std::array<int, 256> touched{};

  template <typename Word>
  static void count(const Word* word) {
    const auto first =
        static_cast<std::size_t>(reinterpret_cast<const unsigned char*>(word) - base);
    for (std::size_t i = 0; i < sizeof(Word); ++i) ++touched.at(first + i);
  }
  template <typename Word>
  static Word load(const Word* word, std::memory_order) noexcept {
    count(word);
    return *word;
  }
  template <typename Word>
  static void store(Word* word, Word value, std::memory_order) noexcept {
    count(word);
    *word = value;
  }
};

}  // namespace untrusted_test

using untrusted_test::CountingAccess;

TEST_CASE("a copy touches each byte of its range exactly once and no other byte") {
  alignas(64) std::array<unsigned char, 256> shared{};
  std::array<unsigned char, 256> local{};
  for (std::size_t start = 0; start < 20; ++start) {
    for (std::size_t bytes = 0; bytes < 90; ++bytes) {
      for (const bool in : {true, false}) {
        std::iota(shared.begin(), shared.end(), std::uint8_t{1});
        local.fill(0);
        CountingAccess::base = shared.data();
        CountingAccess::touched.fill(0);
        if (in) {
          simm::ipc::basic_copy_in<CountingAccess>(local.data(), shared.data() + start, bytes);
        } else {
          std::iota(local.begin(), local.end(), std::uint8_t{7});
          simm::ipc::basic_copy_out<CountingAccess>(shared.data() + start, local.data(), bytes);
        }
        REQUIRE(std::memcmp(local.data(), shared.data() + start, bytes) == 0);
        if (in) REQUIRE(local[bytes] == 0);
        for (std::size_t i = 0; i < shared.size(); ++i) {
          REQUIRE(CountingAccess::touched[i] == (i >= start && i < start + bytes ? 1 : 0));
        }
      }
    }
  }
}

TEST_CASE("the range check can not be overflowed") {
  using simm::ipc::range_within;
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  CHECK(range_within(0, 0, 0));
  CHECK(range_within(10, 0, 10));
  CHECK(range_within(4, 6, 10));
  CHECK_FALSE(range_within(5, 6, 10));
  CHECK_FALSE(range_within(11, 0, 10));
  CHECK_FALSE(range_within(kMax, 1, 10));
  CHECK_FALSE(range_within(1, kMax, 10));
  CHECK_FALSE(range_within(kMax, kMax, kMax));
  CHECK(range_within(0, kMax, kMax));
  for (std::uint64_t offset = 0; offset < 12; ++offset) {
    for (std::uint64_t length = 0; length < 12; ++length) {
      for (std::uint64_t limit = 0; limit < 12; ++limit) {
        REQUIRE(range_within(offset, length, limit) == (offset + length <= limit));
      }
    }
  }
}

TEST_CASE("the writable lines of one lane lie 128 bytes apart") {
  alignas(128) static simm::ipc::LaneControl control;
  std::set<std::uintptr_t> lines;
  for (const void* word :
       {&control.submission_tail.word, &control.submission_head.word, &control.completion_tail.word,
        &control.completion_head.word, &control.client_waiting.word}) {
    lines.insert(reinterpret_cast<std::uintptr_t>(word) / 128);
  }
  CHECK(lines.size() == 5);
}
