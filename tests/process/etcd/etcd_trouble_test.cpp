// etcd in trouble under a cluster at work: full, compacted all the time, without a quorum, out of
// the leading manager's reach, on a disk without room. No get fails meanwhile, and maps change
// again when etcd is well. What is in etcd's history shows that two leaders never store.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/process/etcd/busy_cluster.h"
#include "tests/support/mounted_directory.h"
#include "tests/support/network_relay.h"

namespace etcd_trouble_test {

using namespace etcd_processes;
using simm::test_support::MountedDirectory;
using simm::test_support::NetworkRelay;

// Ends all history so far. Returns what etcdctl says; empty: etcd did not answer.
std::string compact(const EtcdProcess& etcd) {
  const auto now = nlohmann::json::parse(etcd.control("get -w json /x"), nullptr, false);
  if (!now.contains("header")) return {};
  const std::int64_t revision = now["header"]["revision"];
  return etcd.control("compact " + std::to_string(revision));
}

}  // namespace etcd_trouble_test

TEST_CASE("etcd has no space left: maps wait, the manager says why, and they change again") {
  using namespace etcd_trouble_test;
  const EtcdProcess etcd(EtcdOptions{1, {}, {}, {"--quota-backend-bytes", "4000000"}, nullptr});
  Busy busy(etcd);
  const std::size_t leader = busy.cluster.await_leader({0, 1});
  // Somebody else fills it.
  const TemporaryDirectory directory;
  std::ofstream(directory / "filling") << std::string(500'000, 'x');
  std::string said;
  REQUIRE(eventually(
      [&] {
        said = etcd.control("put /filling <" + (directory / "filling"));
        return said.find("space exceeded") != std::string::npos;
      },
      kPatienceMs));
  busy.begin_to_grow();
  REQUIRE(
      eventually([&] { return busy.trouble(leader).find("space exceeded") != std::string::npos; },
                 kPatienceMs));
  CHECK(busy.trouble(leader).find("alarm disarm") != std::string::npos);
  CHECK(sees_members(*busy.node, 2));
  // As the error says, and without the history, which is looked at until here.
  (void)etcd.control("del /filling");
  REQUIRE_FALSE(compact(etcd).empty());
  (void)etcd.control("defrag");
  CHECK(etcd.control("alarm disarm").find("NOSPACE") != std::string::npos);
  busy.await_growth();
  CHECK(busy.load.findings.failed_gets == 0);
  busy.load.check();
}

TEST_CASE("etcd is compacted all the time: a manager reads nothing old, and maps change") {
  using namespace etcd_trouble_test;
  const EtcdProcess etcd;
  Busy busy(etcd);
  std::atomic<bool> is_over{false};
  std::atomic<int> compactions{0};
  std::thread compacting([&] {
    while (!is_over) {
      if (compact(etcd).find("compacted") == 0) ++compactions;
    }
  });
  for (int i = 0; i < 2; ++i) busy.grow();
  CHECK(eventually([&] { return compactions > 0; }, kPatienceMs));
  is_over = true;
  compacting.join();
  CHECK(busy.load.findings.failed_gets == 0);
  busy.load.check();
}

TEST_CASE("the leading manager alone does not reach etcd, then what it had sent arrives late") {
  using namespace etcd_trouble_test;
  const EtcdProcess etcd;
  const std::string address = etcd.endpoints()[0].substr(std::strlen("http://"));
  NetworkRelay first(address);
  NetworkRelay second(address);
  NetworkRelay* const relays[] = {&first, &second};
  Busy busy(etcd,
            {etcd_keys({"http://" + first.address()}), etcd_keys({"http://" + second.address()})});
  const std::size_t old = busy.cluster.await_leader({0, 1});
  // What it sends waits: a store of it too, which comes to etcd when another one leads.
  simm::test_support::RelayTrouble holds;
  holds.holds = true;
  relays[old]->make_both(holds);
  const auto since = std::chrono::steady_clock::now();
  busy.begin_to_grow();
  REQUIRE(busy.cluster.await_leader({1 - old}) == 1 - old);
  busy.await_growth();
  MESSAGE("without etcd for the leader, the next map took "
          << std::chrono::duration_cast<std::chrono::milliseconds>(
                 std::chrono::steady_clock::now() - since)
                 .count()
          << " ms");
  REQUIRE(eventually([&] { return !Managed::leads(*busy.cluster.managers[old]); }, kPatienceMs));
  CHECK(busy.trouble(old).find("manager.etcd = http://" + relays[old]->address()) !=
        std::string::npos);
  relays[old]->mend();
  REQUIRE(eventually([&] { return busy.trouble(old).empty(); }, kPatienceMs));
  busy.grow();
  CHECK_FALSE(Managed::leads(*busy.cluster.managers[old]));
  busy.check();
}

TEST_CASE("etcd without a quorum for a while: nobody leads, nothing fails, then maps change") {
  using namespace etcd_trouble_test;
  EtcdProcess etcd(3);
  Busy busy(etcd);
  for (const std::size_t member : {1U, 2U}) etcd.signal(member, SIGSTOP);
  const auto since = std::chrono::steady_clock::now();
  busy.begin_to_grow();
  REQUIRE(eventually(
      [&] {
        return !Managed::leads(*busy.cluster.managers[0]) &&
               !Managed::leads(*busy.cluster.managers[1]);
      },
      kPatienceMs));
  const auto seconds = number_from("SIMM_ETCD_LONG", 0) * 30;
  std::this_thread::sleep_until(since + std::chrono::seconds(seconds));
  CHECK(sees_members(*busy.node, 2));
  for (const std::size_t member : {1U, 2U}) etcd.signal(member, SIGCONT);
  const auto back = std::chrono::steady_clock::now();
  busy.await_growth();
  MESSAGE("with the quorum back, the next map took "
          << std::chrono::duration_cast<std::chrono::milliseconds>(
                 std::chrono::steady_clock::now() - back)
                 .count()
          << " ms");
  busy.check();
}

TEST_CASE("etcd's disk is full and it ends: with room again, and started, maps change") {
  using namespace etcd_trouble_test;
  if (number_from("SIMM_ETCD_LONG", 0) == 0) {
    MESSAGE("skipped: SIMM_ETCD_LONG=1 takes 256 MiB of memory for a disk");
    return;
  }
  const MountedDirectory disk("tmpfs", "size=256m");
  if (!disk.ready()) return;
  EtcdProcess etcd(EtcdOptions{1, {}, disk / "etcd", {}, nullptr});
  Busy busy(etcd);
  {
    std::ofstream filler(disk / "filler");
    while (filler << std::string(65536, 'x') << std::flush) {
    }
  }
  const TemporaryDirectory directory;
  std::ofstream(directory / "filling") << std::string(1'000'000, 'x');
  std::atomic<bool> is_over{false};
  std::thread filling([&] {
    while (!is_over) {
      (void)etcd.control("--command-timeout=1s put /filling <" + (directory / "filling"));
    }
  });
  etcd.await_end(0);
  is_over = true;
  filling.join();
  busy.begin_to_grow();
  REQUIRE(eventually(
      [&] {
        return !Managed::leads(*busy.cluster.managers[0]) &&
               !Managed::leads(*busy.cluster.managers[1]);
      },
      kPatienceMs));
  std::filesystem::remove(disk / "filler");
  etcd.restart(0);
  busy.await_growth();
  busy.check();
}
