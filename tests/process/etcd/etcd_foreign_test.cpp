// What managers find in etcd that is not theirs: a leader's key that somebody wrote by hand, a
// state of a newer release, the state of another cluster, keys of others. Nothing of it is written
// over, each has an error with its remedy, and the manager goes on when it is gone.
#include <doctest/doctest.h>

#include <csignal>
#include <fstream>
#include <memory>
#include <string>

#include "daemon/http/base64.h"
#include "tests/process/etcd/etcd_cluster.h"

namespace etcd_foreign_test {

using namespace etcd_processes;

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

std::string value_of(const EtcdProcess& etcd, const std::string& key) {
  const auto there = nlohmann::json::parse(etcd.control("get -w json " + key), nullptr, false);
  REQUIRE(there.contains("kvs"));
  return simm::http::from_base64(there["kvs"][0]["value"].get<std::string>()).value();
}

void put(const EtcdProcess& etcd, const std::string& key, const std::string& value) {
  const TemporaryDirectory directory;
  std::ofstream(directory / "value") << value;
  REQUIRE(has(etcd.control("put " + key + " <" + (directory / "value")), "OK"));
}

// One manager and a storage daemon of it.
struct Pair {
  Pair(const EtcdProcess& etcd, const std::string& cluster)
      : name(cluster),
        manager(keys("m") + "}, \"manager\": {\"listen\": \"" + address +
                    "\", \"state_file\": \"$DIR/state\", " + etcd_keys(etcd.endpoints()) + "}",
                "manager"),
        storage(keys("s") + ", \"manager\": \"" + address + "\"}", "storage") {}
  [[nodiscard]] std::string keys(const std::string& who) const {
    return "\"cluster\": {\"name\": \"" + name + "\", \"secret_file\": \"" + secret.path() +
           "\", \"node_name\": \"" + who + "\"";
  }
  [[nodiscard]] std::string state_key() const { return "/simm/" + name + "/state"; }
  [[nodiscard]] bool leads() const { return Managed::leads(manager); }
  [[nodiscard]] std::string trouble() const {
    const auto rows = manager.report("managers")["managers"];
    return rows.empty() || !rows[0]["trouble"].is_string() ? "" : std::string(rows[0]["trouble"]);
  }
  void await_map() {
    REQUIRE(manager.start());
    REQUIRE(storage.start());
    REQUIRE(eventually([&] { return uses_the_map_of(storage, manager); }, kPatienceMs));
  }
  void end_manager() {
    manager.signal(SIGTERM);
    CHECK(manager.wait() == 0);
  }
  [[nodiscard]] std::string file() const {
    std::ifstream in(manager.directory() + "/state");
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const std::string name;
  SecretFile secret;
  std::string address = free_address();
  DaemonProcess manager;
  DaemonProcess storage;
};

}  // namespace etcd_foreign_test

TEST_CASE("managers and keys in etcd that are not theirs") {
  using namespace etcd_foreign_test;
  const EtcdProcess etcd;
  put(etcd, "/simm/simm/notes", "somebody's");
  Pair ours(etcd, "simm");
  Pair other(etcd, "other");
  other.await_map();

  // A key of the leader that no manager has made.
  put(etcd, "/simm/simm/leader", "squatter");
  REQUIRE(ours.manager.start());
  REQUIRE(eventually([&] { return has(ours.trouble(), "etcdctl del /simm/simm/leader"); },
                     kPatienceMs));
  CHECK(has(ours.manager.log(), "has no lease, so no manager made it"));
  CHECK_FALSE(ours.leads());
  CHECK(value_of(etcd, "/simm/simm/leader") == "squatter");
  (void)etcd.control("del /simm/simm/leader");
  REQUIRE(ours.storage.start());
  REQUIRE(eventually([&] { return uses_the_map_of(ours.storage, ours.manager); }, kPatienceMs));
  const std::uint64_t epoch = Managed::epoch(ours.manager);
  ours.end_manager();
  const std::string good = value_of(etcd, ours.state_key());
  CHECK(ours.file() == good);

  // A state of a newer release, and the other cluster's.
  std::string newer = good;
  newer[8] = 2;  // the format's version, as CLUSTER.md has it
  const std::string foreign = value_of(etcd, other.state_key());
  struct Case {
    std::string value;
    std::string words;
  };
  const Case cases[] = {
      {newer, "has format version 2, this release knows 1: run the release"},
      {foreign, "two clusters: write another cluster.name, or move that file away"},
      {"what somebody else keeps in this key, longer than the header of a state", "another magic"}};
  for (const Case& bad : cases) {
    CAPTURE(bad.words);
    put(etcd, ours.state_key(), bad.value);
    REQUIRE(ours.manager.start());
    REQUIRE(eventually([&] { return has(ours.trouble(), bad.words); }, kPatienceMs));
    CHECK(has(ours.manager.ask("errors"), bad.words.substr(0, 20)));
    CHECK_FALSE(ours.leads());
    // It does not keep the place of a manager that could use the state.
    REQUIRE(eventually([&] { return !has(etcd.control("get /simm/simm/leader"), "m at"); },
                       kPatienceMs));
    CHECK(value_of(etcd, ours.state_key()) == bad.value);
    CHECK(ours.file() == good);
    // Mended, without a restart.
    put(etcd, ours.state_key(), good);
    REQUIRE(eventually([&] { return ours.leads() && ours.trouble().empty(); }, kPatienceMs));
    CHECK(Managed::epoch(ours.manager) == epoch);
    ours.end_manager();
  }
  CHECK(value_of(etcd, "/simm/simm/notes") == "somebody's");
  CHECK(other.leads());
}
