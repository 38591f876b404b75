#include "daemon/transport/rdma/registration/chunk_table.h"

#include <doctest/doctest.h>

namespace chunk_table_test {

using namespace simm::transport;

constexpr std::uint64_t kGiB = kRegisteredChunkBytes;

void register_as(ChunkTable& table, std::uint32_t chunk, std::uint32_t rail, std::uint32_t key) {
  table.set_state(chunk, rail, ChunkState::wanted);
  table.publish(chunk, rail, {key, key + 100, std::uint64_t{key} << 40});
}

TEST_CASE("chunk table: 600 GiB and a byte with 16 rails are found whole and in part") {
  WorkBell bell;
  ChunkTable table(600 * kGiB + 1, kRailsMax, bell);
  CHECK(table.chunks() == 601);
  CHECK(table.chunk_bytes(0) == kGiB);
  CHECK(table.chunk_bytes(600) == 1);
  register_as(table, 599, 15, 7);
  register_as(table, 600, 15, 8);
  KeyedSpan span;
  CHECK(table.find(15, 599 * kGiB + 5, 10, span) == KeysFound::all);
  REQUIRE(span.part_count == 1);
  CHECK(span.parts[0].bytes == 10);
  CHECK(span.parts[0].keys.local_key == 7);
  CHECK(span.parts[0].keys.remote_key == 107);
  CHECK(span.parts[0].keys.remote_address == (std::uint64_t{7} << 40) + 5);
  // Up to the last byte, over the border.
  CHECK(table.find(15, 600 * kGiB - 3, 4, span) == KeysFound::all);
  REQUIRE(span.part_count == 2);
  CHECK(span.parts[0].bytes == 3);
  CHECK(span.parts[0].keys.remote_address == (std::uint64_t{7} << 40) + kGiB - 3);
  CHECK(span.parts[1].bytes == 1);
  CHECK(span.parts[1].keys.local_key == 8);
  CHECK(span.parts[1].keys.remote_address == std::uint64_t{8} << 40);
  // Nothing was asked for in all this, and other rails know nothing of it.
  CHECK_FALSE(table.take_wishes());
  CHECK(table.find(14, 599 * kGiB, 1, span) == KeysFound::later);
  CHECK(span.part_count == 0);
}

TEST_CASE("chunk table: a chunk that ends where the span ends is all of it") {
  WorkBell bell;
  ChunkTable table(2 * kGiB, 1, bell);
  register_as(table, 0, 0, 1);
  KeyedSpan span;
  CHECK(table.find(0, 0, kGiB, span) == KeysFound::all);
  CHECK(span.part_count == 1);
  CHECK(table.find(0, 2 * kGiB, 0, span) == KeysFound::all);
  CHECK(span.part_count == 0);
}

TEST_CASE("chunk table: what is not there is asked for, both chunks of a span at once") {
  WorkBell bell;
  ChunkTable table(4 * kGiB, 2, bell);
  KeyedSpan span;
  CHECK(table.find(1, 2 * kGiB - 1, 2, span) == KeysFound::later);
  CHECK(table.take_wishes());
  CHECK_FALSE(table.take_wishes());
  CHECK_FALSE(table.is_asked(0, 1));
  CHECK(table.is_asked(1, 1));
  CHECK(table.is_asked(2, 1));
  CHECK_FALSE(table.is_asked(1, 0));
  // One wish is enough.
  CHECK(table.find(1, 2 * kGiB - 1, 2, span) == KeysFound::later);
  CHECK_FALSE(table.take_wishes());
  table.forget_wish(1, 1);
  CHECK(table.find(1, kGiB, 2, span) == KeysFound::later);
  CHECK(table.take_wishes());
  // Of what somebody works on already there is none.
  table.set_state(3, 0, ChunkState::wanted);
  CHECK(table.find(0, 3 * kGiB, 1, span) == KeysFound::later);
  CHECK_FALSE(table.take_wishes());
}

TEST_CASE("chunk table: a failed chunk is the answer for the span, and is asked for again") {
  WorkBell bell;
  ChunkTable table(2 * kGiB, 1, bell);
  table.set_state(0, 0, ChunkState::failed);
  KeyedSpan span;
  CHECK(table.find(0, kGiB - 1, 2, span) == KeysFound::failed);
  CHECK(table.is_asked(0, 0));
  CHECK(table.is_asked(1, 0));
  CHECK(span.part_count == 0);
}

TEST_CASE("chunk table: the whole of it is there, or late, or has failed and is asked for again") {
  WorkBell bell;
  ChunkTable table(3 * kGiB, 2, bell);
  CHECK(table.find_whole(1) == KeysFound::later);
  CHECK_FALSE(table.take_wishes());
  table.set_state(1, 1, ChunkState::failed);
  table.set_state(2, 1, ChunkState::wanted);
  CHECK(table.find_whole(1) == KeysFound::failed);
  CHECK(table.find_whole(0) == KeysFound::later);
  CHECK(table.take_wishes());
  CHECK(table.is_asked(1, 1));
  CHECK_FALSE(table.is_asked(0, 1));
  CHECK_FALSE(table.is_asked(1, 0));
  for (std::uint32_t chunk = 0; chunk < 3; ++chunk) {
    CHECK(table.find_whole(1) != KeysFound::all);
    table.set_state(chunk, 1, ChunkState::wanted);
    table.publish(chunk, 1, {});
  }
  CHECK(table.find_whole(1) == KeysFound::all);
}

TEST_CASE("chunk table: a span of more than two chunks is cut by the caller") {
  WorkBell bell;
  ChunkTable table(4 * kGiB, 1, bell);
  KeyedSpan span;
  CHECK(table.find(0, kGiB - 1, kGiB + 2, span) == KeysFound::too_long);
  CHECK_FALSE(table.take_wishes());
  CHECK(table.find(0, kGiB - 1, kGiB + 1, span) == KeysFound::later);
}

TEST_CASE("work bell: a ring that came before the wait ends it") {
  WorkBell bell;
  REQUIRE(bell.is_usable());
  bell.ring();
  bell.wait(simm::base::kNoDeadline);
  bell.answer();
  bell.wait(1);  // nobody rang: the time ends it
  bell.ring();
  bell.ring();
  bell.answer();
  bell.ring();
  bell.wait(simm::base::kNoDeadline);
}

TEST_CASE("chunk table: a look says what there is and asks for nothing") {
  WorkBell bell;
  ChunkTable table(3 * kGiB, 1, bell);
  register_as(table, 0, 0, 1);
  CHECK(table.look(0, kGiB - 2, 2) == KeysFound::all);
  CHECK(table.look(0, kGiB - 1, 2) == KeysFound::later);
  table.set_state(1, 0, ChunkState::failed);
  CHECK(table.look(0, kGiB - 1, 2) == KeysFound::failed);
  CHECK(table.look(0, 3 * kGiB, 0) == KeysFound::all);
  CHECK_FALSE(table.take_wishes());
}

}  // namespace chunk_table_test
