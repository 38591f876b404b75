#include "daemon/base/counters.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>
#include <map>
#include <string>

#include "daemon/base/histogram.h"
#include "daemon/base/limits.h"
#include "tests/support/temporary_directory.h"

namespace counters_test {

using namespace simm::base;

struct TempPath {
  const simm::test_support::TemporaryDirectory directory;
  const std::string file = directory / "counters";
};

std::map<std::string, std::uint64_t> read_all(const CountersReader& reader) {
  const auto all = reader.snapshot();
  return {all.begin(), all.end()};
}

TEST_CASE("a reader of the file sees names and values while they change") {
  TempPath path;
  auto set = CounterSet::create_file(path.file);
  REQUIRE(set.has_value());
  Counter gets = (*set)->counter("store.get.hits");
  auto reader = CountersReader::open(path.file);
  REQUIRE(reader.has_value());
  gets.add(3);
  CHECK(read_all(*reader).at("store.get.hits") == 3);
  (*set)->begin_writer();
  Counter late = (*set)->counter("session.opened");
  late.set(9);
  CHECK(read_all(*reader).at("session.opened") == 9);
  CHECK(reader->pid() == static_cast<std::uint64_t>(::getpid()));
  Counter same = (*set)->counter("store.get.hits");
  same.add();
  CHECK((*set)->value("store.get.hits") == 4);
  late.sub(2);
  late.raise(5);
  CHECK(late.value() == 7);
}

TEST_CASE("too many counters or too long a name are refused and counted, never fatal") {
  CounterSet set;
  Counter unread = set.counter(std::string(kCounterNameBytesMax + 1, 'x'));
  unread.add();
  CHECK(set.value("counters.refused") == 1);
  for (std::uint32_t i = 0; i < kCountersMax; ++i) (void)set.counter("c." + std::to_string(i));
  CHECK(set.value("counters.refused") == 2);
  CHECK(set.snapshot().size() == kCountersMax);
}

TEST_CASE("a damaged counters file is an error") {
  TempPath path;
  const auto make = [&] { REQUIRE(CounterSet::create_file(path.file).has_value()); };
  const auto poke = [&](std::streamoff at, std::uint64_t value) {
    std::fstream file(path.file, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file.write(reinterpret_cast<const char*>(&value), sizeof value);
  };
  make();
  CHECK(CountersReader::open(path.file).has_value());
  poke(offsetof(CountersHeader, values_offset), ~std::uint64_t{7});
  CHECK(CountersReader::open(path.file).status() == simm::Status::incompatible);
  make();
  poke(offsetof(CountersHeader, capacity), 0xffff'ffffu);
  CHECK(CountersReader::open(path.file).status() == simm::Status::incompatible);
  REQUIRE(::truncate(path.file.c_str(), 16) == 0);
  CHECK(CountersReader::open(path.file).status() == simm::Status::incompatible);
  ::unlink(path.file.c_str());
  CHECK(CountersReader::open(path.file).status() == simm::Status::io_error);
}

TEST_CASE("a histogram puts values into powers of two") {
  CounterSet set;
  Histogram histogram(set, "engine.get_ns");
  CHECK(histogram.percentile(500) == 0);
  for (int i = 0; i < 99; ++i) histogram.record(1000);
  histogram.record(1'000'000);
  CHECK(histogram.count() == 100);
  CHECK(histogram.sum() == 99 * 1000 + 1'000'000);
  CHECK(histogram.percentile(500) == 1023);
  CHECK(histogram.percentile(990) == 1023);
  CHECK(histogram.percentile(1000) == (1u << 20) - 1);
  CHECK(set.value("engine.get_ns.log2_10") == 99);
  histogram.record(~std::uint64_t{0});
  CHECK(set.value("engine.get_ns.log2_39") == 1);
}

TEST_CASE("every limit has a name and a counter") {
  CounterSet set;
  LimitCounters limits(set);
  for (std::size_t i = 0; i < kLimitCount; ++i) {
    const auto limit = static_cast<Limit>(i);
    limits.reached(limit);
    CHECK(set.value("limit." + std::string(limit_name(limit)) + ".reached") == 1);
  }
}

}  // namespace counters_test
