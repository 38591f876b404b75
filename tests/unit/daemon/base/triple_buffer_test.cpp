#include "daemon/base/triple_buffer.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace triple_buffer_test {

using simm::base::TripleBuffer;

TEST_CASE(
    "a triple buffer has its first value until another one is published, and then the newest") {
  TripleBuffer<int> buffer(7);
  CHECK(buffer.latest() == 7);
  buffer.back() = 8;
  CHECK(buffer.latest() == 7);
  buffer.publish();
  CHECK(buffer.latest() == 8);
  CHECK(buffer.latest() == 8);
  for (const int next : {9, 10, 11, 12}) {
    buffer.back() = next;
    buffer.publish();
  }
  CHECK(buffer.latest() == 12);
}

TEST_CASE("what its reader has is not written while it has it") {
  TripleBuffer<int> buffer(0);
  const int& held = buffer.latest();
  for (int next = 1; next < 20; ++next) {
    buffer.back() = next;
    CHECK(held == 0);
    buffer.publish();
    CHECK(held == 0);
  }
  CHECK(buffer.latest() == 19);
}

TEST_CASE("between two threads a triple buffer gives whole values, and none older than the last") {
  constexpr std::uint64_t kValues = 100'000;
  constexpr std::size_t kWords = 40;
  TripleBuffer<std::vector<std::uint64_t>> buffer(std::vector<std::uint64_t>(kWords, 0));
  std::thread writer([&] {
    for (std::uint64_t value = 1; value <= kValues; ++value) {
      for (std::uint64_t& word : buffer.back()) word = value;
      buffer.publish();
    }
  });
  std::uint64_t torn = 0;
  std::uint64_t older = 0;
  for (std::uint64_t last = 0; last < kValues;) {
    const std::vector<std::uint64_t>& got = buffer.latest();
    for (const std::uint64_t word : got) torn += word != got.front();
    older += got.front() < last;
    last = got.front();
  }
  writer.join();
  CHECK(torn == 0);
  CHECK(older == 0);
}

}  // namespace triple_buffer_test
