// One tenant against another: names, bytes and recycled memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "simm/client.h"
#include "tests/siege/two_tenant_daemon.h"

namespace simm::siege {
namespace tenant_attacks {

constexpr std::uint64_t kPageBytes = 64 * 1024;

Client attach(const std::string& socket) {
  ClientOptions options;
  options.socket_path = socket;
  options.sync_timeout_ms = 10'000;
  auto client = Client::connect(options);
  if (!client) FAIL(client.error().context);
  return std::move(*client);
}

TEST_CASE("no operation reaches another tenant's or another namespace's key") {
  TwoTenantDaemon daemon;
  Client red = attach(daemon.red_socket());
  Client blue = attach(daemon.blue_socket());
  auto red_memory = red.allocate_region(4 * kPageBytes);
  auto blue_memory = blue.allocate_region(4 * kPageBytes);
  REQUIRE(red_memory.has_value());
  REQUIRE(blue_memory.has_value());
  auto other = red.open_namespace("other model");
  REQUIRE(other.has_value());
  CallOptions in_other;
  in_other.name_space = *other;
  std::memset(red_memory->data(), 0xA5, kPageBytes);
  for (int i = 0; i < 8; ++i) {
    const std::string key = "shared name " + std::to_string(i);
    REQUIRE(red.put(key, View(*red_memory, 0, kPageBytes)).ok());
    CHECK(blue.exists(key).status == Status::not_found);
    CHECK(blue.get(key, View(*blue_memory, 0, kPageBytes)).status == Status::not_found);
    CHECK(blue.remove(key) == Status::not_found);
    CHECK(red.exists(key, in_other).status == Status::not_found);
    CHECK(red.remove(key, in_other) == Status::not_found);
    // A put of the same name is an object of one's own, in both modes.
    std::memset(blue_memory->data(), 0x5A, kPageBytes);
    CallOptions replace;
    replace.mode = i % 2 == 0 ? PutMode::replace : PutMode::if_absent;
    CHECK(blue.put(key, View(*blue_memory, 0, kPageBytes), replace).ok());
    CHECK(blue.remove(key) == Status::ok);
    const auto got = red.get(key, View(*red_memory, kPageBytes, kPageBytes));
    CHECK(got.ok());
    CHECK(std::memcmp(red_memory->data(), red_memory->data() + kPageBytes, kPageBytes) == 0);
  }
}

TEST_CASE("recycled memory never shows its former owner") {
  TwoTenantDaemon daemon;
  Client red = attach(daemon.red_socket());
  Client blue = attach(daemon.blue_socket());
  constexpr std::size_t kObjects = 512;  // more than the pool holds of the larger ones
  auto red_memory = red.allocate_region(1 << 20);
  auto blue_memory = blue.allocate_region(1 << 20);
  REQUIRE(red_memory.has_value());
  REQUIRE(blue_memory.has_value());
  std::memset(red_memory->data(), 0xA5, 1 << 20);
  for (std::size_t i = 0; i < kObjects; ++i) {
    (void)red.put("red " + std::to_string(i), View(*red_memory, 0, 1 << 20));
  }
  std::size_t hits = 0;
  for (std::size_t i = 0; i < kObjects; ++i) {
    const std::uint64_t length = 1 + i * 1733 % (1 << 19);
    const std::string key = "blue " + std::to_string(i);
    std::memset(blue_memory->data(), 0x11, length);
    if (!blue.put(key, View(*blue_memory, 0, length)).ok()) continue;
    // The view is longer than the object: what is behind its end must stay as it was.
    std::memset(blue_memory->data(), 0xEE, 1 << 20);
    const auto got = blue.get(key, View(*blue_memory, 0, 1 << 20));
    if (!got.ok()) continue;
    ++hits;
    REQUIRE(got.bytes == length);
    const auto* bytes = blue_memory->data();
    const auto all = [&](std::uint64_t from, std::uint64_t to, std::byte value) {
      return std::all_of(bytes + from, bytes + to, [&](std::byte b) { return b == value; });
    };
    REQUIRE(all(0, length, std::byte{0x11}));
    REQUIRE(all(length, 1 << 20, std::byte{0xEE}));
  }
  CHECK(hits > kObjects / 4);
}

}  // namespace tenant_attacks
}  // namespace simm::siege
