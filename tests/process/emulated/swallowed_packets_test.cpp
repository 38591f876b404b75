// Paths that let short packets pass and swallow long ones without a word: wrong MTUs, and ICMP that
// somebody filters. Connecting works on them, and payload never comes.
#include <doctest/doctest.h>

#include <string>

#include "tests/process/emulated/emulated_cluster.h"

namespace swallowed_packets_test {

using namespace emulated_tests;
using simm::Status;

constexpr int kPages = 48;

LineShape without_long_packets() {
  LineShape shape;
  shape.packet_bytes_max = 1'000;
  return shape;
}

bool is_found_out(const EmulatedCluster& cluster, std::size_t storage) {
  const nlohmann::json peer = cluster.peer(storage);
  if (!peer.is_object() || peer["open"] != 0) return false;
  return peer["trouble"].get<std::string>().find("long ones do not") != std::string::npos;
}

TEST_CASE("a path that swallows long packets is not used, the node says so, and mended it is") {
  EmulatedCluster cluster(3);
  if (!cluster.is_possible()) return;
  cluster.shape_to(0, without_long_packets());
  cluster.shape_from(1, without_long_packets());
  cluster.start();
  REQUIRE(eventually([&] { return is_found_out(cluster, 0) && is_found_out(cluster, 1); }));
  const nlohmann::json well = cluster.peer(2);
  CHECK(well["open"] == well["connections"]);
  // No page was given to such a path: what is on one is a miss at once.
  Checker pages(cluster.node());
  CHECK(pages.put_all(kPages, Status::ok) > 0);
  CHECK(pages.count(kPages, Status::ok) > 0);
  CHECK(pages.count(kPages, Status::timeout) == 0);
  CHECK(cluster.node().counter("cluster.links.lost_silent") == 0);

  cluster.shape_all({});
  REQUIRE(cluster.settles());
  CHECK_MESSAGE(pages.put_all(kPages, Status::ok) == kPages, pages.answers());
  CHECK_MESSAGE(pages.count(kPages, Status::ok) == kPages, pages.answers());
}

TEST_CASE("a path that begins to swallow long packets costs its links, and none is made anew") {
  EmulatedCluster cluster(2);
  if (!cluster.is_possible()) return;
  cluster.start();
  REQUIRE(cluster.settles());
  Checker pages(cluster.node());
  REQUIRE_MESSAGE(pages.put_all(kPages, Status::ok) == kPages, pages.answers());
  cluster.shape_from(0, without_long_packets());
  const int found = pages.count(kPages, Status::ok);
  CHECK(found > 0);
  CHECK(found < kPages);
  REQUIRE(eventually([&] { return is_found_out(cluster, 0); }));
  const std::uint64_t lost = cluster.node().counter("cluster.links.lost_silent");
  CHECK(pages.count(kPages, Status::ok) == found);
  CHECK(cluster.node().counter("cluster.links.lost_silent") == lost);

  cluster.shape_all({});
  REQUIRE(cluster.settles());
  CHECK_MESSAGE(pages.count(kPages, Status::ok) == kPages, pages.answers());
}

}  // namespace swallowed_packets_test
