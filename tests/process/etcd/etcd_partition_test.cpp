// A partition: the manager that leads is cut off together with one member of etcd, on hosts of
// their own (network namespaces). The other side goes on, and no map is stored on both.
#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <string>

#include "tests/process/etcd/busy_cluster.h"
#include "tests/support/network_namespaces.h"

namespace etcd_partition_test {

using namespace etcd_processes;
using simm::test_support::NetworkNamespaces;

// Members of etcd are at the first three, a manager at each of the first two, all others at the
// last one.
constexpr std::size_t kDaemons = 3;
constexpr std::size_t kHosts = 4;

}  // namespace etcd_partition_test

TEST_CASE("the leading manager is cut off with one member of etcd: the other side goes on") {
  using namespace etcd_partition_test;
  NetworkNamespaces network(kHosts);
  if (!network.ready()) return;
  EtcdProcess etcd(EtcdOptions{3, {}, {}, {}, &network});
  const std::string keys = etcd_keys(etcd.endpoints());
  Busy busy(etcd, {keys, keys}, network, kDaemons);
  const std::size_t old = busy.cluster.await_leader({0, 1});
  // That side has a member of etcd, and no quorum.
  for (std::size_t host = 0; host < kHosts; ++host) {
    if (host == old) continue;
    network.block(old, host);
    network.block(host, old);
  }
  const auto since = std::chrono::steady_clock::now();
  busy.begin_to_grow();
  REQUIRE(busy.cluster.await_leader({1 - old}) == 1 - old);
  busy.await_growth();
  MESSAGE("with the leading manager and a member of etcd cut off, the next map took "
          << std::chrono::duration_cast<std::chrono::milliseconds>(
                 std::chrono::steady_clock::now() - since)
                 .count()
          << " ms");
  REQUIRE(eventually([&] { return !Managed::leads(*busy.cluster.managers[old]); }, kPatienceMs));
  CHECK(busy.trouble(old).find("etcd") != std::string::npos);
  network.mend();
  REQUIRE(eventually([&] { return busy.trouble(old).empty(); }, kPatienceMs));
  busy.grow();
  CHECK_FALSE(Managed::leads(*busy.cluster.managers[old]));
  busy.check();
}
