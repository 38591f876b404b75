#include "daemon/peers/cluster_settings.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/support/temporary_directory.h"

namespace cluster_settings_test {

using namespace simm;
using cluster::ClusterRole;
using control::ClusterSettings;
using test_support::TemporaryDirectory;

// A secret in a file of its own.
struct SecretFile {
  explicit SecretFile(char letter) {
    std::ofstream(path) << std::string(40, letter) << "0123456789";
    REQUIRE(::chmod(path.c_str(), 0600) == 0);
  }
  const TemporaryDirectory directory;
  const std::string path = directory / "cluster.secret";
};

base::Config config_with(const std::string& secret_file, const std::string& node_name = "here") {
  base::Config config = base::default_config();
  config.cluster.secret_file = secret_file;
  config.cluster.node_name = node_name;
  return config;
}

Expected<ClusterSettings> make(const base::Config& config, std::uint64_t seed = 1) {
  base::SeededRandom random(seed);
  return ClusterSettings::make(config, ClusterRole::storage, 3, random);
}

TEST_CASE("two daemons with the same secret agree on everything but who they are") {
  const SecretFile secret('s');
  const auto one = make(config_with(secret.path, "one"), 1);
  const auto two = make(config_with(secret.path, "two"), 2);
  REQUIRE(one.has_value());
  REQUIRE(two.has_value());
  CHECK(one->secret.is_secret());
  CHECK(one->self.cluster == "simm");
  CHECK(one->self.name == "one");
  CHECK(one->self.role == ClusterRole::storage);
  CHECK(one->self.shards == 3);
  CHECK(one->self.incarnation.is_set());
  CHECK(one->self.incarnation != two->self.incarnation);
  CHECK(one->hash_seed == two->hash_seed);
  CHECK(one->self.hash_seed_fingerprint == two->self.hash_seed_fingerprint);
}

TEST_CASE("a daemon asks five managers at most, because a new one waits for all of them") {
  const SecretFile secret('s');
  base::Config config = config_with(secret.path);
  config.cluster.manager = "a:1,b:1,c:1,d:1,e:1";
  CHECK(make(config).has_value());
  config.cluster.manager += ",f:1";
  const auto refused = make(config);
  CHECK(refused.status() == Status::invalid_argument);
  CHECK(refused.error().context.find("cluster.manager = a:1,b:1,c:1,d:1,e:1,f:1: ") == 0);
}

TEST_CASE("a secret can be a credential of the service manager") {
  const SecretFile secret('s');
  REQUIRE(::chmod(secret.path.c_str(), 0440) == 0);  // as systemd's access list looks

  const auto unset = make(config_with("@cluster.secret"));
  REQUIRE_FALSE(unset.has_value());
  CHECK(unset.error().context.find("LoadCredential=cluster.secret:") != std::string::npos);
  ::setenv("CREDENTIALS_DIRECTORY", secret.directory.path().c_str(), 1);
  CHECK_FALSE(make(config_with("@another")).has_value());
  CHECK_FALSE(make(config_with("@")).has_value());
  CHECK_FALSE(make(config_with("@../" + secret.path)).has_value());
  const auto given = make(config_with("@cluster.secret"));
  REQUIRE(given.has_value());
  CHECK(given->secret.is_secret());
  ::unsetenv("CREDENTIALS_DIRECTORY");
}

TEST_CASE("another secret, another name or a seed that is given is another hash seed") {
  const SecretFile secret('s'), other('o');
  const std::uint64_t seed = make(config_with(secret.path))->hash_seed;
  CHECK(make(config_with(other.path))->hash_seed != seed);
  CHECK(make(config_with(""))->hash_seed != seed);
  base::Config config = config_with(secret.path);
  config.cluster.name = "blue";
  CHECK(make(config)->hash_seed != seed);
  config.hash_seed = 77;
  const auto given = make(config);
  CHECK(given->hash_seed == 77);
  CHECK(given->self.hash_seed_fingerprint == given->secret.fingerprint_of(77));
}

TEST_CASE("what can not be used is named, with the remedy") {
  const auto error_of = [](const base::Config& config) {
    const auto made = make(config);
    return made ? std::string("no error") : made.error().context;
  };
  CHECK(error_of(config_with("", "a b")).find("cluster.node_name = a b: write 1 to 64") == 0);
  base::Config config = config_with("");
  config.cluster.name = "blue/green";
  CHECK(error_of(config).find("cluster.name = blue/green: write 1 to 64") == 0);
  CHECK(error_of(config_with("/nonexistent/secret")).find("cluster.secret_file: ") == 0);
  const SecretFile secret('s');
  REQUIRE(::chmod(secret.path.c_str(), 0644) == 0);
  CHECK(error_of(config_with(secret.path)).find("chmod 600") != std::string::npos);
}

TEST_CASE("what others dial is where it listens, unless somebody says otherwise") {
  struct Case {
    const char* advertise;
    const char* listening;
    const char* dialled;
  };
  const Case cases[] = {
      {"", "10.0.0.7:40000", "10.0.0.7:40000"},
      {"", "[fd00::7]:40000", "[fd00::7]:40000"},
      {"10.0.0.9", "0.0.0.0:40000", "10.0.0.9:40000"},
      {"10.0.0.9:50000", "0.0.0.0:40000", "10.0.0.9:50000"},
      {"10.0.0.9:0", "0.0.0.0:40000", "10.0.0.9:40000"},
      {"[fd00::9]", "[::]:40000", "[fd00::9]:40000"},
      {"host.example.org", "[::]:40000", "host.example.org:40000"},
      {"host.example.org:9", "[::]:40000", "host.example.org:9"},
  };
  for (const Case& one : cases) {
    CAPTURE(one.advertise);
    base::Config config = base::default_config();
    config.cluster.advertise = one.advertise;
    const auto address =
        control::advertised_address(config, *cluster::SocketAddress::parse(one.listening));
    REQUIRE(address.has_value());
    CHECK(control::dial_text(address->host, address->port) == one.dialled);
  }
  for (const char* listening : {"0.0.0.0:40000", "[::]:40000"}) {
    const auto address = control::advertised_address(base::default_config(),
                                                     *cluster::SocketAddress::parse(listening));
    CHECK(address.status() == Status::invalid_argument);
    CHECK(address.error().context.find("cluster.advertise") == 0);
  }
  // One configuration for many hosts.
  for (const char* advertise : {"{name}.storage.example.org", "{name}.storage.example.org:40000"}) {
    base::Config config = config_with("", "storage-7");
    config.cluster.advertise = advertise;
    const auto address =
        control::advertised_address(config, *cluster::SocketAddress::parse("0.0.0.0:40000"));
    REQUIRE(address.has_value());
    CHECK(control::dial_text(address->host, address->port) ==
          "storage-7.storage.example.org:40000");
    config.cluster.node_name = "a b";
    CHECK(control::advertised_address(config, *cluster::SocketAddress::parse("0.0.0.0:40000"))
              .error()
              .context.find("cluster.node_name = a b") == 0);
  }
  for (const char* advertise : {"fd00::9", ":9", "host:port", "host:70000"}) {
    CAPTURE(advertise);
    base::Config config = base::default_config();
    config.cluster.advertise = advertise;
    const auto address =
        control::advertised_address(config, *cluster::SocketAddress::parse("127.0.0.1:1"));
    CHECK(address.status() == Status::invalid_argument);
  }
}

}  // namespace cluster_settings_test
