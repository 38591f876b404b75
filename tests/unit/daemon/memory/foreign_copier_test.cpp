#include "daemon/memory/helper/foreign_copier.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "daemon/memory/helper/adopt_helper.h"
#include "tests/unit/daemon/memory/arena_file.h"
#include "tests/unit/daemon/memory/forked_client.h"
#include "tests/unit/daemon/memory/memory_fixture.h"

namespace foreign_copier_test {

using namespace simm::memory;
using namespace simm::memory::testing;
using simm::Status;

constexpr std::uint64_t kBytes = 4 << 20;

struct Helper {
  std::optional<AdoptClient> client;
  pid_t pid = -1;
  ArenaFile arena{64 << 10};
  explicit Helper(const HelperOptions& options) {
    auto started = start_adopt_helper(options);
    REQUIRE(started);
    client.emplace(std::move(started->socket));
    pid = started->pid;
  }
  ~Helper() {
    client.reset();
    ::waitpid(pid, nullptr, 0);
  }
};

std::byte pattern(std::uint64_t at) {
  return static_cast<std::byte>((at * 31 / 7) & 0xff);
}

HelperOptions foreign_options() {
  HelperOptions options;
  options.foreign = true;
  return options;
}

PieceState wait_for(ForeignCopier& copier, ForeignCopier::Ticket ticket, std::byte* own,
                    std::uint64_t length) {
  for (;;) {
    const PieceState state = copier.poll(ticket, own, length);
    if (state != PieceState::pending) return state;
    ::usleep(50);
  }
}

ForkedClientSpec private_client() {
  ForkedClientSpec spec;
  static char* memory = nullptr;
  spec.set_up = [] {
    memory = map_anonymous(kBytes, MAP_PRIVATE);
    for (std::uint64_t i = 0; i < kBytes; ++i) memory[i] = static_cast<char>(pattern(i));
    return report_of(memory, kBytes);
  };
  spec.command = [](char) { ::munmap(memory + kBytes / 2, kBytes / 2); };
  return spec;
}

}  // namespace foreign_copier_test

TEST_CASE("private memory is copied both ways by a worker that runs as the client's user") {
  using namespace foreign_copier_test;
  if (!is_root()) return;
  Helper helper(foreign_options());
  ForkedClient client(private_client());
  auto copier = ForeignCopier::start(*helper.client, *client.identity, helper.arena.foreign());
  REQUIRE(copier);

  std::vector<std::byte> own(kReadBytesMax);
  ForeignCopier::Ticket ticket = 0;
  REQUIRE((*copier)->post_read(client.address() + 12345, own.size(), ticket) == Status::ok);
  REQUIRE(wait_for(**copier, ticket, own.data(), own.size()) == PieceState::ok);
  bool is_same = true;
  for (std::uint64_t i = 0; i < own.size(); ++i) {
    is_same = is_same && own[i] == pattern(i + 12345);
  }
  CHECK(is_same);

  const std::span<std::byte> sent(helper.arena.mapping.data() + 77, 1000);
  std::fill(sent.begin(), sent.end(), std::byte{0x5a});
  REQUIRE((*copier)->post_write(client.address() + 777, sent.data(), sent.size(), ticket) ==
          Status::ok);
  REQUIRE(wait_for(**copier, ticket, nullptr, 0) == PieceState::ok);
  REQUIRE((*copier)->post_read(client.address() + 776, 1002, ticket) == Status::ok);
  REQUIRE(wait_for(**copier, ticket, own.data(), 1002) == PieceState::ok);
  CHECK(std::memcmp(own.data() + 1, sent.data(), sent.size()) == 0);
  CHECK(own[0] == pattern(776));
  CHECK(own[1001] == pattern(1777));
}

TEST_CASE("slots are bounded, and a piece whose memory is not there fails alone") {
  using namespace foreign_copier_test;
  if (!is_root()) return;
  Helper helper(foreign_options());
  ForkedClient client(private_client());
  auto copier = ForeignCopier::start(*helper.client, *client.identity, helper.arena.foreign());
  REQUIRE(copier);
  client.command('u');  // unmaps the second half

  std::vector<ForeignCopier::Ticket> tickets;
  ForeignCopier::Ticket ticket = 0;
  for (std::uint32_t i = 0; i < kReadSlots; ++i) {
    const std::uint64_t at = i % 2 == 0 ? 0 : kBytes / 2;
    REQUIRE((*copier)->post_read(client.address() + at, 4096, ticket) == Status::ok);
    tickets.push_back(ticket);
  }
  CHECK((*copier)->post_read(client.address(), 4096, ticket) == Status::no_space);
  std::vector<std::byte> own(4096);
  for (std::uint32_t i = 0; i < kReadSlots; ++i) {
    const PieceState expected = i % 2 == 0 ? PieceState::ok : PieceState::failed;
    CHECK(wait_for(**copier, tickets[i], own.data(), own.size()) == expected);
  }
  // A piece that starts well and ends badly fails as well.
  REQUIRE((*copier)->post_read(client.address() + kBytes / 2 - 4096, 8192, ticket) == Status::ok);
  CHECK(wait_for(**copier, ticket, own.data(), 0) == PieceState::failed);
}

TEST_CASE("after the client's death its memory is gone, and nobody else's is touched") {
  using namespace foreign_copier_test;
  if (!is_root()) return;
  Helper helper(foreign_options());
  ForkedClient client(private_client());
  auto copier = ForeignCopier::start(*helper.client, *client.identity, helper.arena.foreign());
  REQUIRE(copier);
  ForeignCopier::Ticket ticket = 0;
  std::vector<std::byte> own(4096);
  REQUIRE((*copier)->post_read(client.address(), 4096, ticket) == Status::ok);
  REQUIRE(wait_for(**copier, ticket, own.data(), own.size()) == PieceState::ok);
  client.end();
  REQUIRE((*copier)->post_read(client.address(), 4096, ticket) == Status::ok);
  CHECK(wait_for(**copier, ticket, own.data(), own.size()) == PieceState::failed);
}

TEST_CASE("a fenced worker is dead, its pieces are lost, and another one takes over") {
  using namespace foreign_copier_test;
  if (!is_root()) return;
  Helper helper(foreign_options());
  ForkedClient client(private_client());
  auto copier = ForeignCopier::start(*helper.client, *client.identity, helper.arena.foreign());
  REQUIRE(copier);
  std::vector<std::byte> own(4096);
  for (std::uint32_t life = 1; life < ForeignCopier::kWorkersMax; ++life) {
    ForeignCopier::Ticket ticket = 0;
    REQUIRE((*copier)->post_read(client.address(), 4096, ticket) == Status::ok);
    CHECK_FALSE((*copier)->needs_revival());
    (*copier)->fence(ticket);
    while (!(*copier)->is_fenced(ticket)) ::usleep(50);
    ForeignCopier::Ticket other = 0;
    CHECK((*copier)->post_read(client.address(), 4096, other) == Status::unreachable);
    CHECK((*copier)->needs_revival());
    REQUIRE((*copier)->revive());
    REQUIRE((*copier)->post_read(client.address(), 4096, other) == Status::ok);
    CHECK(wait_for(**copier, other, own.data(), own.size()) == PieceState::ok);
  }
  CHECK((*copier)->revive().status() == Status::out_of_memory);
}

TEST_CASE("a helper that is not configured for it starts no worker") {
  using namespace foreign_copier_test;
  Helper helper({});
  ForkedClientSpec spec = private_client();
  ForkedClient client(spec);
  CHECK(ForeignCopier::start(*helper.client, *client.identity, helper.arena.foreign()).status() ==
        Status::permission_denied);
}
