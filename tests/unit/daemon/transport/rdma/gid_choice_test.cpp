// Which address of a port its connections use.
#include "daemon/transport/rdma/device/gid_choice.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>

#include <vector>

namespace gid_choice_test {

using namespace simm;
using namespace simm::transport;

GidEntry entry(int index, GidKind kind, const char* text) {
  GidEntry made;
  made.index = index;
  made.kind = kind;
  REQUIRE(::inet_pton(AF_INET6, text, made.gid.data()) == 1);
  return made;
}

// As the table of a port with one IPv4 and one IPv6 address looks.
std::vector<GidEntry> usual() {
  return {
      entry(0, GidKind::roce_v1, "fe80::1"),         entry(1, GidKind::roce_v2, "fe80::1"),
      entry(2, GidKind::roce_v1, "2001:db8::5"),     entry(3, GidKind::roce_v2, "2001:db8::5"),
      entry(4, GidKind::roce_v1, "::ffff:10.0.0.5"), entry(5, GidKind::roce_v2, "::ffff:10.0.0.5"),
      entry(6, GidKind::roce_v2, "::ffff:10.0.0.66")};
}

int choice(const std::vector<GidEntry>& entries, int configured = -1,
           LinkLayer link = LinkLayer::ethernet) {
  const auto chosen = choose_gid(entries, link, configured);
  return chosen ? chosen->index : -1;
}

TEST_CASE("gid choice: version 2, then IPv4, then global IPv6, then the first") {
  auto entries = usual();
  CHECK(choice(entries) == 5);
  std::swap(entries[5], entries[6]);  // the order of the table is not that of the indices
  CHECK(choice(entries) == 5);
  entries.resize(5);
  CHECK(choice(entries) == 3);
  entries.erase(entries.begin() + 3);
  CHECK(choice(entries) == 1);
  entries.erase(entries.begin() + 1);
  CHECK(choice(entries) == 4);
  CHECK(choice({entry(0, GidKind::roce_v2, "febf::1"), entry(1, GidKind::roce_v2, "fec0::1")}) ==
        1);
  CHECK(choice({entry(0, GidKind::roce_v2, "::1:ffff:10.0.0.5"),
                entry(1, GidKind::roce_v2, "::ffff:10.0.0.5")}) == 1);
}

TEST_CASE("gid choice: on InfiniBand the address that routers know, where there is one") {
  std::vector<GidEntry> entries = {entry(0, GidKind::infiniband, "fe80::1"),
                                   entry(1, GidKind::infiniband, "fe80:0:202:1::1")};
  CHECK(choice(entries, -1, LinkLayer::infiniband) == 1);
  CHECK(choice(entries, 0, LinkLayer::infiniband) == 0);
  entries[1] = entry(1, GidKind::infiniband, "fe80::2");
  CHECK(choice(entries, -1, LinkLayer::infiniband) == 0);
  entries.pop_back();
  CHECK(choice(entries, -1, LinkLayer::infiniband) == 0);
}

TEST_CASE("gid choice: a configured index is used, whatever it is") {
  CHECK(choice(usual(), 0) == 0);
  CHECK(choice(usual(), 6) == 6);
  const auto missing = choose_gid(usual(), LinkLayer::ethernet, 7);
  REQUIRE_FALSE(missing.has_value());
  CHECK(missing.status() == Status::invalid_argument);
  CHECK(missing.error().context.find("index 7") != std::string::npos);
}

TEST_CASE("gid choice: InfiniBand has index 0") {
  const std::vector<GidEntry> entries = {entry(1, GidKind::infiniband, "fe80::2"),
                                         entry(0, GidKind::infiniband, "fe80::1")};
  CHECK(choice(entries, -1, LinkLayer::infiniband) == 0);
  CHECK(choice(entries, 1, LinkLayer::infiniband) == 1);
}

TEST_CASE("gid choice: a port without any says what to do") {
  const auto none = choose_gid({}, LinkLayer::ethernet, -1);
  REQUIRE_FALSE(none.has_value());
  CHECK(none.status() == Status::unreachable);
  CHECK(none.error().context.find("IP address") != std::string::npos);
}

TEST_CASE("gid choice: text") {
  CHECK(gid_text(usual()[5].gid) == "::ffff:10.0.0.5");
  CHECK(gid_text(usual()[2].gid) == "2001:db8::5");
}

}  // namespace gid_choice_test
