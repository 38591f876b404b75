#include "daemon/peers/cluster_settings.h"

#include <unistd.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/secret_file.h"
#include "daemon/cluster/membership.h"
#include "ipc/text_list.h"

namespace simm::control {
namespace {

Error wrong(const std::string& key, const std::string& value, const std::string& remedy) {
  return {Status::invalid_argument, key + " = " + value + ": " + remedy};
}

std::string host_name() {
  std::array<char, 256> name{};
  // A longer name is cut without an end.
  if (::gethostname(name.data(), name.size() - 1) != 0) return "";
  return name.data();
}

Expected<std::string> name_of_daemon(const base::Config& config) {
  const std::string remedy = "write 1 to 64 letters, digits, dots, dashes and underscores";
  if (!config.cluster.node_name.empty()) {
    if (cluster::is_cluster_name(config.cluster.node_name)) return config.cluster.node_name;
    return wrong("cluster.node_name", config.cluster.node_name, remedy);
  }
  std::string name = host_name();
  if (cluster::is_cluster_name(name)) return name;
  return wrong("cluster.node_name", "nothing",
               "the name of this host is not fit for a daemon's; " + remedy);
}

// With the name of this daemon where the configuration leaves a place for it.
Expected<std::string> advertised_text(const base::Config& config) {
  constexpr std::string_view kPlace = "{name}";
  std::string text = config.cluster.advertise;
  const std::size_t at = text.find(kPlace);
  if (at == text.npos) return text;
  const auto name = name_of_daemon(config);
  if (!name) return name.error();
  return text.replace(at, kPlace.size(), *name);
}

Expected<cluster::ClusterSecret> secret_of(const base::Config& config) {
  const std::string& file = config.cluster.secret_file;
  if (file.empty()) return cluster::ClusterSecret::none();
  const auto path = base::secret_path("cluster.secret_file", file);
  if (!path) return path.error();
  return cluster::ClusterSecret::load(*path, base::credentials_directory());
}

}  // namespace

Expected<ClusterSettings> ClusterSettings::make(const base::Config& config,
                                                cluster::ClusterRole role, std::uint16_t shards,
                                                base::Random& random) {
  if (!cluster::is_cluster_name(config.cluster.name)) {
    return wrong("cluster.name", config.cluster.name,
                 "write 1 to 64 letters, digits, dots, dashes and underscores");
  }
  const std::size_t managers = ipc::text_list(config.cluster.manager).size();
  if (managers > cluster::kManagersMax) {
    return wrong("cluster.manager", config.cluster.manager,
                 "these are " + std::to_string(managers) + " managers; list " +
                     std::to_string(cluster::kManagersMax) + " at most");
  }
  auto name = name_of_daemon(config);
  if (!name) return std::move(name).error();
  auto secret = secret_of(config);
  if (!secret) return std::move(secret).error();

  ClusterSettings settings{std::move(*secret), {}, config.hash_seed};
  if (settings.hash_seed == 0) {
    settings.hash_seed = settings.secret.hash_seed_of(config.cluster.name);
  }
  settings.self.cluster = config.cluster.name;
  settings.self.name = std::move(*name);
  settings.self.incarnation = cluster::Incarnation::draw(random);
  settings.self.process = static_cast<std::uint32_t>(random.next() >> (64 - cluster::kProcessBits));
  settings.self.role = role;
  settings.self.shards = shards;
  settings.self.features =
      cluster::kFeatureFrameTags | cluster::kFeatureRailPlaces | cluster::kFeaturePathProof |
      cluster::kFeatureLongPings | cluster::kFeatureMapDeltas | cluster::kFeatureMovedPuts |
      cluster::kFeatureDrains | cluster::kFeatureTraces | cluster::kFeatureMovedTells;
  settings.self.hash_seed_fingerprint = settings.secret.fingerprint_of(settings.hash_seed);
  return settings;
}

Expected<cluster::HostAndPort> advertised_address(const base::Config& config,
                                                  const cluster::SocketAddress& listening) {
  const auto text = advertised_text(config);
  if (!text) return text.error();
  const std::string& wanted = *text;
  if (wanted.empty()) {
    auto own = cluster::split_host_port(listening.text());
    if (own->host != "0.0.0.0" && own->host != "::") return *own;
    return wrong("cluster.advertise", "nothing",
                 "cluster.listen takes connections to every address of this host; write the one "
                 "that other daemons shall dial, for example 10.0.0.7");
  }
  auto given = cluster::split_host_port(wanted);
  if (!given) given = cluster::split_host_port(wanted + ":0");
  if (!given || given->host.empty()) {
    return wrong("cluster.advertise", wanted,
                 "write for example 10.0.0.7, 10.0.0.7:30002, [fd00::7]:30002 or "
                 "storage-1.example.org");
  }
  if (given->port == 0) given->port = listening.port();
  return *given;
}

std::string dial_text(const std::string& host, std::uint16_t port) {
  const bool is_v6 = host.find(':') != std::string::npos;
  return (is_v6 ? "[" + host + "]:" : host + ":") + std::to_string(port);
}

}  // namespace simm::control
