#include "daemon/base/config.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/base/config_table.h"
#include "ipc/text_list.h"
#include "tests/support/paths.h"

namespace config_test {

using namespace simm::base;

std::string error_of(const std::string& text) {
  auto config = parse_config(text, "simm.json");
  return config.has_value() ? "no error" : config.error().context;
}
bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("no file at all is a working configuration") {
  const Config config = default_config();
  REQUIRE(config.sockets.size() == 1);
  CHECK(config.sockets[0].path == config.run_directory + "/simm.sock");
  CHECK(config.sockets[0].mode == 0660);
  CHECK(config.node.pool_bytes.percent == 10);
  CHECK(config.store.lease_default_ms == 15'000);
  CHECK(config.session.lanes_default == 8);
  CHECK(config.store.eviction == EvictionKind::reuse);
  CHECK(config.memory.adopt);
  CHECK(config.metrics.listen.empty());
  CHECK(config.cluster.manager.empty());
  CHECK(config.cluster.detection_ms == 300);
  CHECK(config.manager.rejoin_grace_ms == 30'000);
  CHECK(parse_config("{}", "simm.json").has_value());
}

TEST_CASE("comments are skipped, and are in nobody's way inside a string") {
  auto config = parse_config(R"(// at the top
    {"drain_ms": 7, /* of a key */ "run_directory": "/a//b" // at the end
    })",
                             "simm.json");
  REQUIRE(config.has_value());
  CHECK(config->drain_ms == 7);
  CHECK(config->run_directory == "/a//b");
  CHECK(holds(error_of("{} /* without an end"), "not JSON"));
}

TEST_CASE("values arrive where they belong") {
  auto config = parse_config(R"({
    "threading": {"mode": "dedicated", "data_agents": 2, "cpus": [0, 1]},
    "wait": {"mode": "event"},
    "sockets": [{"path": "/a"}, {"path": "/b", "tenant": "blue", "mode": "0600"}],
    "tenants": [{"name": "blue", "uids": [1000], "in_flight_bytes_max": "2 MiB"}],
    "cluster": {"name": "blue", "secret_file": "/s", "manager": "m:1", "listen": "0.0.0.0:2",
                "advertise": "a:3", "node_name": "n", "detection_ms": 20,
                "connections_per_shard": 8},
    "manager": {"listen": "[::]:4", "state_file": "/f", "rejoin_grace_ms": 70,
                "member_timeout_ms": 60},
    "node": {"pool_bytes": "4GiB", "cache_bytes": "1MiB", "cache_linger_ms": 5},
    "store": {"verify": "always", "eviction": "fifo"}, "metrics": {"listen": "9470"},
    "log": {"level": "debug", "format": "json"}})",
                             "simm.json");
  REQUIRE(config.has_value());
  CHECK(config->threading.mode == Threading::dedicated);
  CHECK(config->threading.cpus == std::vector<std::int64_t>{0, 1});
  CHECK(config->wait.mode == WaitMode::event);
  CHECK(config->sockets[1].tenant == "blue");
  CHECK(config->sockets[1].mode == 0600);
  CHECK(config->tenants[0].uids == std::vector<std::int64_t>{1000});
  CHECK(config->tenants[0].in_flight_bytes_max == 2u << 20);
  CHECK(config->tenants[0].bandwidth_max_bytes_per_s == 0);
  CHECK(config->tenants[0].quota_percent == 100);
  CHECK(config->tenants[0].weight == 1);
  CHECK(config->node.pool_bytes.of(1) == 4ull << 30);
  CHECK(config->node.cache_bytes == 1u << 20);
  CHECK(config->node.cache_linger_ms == 5);
  CHECK(config->cluster.name == "blue");
  CHECK(config->cluster.secret_file == "/s");
  CHECK(config->cluster.manager == "m:1");
  CHECK(config->cluster.listen == "0.0.0.0:2");
  CHECK(config->cluster.advertise == "a:3");
  CHECK(config->cluster.node_name == "n");
  CHECK(config->cluster.detection_ms == 20);
  CHECK(config->cluster.connections_per_shard == 8);
  CHECK(config->manager.listen == "[::]:4");
  CHECK(config->manager.state_file == "/f");
  CHECK(config->manager.rejoin_grace_ms == 70);
  CHECK(config->manager.member_timeout_ms == 60);
  CHECK(config->store.verify == VerifyMode::always);
  CHECK(config->metrics.listen == "9470");
  CHECK(config->store.eviction == EvictionKind::fifo);
  CHECK(config->log.level == LogLevel::debug);
  CHECK(config->log.format == LogFormat::json);
}

TEST_CASE("managers and endpoints may be one text or a list of texts") {
  const auto list = parse_config(
      R"({"cluster": {"manager": ["a:1", "b:2"]}, "manager": {"etcd": "http://a:1, http://b:2"}})",
      "simm.json");
  REQUIRE(list.has_value());
  CHECK(simm::ipc::text_list(list->cluster.manager) == std::vector<std::string>{"a:1", "b:2"});
  CHECK(simm::ipc::text_list(list->manager.etcd) ==
        std::vector<std::string>{"http://a:1", "http://b:2"});
  CHECK(simm::ipc::text_list(" ,, a , ") == std::vector<std::string>{"a"});
  CHECK(simm::ipc::text_list("").empty());
  const std::string comma = error_of(R"({"cluster": {"manager": ["a:1", "b:2,c:3"]}})");
  CHECK(holds(comma, "cluster.manager[1] = "));
  CHECK(holds(comma, "b:2,c:3"));
  CHECK(holds(comma, "write a string without commas"));
  CHECK(holds(error_of(R"({"cluster": {"manager": [7]}})"), "cluster.manager[0] = 7"));
  CHECK(holds(error_of(R"({"cluster": {"manager": 7}})"), "cluster.manager = 7"));
}

TEST_CASE("two copies are for namespaces whose values never change, and more are refused") {
  const auto config = parse_config(
      R"({"namespaces": [{"name": "a", "immutable": true, "replicas": 2}, {"name": "b"},
                         {"name": "c", "replicas": 1}]})",
      "simm.json");
  REQUIRE(config.has_value());
  CHECK(config->namespaces[0].replicas == 2);
  CHECK(config->namespaces[1].replicas == 1);
  CHECK(config->namespaces[2].replicas == 1);
  // Where values change, one copy could be older than the other.
  for (const char* const immutable : {"", R"("immutable": false, )"}) {
    const std::string error = error_of(R"({"namespaces": [{"name": "b"}, {"name": "kv", )" +
                                       std::string(immutable) + R"("replicas": 2}]})");
    CHECK(holds(error, "simm.json: namespaces[].replicas of \"kv\" = 2"));
    CHECK(holds(error, "write immutable: true beside it"));
    CHECK(holds(error, "one copy could be older than the other"));
  }
  for (const char* const copies : {"3", "0", "-1"}) {
    const std::string error =
        error_of(R"({"namespaces": [{"name": "b"}, {"name": "a", "immutable": true, "replicas": )" +
                 std::string(copies) + "}]}");
    CHECK(holds(error, std::string("namespaces[1].replicas = ") + copies));
    CHECK(holds(error, "write an integer from 1 to 2"));
  }
}

TEST_CASE("an error names the file, the key, the value and the remedy") {
  const std::string unknown = error_of(R"({"store": {"lease_defualt_ms": 5}})");
  CHECK(holds(unknown, "simm.json: store.lease_defualt_ms = 5: unknown key; known here: "));
  CHECK(holds(unknown, "lease_default_ms"));
  const std::string type = error_of(R"({"session": {"lanes_default": "eight"}})");
  CHECK(holds(type, "session.lanes_default"));
  CHECK(holds(type, "write an integer from 1 to 64"));
  const std::string range = error_of(R"({"session": {"lanes_default": 65}})");
  CHECK(holds(range, "= 65: write an integer from 1 to 64"));
  CHECK(holds(error_of(R"({"wait": {"mode": "sleepy"}})"), "write one of: spin|adaptive|event"));
  CHECK(holds(error_of(R"({"tenants": [{"name": "a"}, {"uids": [1]}]})"), "tenants[1].name"));
  CHECK(holds(error_of(R"({"tenants": [{"name": "a"}, {"name": "a"}]})"), "once"));
  CHECK(holds(error_of(R"({"owners": [{"name": "a"}, {"name": "a"}]})"), "owners"));
  CHECK(holds(error_of(R"({"namespaces": [{"name": "a"}, {"name": "a", "immutable": true}]})"),
              "namespaces"));
  CHECK(holds(error_of(R"({"namespaces": [{"immutable": true}]})"), "namespaces[0].name"));
  CHECK(holds(error_of(R"({"owners": [{"pool_bytes_max": 1073741824}]})"), "owners[0].name"));
  CHECK(holds(error_of(R"({"tenants": [{"name": "a", "uids": [-1]}]})"), "tenants[0].uids[0]"));
  for (const char* const gpu : {"0", "GPU-", "GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a0"}) {
    CAPTURE(gpu);
    const std::string of_tenant =
        std::string(R"({"tenants": [{"name": "a", "gpu_lend": ["all", ")") + gpu + R"("]}]})";
    CHECK(holds(error_of(of_tenant), "tenants[0].gpu_lend"));
    CHECK(holds(error_of(of_tenant), "as nvidia-smi -L names them"));
  }
  CHECK(holds(error_of(R"({"tenants": [{"name": "a", "bandwidth_max": 1000}]})"), "64KiB"));
  CHECK(holds(error_of(R"({"sockets": [{"path": "/a", "mode": "0999"}]})"), "octal"));
  CHECK(holds(error_of(R"({"node": {"pool_bytes": "lots"}})"), "\\x22lots\\x22"));
  CHECK(holds(error_of(R"({"memory": {"touch_budget_bytes": "10%"}})"), "write a size"));
  CHECK(holds(error_of(R"({"memory": {"adopt": 1}})"), "write true or false"));
  CHECK(holds(error_of(R"({"store": {"lease_default_ms": 60001}})"), "store.lease_max_ms"));
  CHECK(holds(error_of(R"({"manager": {"member_timeout_ms": 50, "rejoin_grace_ms": 40}})"),
              "manager.member_timeout_ms = 50: write at most manager.rejoin_grace_ms"));
  CHECK(holds(error_of(R"({"bad\nkey": 1})"), "bad\\x0akey"));
  CHECK(holds(error_of(R"({"store": 3})"), "write an object"));
  CHECK(holds(error_of("[]"), "write an object"));
  CHECK(holds(error_of("{"), "not JSON"));
  CHECK(load_config("/nonexistent/simm.json").status() == simm::Status::io_error);
}

TEST_CASE("a key that has another name now is read by its former one, which a warning names") {
  auto config = parse_config(R"({"node": {"flight_linger_ms": 7}})", "simm.json");
  REQUIRE(config.has_value());
  CHECK(config->node.cache_linger_ms == 7);
  REQUIRE(config->warnings.size() == 1);
  CHECK(config->warnings[0] ==
        "node.flight_linger_ms is called node.cache_linger_ms now: rename the key in the file");

  config = parse_config(R"({"node": {"flight_linger_ms": 7, "cache_linger_ms": 8}})", "simm.json");
  REQUIRE_FALSE(config.has_value());
  CHECK(config.error().context ==
        "simm.json: node.flight_linger_ms = 7: leave this key out: node.cache_linger_ms is its "
        "new name");
  CHECK(parse_config(R"({"node": {"cache_linger_ms": 8}})", "simm.json")->warnings.empty());
}

TEST_CASE("of a NIC anything but its name may be left out") {
  auto config = parse_config(R"({"nics": [{"name": "mlx5_0"},
      {"name": "mlx5_1/2", "numa_node": 1, "speed_gbit_s": 400, "gpu": "00000000:1B:00.0",
       "gid_index": 3, "partition_key": 32769, "traffic_class": 106}]})",
                             "simm.json");
  REQUIRE_MESSAGE(config.has_value(), config.error().context);
  REQUIRE(config->nics.size() == 2);
  CHECK(config->nics[0].name == "mlx5_0");
  CHECK_FALSE(config->nics[0].numa_node.has_value());
  CHECK_FALSE(config->nics[0].speed_gbit_s.has_value());
  CHECK(config->nics[0].gpu.empty());
  CHECK(config->nics[1].numa_node == 1);
  CHECK(config->nics[1].speed_gbit_s == 400u);
  CHECK(config->nics[1].gpu == "0000:1b:00.0");
  CHECK_FALSE(config->nics[0].gid_index.has_value());
  CHECK(config->nics[1].gid_index == 3);
  CHECK(config->nics[1].partition_key == 32769u);
  CHECK(config->nics[1].traffic_class == 106u);
  CHECK(default_config().nics.empty());
}

TEST_CASE("an error in the list of NICs says where it is and what to write") {
  const auto of_list = [](const std::string& list) {
    return error_of(R"({"nics": [)" + list + "]}");
  };
  CHECK(holds(of_list(R"({"numa_node": 0})"), "nics[0].name = nothing: this key must be given"));
  CHECK(holds(of_list(R"({"name": "mlx5_0/0"})"), "nics[0].name"));
  CHECK(holds(of_list(R"({"name": "mlx5_0/0"})"), "write an RDMA device"));
  CHECK(holds(of_list(R"({"name": "a", "speed_gbit_s": 0})"),
              "nics[0].speed_gbit_s = 0: write an integer from 1 to 100000"));
  CHECK(holds(of_list(R"({"name": "a", "numa_node": null})"),
              "nics[0].numa_node = null: write an integer from 0 to 1023"));
  CHECK(holds(of_list(R"({"name": "a", "gpu": "cuda:0"})"), "write a PCI address"));
  CHECK(holds(of_list(R"({"name": "a", "speed": 400})"), "nics[0].speed = 400: unknown key"));
  const std::string twice = of_list(R"({"name": "a"}, {"name": "b/1"}, {"name": "b/1"})");
  CHECK(holds(twice, "nics[2].name = b/1: list each NIC once; nics[1].name is b/1"));
  CHECK(holds(of_list(R"({"name": "a"}, {"name": "a/2"})"), "nics[0].name is a"));
  CHECK(holds(of_list(R"({"name": "a/2"}, {"name": "a"})"), "nics[0].name is a/2"));
  CHECK(of_list(R"({"name": "a/1"}, {"name": "a/2"})") == "no error");
  std::string many;
  for (int i = 0; i < 65; ++i) {
    many += (i == 0 ? "" : ",") + (R"({"name": "a/)" + std::to_string(i + 1)) + "\"}";
  }
  CHECK(holds(of_list(many), "write a list of at most 64 objects"));
}

TEST_CASE("every key accepts its own default and refuses what is one past its range") {
  for (const KeySpec& key : config_keys()) {
    INFO(std::string(key.path));
    CHECK_FALSE(key.help.empty());
    if (key.path.find('[') != std::string_view::npos || key.type != KeyType::integer) continue;
    const std::string path(key.path);
    const std::size_t dot = path.find('.');
    const auto with = [&](std::int64_t value) {
      const std::string number = std::to_string(value);
      return dot == std::string::npos ? "{\"" + path + "\": " + number + "}"
                                      : "{\"" + path.substr(0, dot) + "\": {\"" +
                                            path.substr(dot + 1) + "\": " + number + "}}";
    };
    CHECK(holds(error_of(with(key.min - 1)), path));
    if (key.max < INT64_MAX) CHECK(holds(error_of(with(key.max + 1)), path));
  }
}

TEST_CASE("the manager's state outlives a reboot where the service manager keeps a directory") {
  ::unsetenv("STATE_DIRECTORY");
  const Config alone = default_config();
  CHECK(alone.manager.state_file == alone.run_directory + "/manager.state");
  for (const char* given : {"/var/lib/simm", "/var/lib/simm:/var/lib/other"}) {
    ::setenv("STATE_DIRECTORY", given, 1);
    CHECK(default_config().manager.state_file == "/var/lib/simm/manager.state");
  }
  ::setenv("STATE_DIRECTORY", "relative", 1);
  CHECK(default_config().manager.state_file == alone.manager.state_file);
  ::unsetenv("STATE_DIRECTORY");

  // It is one of the files beside the socket, unless somebody has put it elsewhere.
  Config moved = default_config();
  use_socket(moved, "/somewhere/simm.sock");
  CHECK(moved.manager.state_file == "/somewhere/manager.state");
  moved.manager.state_file = "/kept/state";
  use_socket(moved, "/elsewhere/simm.sock");
  CHECK(moved.manager.state_file == "/kept/state");
}

TEST_CASE("the committed schema is the generated one") {
  std::ifstream file(simm::test_support::source("config/simm.schema.json"));
  std::ostringstream committed;
  committed << file.rdbuf();
  const bool equal = committed.str() == config_schema();
  CHECK_MESSAGE(equal, "run: simmd --print-schema > config/simm.schema.json");
}

TEST_CASE("every key is known as it is in effect, and who said so") {
  const auto find = [](const Config& config, const std::string& path) {
    for (const EffectiveKey& key : config.keys) {
      if (key.path == path) return key.value + " " + key.from;
    }
    return std::string("nothing");
  };
  Config config = parse_config(R"({"drain_ms": 5, "tenants": [{"name": "a"}]})", "f").value();
  CHECK(find(config, "drain_ms") == "5 file");
  CHECK(find(config, "tenants[0].name") == "\"a\" file");
  CHECK(find(config, "tenants[0].quota_percent") == "100 default");
  CHECK(find(config, "admin_socket") == "\"" + config.admin_socket + "\" default");
  CHECK(find(config, "sockets[0].path") == "\"" + config.sockets[0].path + "\" default");
  use_socket(config, "/x/y.sock");
  CHECK(find(config, "sockets[0].path") == "\"/x/y.sock\" command line");
  CHECK(find(config, "run_directory") == "\"/x\" command line");
  // Every key of the table that is not of a list.
  for (const KeySpec& key : config_keys()) {
    if (key.path.find("[]") != std::string_view::npos) continue;
    CHECK_MESSAGE(find(config, std::string(key.path)) != "nothing", key.path);
  }
}

TEST_CASE("a role may need what the configuration as such does not") {
  const Config config = default_config();
  for (const char* name : {"all", "node", "manager", "adopt"}) {
    CHECK(check_for_role(config, parse_role(name).value()).has_value());
  }
  const simm::Outcome storage = check_for_role(config, Role::storage);
  CHECK(storage.status() == simm::Status::invalid_argument);
  CHECK(storage.error().context.find("cluster.manager") == 0);
  CHECK_FALSE(parse_role("king").has_value());
}

TEST_CASE("sizes are read as people write them") {
  CHECK(parse_bytes("4096") == 4096);
  CHECK(parse_bytes("64KiB") == 65536);
  CHECK(parse_bytes("1.5 GB") == 1'500'000'000);
  CHECK(parse_bytes("2g") == 2ull << 30);
  CHECK_FALSE(parse_bytes("").has_value());
  CHECK_FALSE(parse_bytes("-1").has_value());
  CHECK_FALSE(parse_bytes("1.2.3").has_value());
  CHECK_FALSE(parse_bytes("9999999TiB").has_value());
  CHECK_FALSE(parse_bytes("5 parsecs").has_value());
  CHECK(parse_byte_share("10%")->of(1000) == 100);
  CHECK_FALSE(parse_byte_share("0%").has_value());
  CHECK_FALSE(parse_byte_share("101%").has_value());
  CHECK(format_bytes(4ull << 30) == "4.0 GiB");
  CHECK(format_bytes(12) == "12 B");
}

}  // namespace config_test
