// Managers and an etcd with TLS, certificates and passwords, which change under them; and keys in
// etcd that are somebody else's, another cluster's, or of a newer release.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/process/etcd/etcd_cluster.h"
#include "tests/support/command_output.h"
#include "tests/support/paths.h"
#include "tests/support/test_certificates.h"

namespace etcd_secured_managers_test {

using namespace etcd_processes;
using simm::test_support::CommandOutput;
using simm::test_support::output_of;
using simm::test_support::program;
using simm::test_support::TestCertificates;

// `keys`: of "manager", beside `listen`.
std::string check_etcd(const std::string& keys) {
  const TemporaryDirectory directory;
  std::ofstream(directory / "simm.json")
      << "{\"manager\": {\"listen\": \"127.0.0.1:1\", " << keys << "}}";
  const CommandOutput said =
      output_of(program("simmd") + " manager --check-etcd --config " + (directory / "simm.json"));
  return said.text + "status " + std::to_string(said.status);
}

void write_password(const std::string& path, const std::string& password) {
  std::ofstream(path) << password << "\n";
  REQUIRE(::chmod(path.c_str(), 0600) == 0);
}

bool has(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

// A manager, its trouble, as `simmctl managers` has it.
std::string trouble_of(const DaemonProcess& manager) {
  const auto rows = manager.report("managers")["managers"];
  return rows.empty() || !rows[0]["trouble"].is_string() ? "" : std::string(rows[0]["trouble"]);
}

}  // namespace etcd_secured_managers_test

TEST_CASE(
    "managers on an etcd with TLS and passwords: tokens end, secrets change, nobody restarts") {
  using namespace etcd_secured_managers_test;
  TestCertificates files;
  files.add_public("client");
  files.add("mine", "authority");
  files.add_authority("trusted");
  files.replace("trusted", "authority");
  EtcdProcess etcd(
      EtcdOptions{1,
                  files.directory(),
                  {},
                  {"--auth-token", "jwt,sign-method=ES256,pub-key=" + files.directory() +
                                       "/client.pub,priv-key=" + files.key("client") + ",ttl=1s"},
                  nullptr});
  for (const char* command :
       {"user add root:secret", "user grant-role root root", "user add simm:secret",
        "role add simm", "role grant-permission simm readwrite /simm/ --prefix=true",
        "user grant-role simm simm", "auth enable"}) {
    (void)etcd.control(command);
  }
  etcd.control_as(" --user=root:secret");
  const std::string password = files.directory() + "/password";
  write_password(password, "secret");
  const auto keys = [&](const std::string& authority, const std::string& certificate) {
    return etcd_keys(etcd.endpoints()) + ", \"etcd_ca_file\": \"" + files.file(authority) +
           "\", \"etcd_cert_file\": \"" + files.file(certificate) + "\", \"etcd_key_file\": \"" +
           files.key(certificate) + "\", \"etcd_user\": \"simm\", \"etcd_password_file\": \"" +
           password + "\"";
  };
  // Before any manager is started.
  CHECK(has(check_etcd(keys("trusted", "mine")), "no manager leads\nstatus 0"));
  files.add_authority("stranger");
  files.add("guest", "stranger");
  for (const auto& [wrong, words] : std::vector<std::pair<std::string, std::string>>{
           {keys("stranger", "mine"), "manager.etcd_ca_file = " + files.file("stranger")},
           {keys("trusted", "guest"), "manager.etcd_cert_file = " + files.file("guest")},
           {"\"etcd\": \"https://127.0.0.1:1\"", "manager.etcd = https://127.0.0.1:1 (Connection"},
           {"\"etcd\": \"http" + etcd.endpoints()[0].substr(5) + "\"", "write https://"},
           {"\"etcd\": \"http://127.0.0.1:1\", \"etcd_ca_file\": \"" + files.file("trusted") + "\"",
            "the files of TLS are for https:// only"}}) {
    const std::string said = check_etcd(wrong);
    INFO(said);
    CHECK(has(said, words));
    CHECK(has(said, "status 1"));
  }

  Managed cluster({keys("trusted", "mine"), keys("trusted", "mine")});
  cluster.start_managers();
  std::vector<std::unique_ptr<DaemonProcess>> members;
  const auto grow = [&] {
    members.push_back(cluster.storage("s" + std::to_string(members.size())));
    REQUIRE(members.back()->start());
    REQUIRE(eventually(
        [&] {
          const std::size_t leader = cluster.await_leader({0, 1});
          return uses_the_map_of(*members.back(), *cluster.managers[leader]) &&
                 cluster.managers[leader]->report("nodes")["nodes"].size() >= members.size();
        },
        kPatienceMs));
  };
  grow();
  // The password is another one in etcd, and then in the file.
  for (const char* command :
       {"user delete simm", "user add simm:new", "user grant-role simm simm"}) {
    (void)etcd.control(command);
  }
  const std::string wrong = "manager.etcd_user = simm";
  for (const auto& manager : cluster.managers) {
    REQUIRE(eventually([&] { return has(trouble_of(*manager), wrong); }, kPatienceMs));
    CHECK(has(manager->ask("errors"), "manager.etcd_password_file"));
    CHECK(has(manager->log(), wrong));
  }
  write_password(password, "new");
  grow();
  // etcd comes back with another authority and certificates of it; the managers' files follow.
  etcd.signal(0, SIGKILL);
  files.replace("authority", "stranger");
  files.add("server", "stranger");
  files.add("client", "stranger");
  files.add_public("client");
  etcd.restart(0);
  for (const auto& manager : cluster.managers) {
    REQUIRE(
        eventually([&] { return has(trouble_of(*manager), "manager.etcd_ca_file"); }, kPatienceMs));
  }
  files.replace("trusted", "stranger");
  for (const auto& manager : cluster.managers) {
    REQUIRE(eventually([&] { return has(trouble_of(*manager), "manager.etcd_cert_file"); },
                       kPatienceMs));
  }
  files.replace("mine", "guest");
  grow();
  for (const auto& manager : cluster.managers) {
    CHECK(eventually([&] { return trouble_of(*manager).empty(); }, kPatienceMs));
  }
}
