#include "daemon/base/config.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <utility>

#include "daemon/base/choice.h"
#include "daemon/base/config_table.h"
#include "daemon/base/json_text.h"
#include "daemon/base/limits.h"
#include "daemon/base/nic_name.h"
#include "daemon/base/sanitize.h"
#include "ipc/cuda/gpu_name.h"
#include "ipc/text_list.h"

namespace simm::base {
namespace {

using nlohmann::json;

// A mistake on its way to becoming an Error. It is thrown and caught inside this file only, because
// the checks are deep in a recursion over somebody's file.
struct Mistake {
  std::string path;
  std::string value;
  std::string remedy;
};

std::string shown(const json& value) {
  return sanitize(value.dump(-1, ' ', true, json::error_handler_t::replace), 80);
}

std::string range_of(const KeySpec& key) {
  return std::to_string(key.min) + " to " + std::to_string(key.max);
}

std::int64_t checked_integer(const json& value, const KeySpec& key, const std::string& path) {
  const std::string remedy = "write an integer from " + range_of(key);
  if (!value.is_number_integer()) throw Mistake{path, shown(value), remedy};
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{INT64_MAX}) {
    throw Mistake{path, shown(value), remedy};
  }
  const auto number = value.get<std::int64_t>();
  if (number < key.min || number > key.max) throw Mistake{path, shown(value), remedy};
  return number;
}

ByteShare checked_bytes(const json& value, const KeySpec& key, const std::string& path) {
  const bool share_allowed = key.type == KeyType::bytes_or_share;
  const std::string remedy = std::string("write a size such as 1048576, \"64MiB\"") +
                             (share_allowed ? ", \"4GiB\" or \"10%\"" : " or \"4GiB\"") +
                             ", from " + format_bytes(static_cast<std::uint64_t>(key.min)) +
                             " to " + format_bytes(static_cast<std::uint64_t>(key.max));
  ByteShare share;
  if (value.is_string()) {
    const auto parsed = parse_byte_share(value.get<std::string>());
    if (!parsed || (parsed->percent != 0 && !share_allowed)) {
      throw Mistake{path, shown(value), remedy};
    }
    share = *parsed;
  } else if (value.is_number_unsigned()) {
    share.bytes = value.get<std::uint64_t>();
  } else {
    throw Mistake{path, shown(value), remedy};
  }
  const bool in_range = share.bytes >= static_cast<std::uint64_t>(key.min) &&
                        share.bytes <= static_cast<std::uint64_t>(key.max);
  if (share.percent == 0 && !in_range) throw Mistake{path, shown(value), remedy};
  return share;
}

std::uint32_t checked_choice(const json& value, const KeySpec& key, const std::string& path) {
  const std::string remedy = "write one of: " + std::string(key.choices);
  if (!value.is_string()) throw Mistake{path, shown(value), remedy};
  const auto text = value.get<std::string>();
  if (const auto found = find_choice(key.choices, text)) return *found;
  throw Mistake{path, shown(value), remedy};
}

std::string checked_text(const json& value, const KeySpec& key, const std::string& path) {
  const std::string remedy = "write a string of " + range_of(key) + " printable characters";
  if (!value.is_string()) throw Mistake{path, shown(value), remedy};
  auto text = value.get<std::string>();
  const auto length = static_cast<std::int64_t>(text.size());
  if (length < key.min || length > key.max || sanitize(text, text.size() + 8) != text) {
    throw Mistake{path, shown(value), remedy};
  }
  const bool octal = text.find_first_not_of("01234567") == std::string::npos;
  if (key.path == "sockets[].mode" && !octal) {
    throw Mistake{path, shown(value), "write permission bits in octal, such as \"0660\""};
  }
  if (key.path == "nics[].name" && !NicName::parse(text)) {
    throw Mistake{path, shown(value),
                  "write an RDMA device, such as \"mlx5_0\", or a port of one, \"mlx5_0/1\"; "
                  "simmctl nics names those that there are"};
  }
  if (key.path == "tenants[].gpu_lend") {
    for (const std::string& name : ipc::text_list(text)) {
      if (name == "all" || ipc::parse_gpu_name(name)) continue;
      throw Mistake{path, shown(json(name)),
                    "write GPUs as nvidia-smi -L names them, "
                    "\"GPU-a0a1a2a3-a4a5-a6a7-a8a9-aaabacadaeaf\", or \"all\""};
    }
  }
  if (key.path == "nics[].gpu") {
    const auto address = parse_pci_address(text);
    if (!address) {
      throw Mistake{path, shown(value), "write a PCI address, such as \"0000:1b:00.0\""};
    }
    return *address;
  }
  return text;
}

// One text of all elements, with commas between them.
std::string checked_texts(const json& value, const KeySpec& key, const std::string& path) {
  if (!value.is_array()) return checked_text(value, key, path);
  std::string all;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const std::string element = path + "[" + std::to_string(i) + "]";
    const bool is_text = value[i].is_string() && !value[i].get_ref<const std::string&>().empty();
    if (!is_text || value[i].get_ref<const std::string&>().find(',') != std::string::npos) {
      throw Mistake{element, shown(value[i]), "write a string without commas"};
    }
    if (i > 0) all += ',';
    all += value[i].get_ref<const std::string&>();
  }
  return checked_text(json(all), key, path);
}

KeyValue checked_value(const json& value, const KeySpec& key, const std::string& path) {
  KeyValue result;
  switch (key.type) {
    case KeyType::boolean:
      if (!value.is_boolean()) throw Mistake{path, shown(value), "write true or false"};
      result.flag = value.get<bool>();
      break;
    case KeyType::integer:
      result.number = checked_integer(value, key, path);
      break;
    case KeyType::bytes:
    case KeyType::bytes_or_share:
      result.share = checked_bytes(value, key, path);
      break;
    case KeyType::text:
      result.text = checked_text(value, key, path);
      break;
    case KeyType::texts:
      result.text = checked_texts(value, key, path);
      break;
    case KeyType::choice:
      result.choice = checked_choice(value, key, path);
      break;
    case KeyType::integers:
      if (!value.is_array() || value.size() > 1024) {
        throw Mistake{path, shown(value), "write a list of at most 1024 integers"};
      }
      for (std::size_t i = 0; i < value.size(); ++i) {
        const std::string element = path + "[" + std::to_string(i) + "]";
        result.list.push_back(checked_integer(value[i], key, element));
      }
      break;
  }
  return result;
}

// Splits "section.key", "list[].key" and "key".
struct KeyPath {
  std::string section;  // empty for a key of the top level
  std::string key;
  bool list = false;
};
KeyPath split(std::string_view path) {
  const std::size_t dot = path.find('.');
  if (dot == std::string_view::npos) return {"", std::string(path), false};
  const bool list = path[dot - 1] == ']';
  return {std::string(path.substr(0, list ? dot - 2 : dot)), std::string(path.substr(dot + 1)),
          list};
}

// What a file says of the key `full`, by its name or by the one that it had before.
json::const_iterator by_either_name(Config& config, const json& object, json::const_iterator given,
                                    const std::string& former, const std::string& full) {
  const auto old = object.find(former);
  if (old == object.end()) return given;
  const std::string old_path = full.substr(0, full.rfind('.') + 1) + former;
  if (given != object.end()) {
    throw Mistake{old_path, shown(*old), "leave this key out: " + full + " is its new name"};
  }
  config.warnings.push_back(old_path + " is called " + full + " now: rename the key in the file");
  return old;
}

// All keys of one object (a section, an element of a list, or the top level): given or default.
void read_object(Config& config, const json& object, const std::string& section, bool list,
                 std::size_t element, const std::string& prefix) {
  if (!object.is_object()) throw Mistake{prefix, shown(object), "write an object: { ... }"};
  std::set<std::string> known;
  for (const KeySpec& key : config_keys()) {
    const KeyPath path = split(key.path);
    if (path.section != section) {
      if (section.empty()) known.insert(path.section);
      continue;
    }
    known.insert(path.key);
    const std::string full = prefix.empty() ? path.key : prefix + "." + path.key;
    auto given = object.find(path.key);
    if (const std::string former(former_name(key.path)); !former.empty()) {
      known.insert(former);
      given = by_either_name(config, object, given, former, full);
    }
    if (given == object.end() && key.fallback.empty()) {
      throw Mistake{full, "nothing", "this key must be given"};
    }
    const json value = given != object.end() ? *given : json::parse(key.fallback);
    if (given != object.end() || !value.is_null()) {
      key.assign(config, list ? element : 0, checked_value(value, key, full));
    }
    config.keys.push_back({full, json_text(value), given != object.end() ? "file" : "default"});
  }
  for (const auto& [name, value] : object.items()) {
    if (known.count(name) != 0) continue;
    std::string all;
    for (const std::string& other : known) all += (all.empty() ? "" : ", ") + other;
    const std::string clean = sanitize(name, 80);
    throw Mistake{prefix.empty() ? clean : prefix + "." + clean, shown(value),
                  "unknown key; known here: " + all};
  }
}

template <typename Element>
void read_list(Config& config, std::vector<Element>& elements, const json& root,
               const std::string& section, std::size_t count_max) {
  const auto given = root.find(section);
  if (given == root.end()) return;
  if (!given->is_array() || given->size() > count_max) {
    throw Mistake{section, shown(*given),
                  "write a list of at most " + std::to_string(count_max) + " objects"};
  }
  elements.resize(given->size());
  for (std::size_t i = 0; i < given->size(); ++i) {
    read_object(config, (*given)[i], section, true, i, section + "[" + std::to_string(i) + "]");
  }
}

// No port may be described twice, be it by itself and as one of all of its device.
void check_nics(const std::vector<NicConfig>& nics) {
  for (std::size_t i = 0; i < nics.size(); ++i) {
    const auto name = NicName::parse(nics[i].name).value();
    for (std::size_t other = 0; other < i; ++other) {
      if (!name.overlaps(NicName::parse(nics[other].name).value())) continue;
      const std::string path = "nics[" + std::to_string(i) + "].name";
      throw Mistake{
          path, nics[i].name,
          "list each NIC once; nics[" + std::to_string(other) + "].name is " + nics[other].name};
    }
  }
}

// What no single key can say.
void check_together(const Config& config) {
  if (config.store.lease_default_ms > config.store.lease_max_ms) {
    throw Mistake{"store.lease_default_ms", std::to_string(config.store.lease_default_ms),
                  "write at most store.lease_max_ms"};
  }
  if (config.engine.fence_budget_min_ms > config.engine.fence_budget_max_ms) {
    throw Mistake{"engine.fence_budget_min_ms", std::to_string(config.engine.fence_budget_min_ms),
                  "write at most engine.fence_budget_max_ms"};
  }
  if (config.manager.member_timeout_ms > config.manager.rejoin_grace_ms) {
    throw Mistake{"manager.member_timeout_ms", std::to_string(config.manager.member_timeout_ms),
                  "write at most manager.rejoin_grace_ms"};
  }
  const std::pair<const char*, const std::string*> of_readers[] = {
      {"metrics.token_file", &config.metrics.token_file},
      {"metrics.host_names", &config.metrics.host_names}};
  for (const auto& [key, value] : of_readers) {
    if (value->empty() || !config.metrics.listen.empty()) continue;
    throw Mistake{key, *value, "set metrics.listen as well: without it nothing is shown"};
  }
  if (config.trace.endpoint.empty() && !config.trace.ca_file.empty()) {
    throw Mistake{"trace.ca_file", config.trace.ca_file,
                  "set trace.endpoint as well: without it nobody is told of traces"};
  }
  if (config.trace.endpoint.empty() && config.trace.one_in != 0) {
    throw Mistake{"trace.one_in", std::to_string(config.trace.one_in),
                  "set trace.endpoint as well: without it nobody is told of traces"};
  }
  std::set<std::string> names;
  for (const TenantConfig& tenant : config.tenants) {
    if (!names.insert(tenant.name).second) {
      throw Mistake{"tenants", tenant.name, "name each tenant once"};
    }
    const std::uint64_t bandwidth = tenant.bandwidth_max_bytes_per_s;
    if (bandwidth != 0 && bandwidth < kBandwidthBytesMin) {
      throw Mistake{"tenants[].bandwidth_max of " + tenant.name, std::to_string(bandwidth),
                    "write at least 64KiB, or 0 for no limit"};
    }
  }
  std::set<std::pair<std::string, std::string>> name_spaces;
  for (const NamespaceConfig& name_space : config.namespaces) {
    if (!name_spaces.insert({name_space.tenant, name_space.name}).second) {
      throw Mistake{"namespaces", name_space.name,
                    "name each namespace of tenant " + name_space.tenant + " once"};
    }
    if (name_space.replicas > 1 && !name_space.immutable) {
      throw Mistake{"namespaces[].replicas of \"" + name_space.name + "\"",
                    std::to_string(name_space.replicas),
                    "write immutable: true beside it, if its keys are hashes of the values; where "
                    "values change, one copy could be older than the other"};
    }
  }
  std::set<std::string> owners;
  for (const OwnerConfig& owner : config.owners) {
    if (!owners.insert(owner.name).second) {
      throw Mistake{"owners", owner.name, "name each daemon once"};
    }
  }
  std::set<std::string> paths;
  for (const SocketConfig& socket : config.sockets) {
    if (!paths.insert(socket.path).second) {
      throw Mistake{"sockets", socket.path, "list each path once"};
    }
  }
  check_nics(config.nics);
}

// A key that nobody gave and that follows from others.
template <typename Value>
void fill_in(Config& config, std::string& key, std::string_view path, const Value& value) {
  if (!key.empty()) return;
  key = value;
  note_override(config, path, json_text(json(value)), "default");
}

std::string default_state_file(const Config& config) {
  return state_directory(config) + "/manager.state";
}

Config config_of(const json& root) {
  Config config;
  read_object(config, root, "", false, 0, "");
  std::set<std::string> sections;
  for (const KeySpec& key : config_keys()) {
    const KeyPath path = split(key.path);
    if (path.section.empty() || path.list || !sections.insert(path.section).second) continue;
    const auto given = root.find(path.section);
    const json object = given != root.end() ? *given : json::object();
    read_object(config, object, path.section, false, 0, path.section);
  }
  read_list(config, config.sockets, root, "sockets", kSocketsMax);
  read_list(config, config.tenants, root, "tenants", kTenantsMax);
  read_list(config, config.namespaces, root, "namespaces", kNamespacesConfiguredMax);
  read_list(config, config.nics, root, "nics", kNicsConfiguredMax);
  read_list(config, config.owners, root, "owners", kOwnersListedMax);
  check_together(config);

  fill_in(config, config.run_directory, "run_directory", default_run_directory());
  const std::string directory = config.run_directory + "/";
  if (config.sockets.empty()) {
    config.sockets.push_back({directory + "simm.sock", "", 0660});
    note_override(config, "sockets[0].path", json_text(json(config.sockets[0].path)), "default");
  }
  fill_in(config, config.admin_socket, "admin_socket", directory + "admin.sock");
  fill_in(config, config.counters_file, "counters_file", directory + "counters");
  fill_in(config, config.manager.state_file, "manager.state_file", default_state_file(config));
  return config;
}

}  // namespace

std::string default_run_directory() {
  if (::geteuid() == 0) return "/run/simm";
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/') return std::string(runtime) + "/simm";
  return "/tmp/simm-" + std::to_string(::geteuid());
}

std::string state_directory(const Config& config) {
  // Several are separated by colons; ours is the first one.
  const char* kept = std::getenv("STATE_DIRECTORY");
  if (kept == nullptr || *kept != '/') return config.run_directory;
  const std::string_view all(kept);
  return std::string(all.substr(0, all.find(':')));
}

void use_socket(Config& config, const std::string& path) {
  const bool is_state_elsewhere = config.manager.state_file != default_state_file(config);
  const std::size_t slash = path.rfind('/');
  config.run_directory = slash == std::string::npos ? "." : path.substr(0, slash);
  config.sockets = {{path, "", 0660}};
  config.admin_socket = config.run_directory + "/admin.sock";
  config.counters_file = config.run_directory + "/counters";
  if (!is_state_elsewhere) config.manager.state_file = default_state_file(config);
  const auto is_of_a_socket = [](const EffectiveKey& key) {
    return key.path.compare(0, 8, "sockets[") == 0;
  };
  config.keys.erase(std::remove_if(config.keys.begin(), config.keys.end(), is_of_a_socket),
                    config.keys.end());
  const std::pair<const char*, const std::string*> changed[] = {
      {"sockets[0].path", &path},
      {"run_directory", &config.run_directory},
      {"admin_socket", &config.admin_socket},
      {"counters_file", &config.counters_file}};
  for (const auto& [key, value] : changed) {
    note_override(config, key, json_text(json(*value)), "command line");
  }
  if (!is_state_elsewhere) {
    note_override(config, "manager.state_file", json_text(json(config.manager.state_file)),
                  "default");
  }
}

void note_override(Config& config, std::string_view path, std::string_view value,
                   std::string_view from) {
  const auto found = std::find_if(config.keys.begin(), config.keys.end(),
                                  [path](const EffectiveKey& key) { return key.path == path; });
  const EffectiveKey noted{std::string(path), std::string(value), std::string(from)};
  if (found == config.keys.end()) {
    config.keys.push_back(noted);
  } else {
    *found = noted;
  }
}

std::optional<Role> parse_role(std::string_view name) noexcept {
  const auto found = find_choice(kRoleNames, name);
  return found ? std::optional(static_cast<Role>(*found)) : std::nullopt;
}

Outcome check_for_role(const Config& config, Role role) {
  if (role == Role::storage && config.cluster.manager.empty()) {
    return Error{Status::invalid_argument,
                 "cluster.manager = nothing: a storage daemon needs a cluster; write where its "
                 "manager listens, for example 10.0.0.7:30001"};
  }
  return Done{};
}

Config default_config() {
  return config_of(json::object());
}

Expected<Config> parse_config(std::string_view text, const std::string& file) {
  try {
    return config_of(json::parse(text, nullptr, true, true));  // comments are skipped
  } catch (const Mistake& mistake) {
    return Error{Status::invalid_argument,
                 file + ": " + mistake.path + " = " + mistake.value + ": " + mistake.remedy};
  } catch (const json::exception& wrong) {
    return Error{Status::invalid_argument, file + ": not JSON: " + sanitize(wrong.what())};
  }
}

Expected<Config> load_config(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return Error{Status::io_error, path + ": can not be read as a configuration file"};
  }
  return parse_config(text.str(), path);
}

}  // namespace simm::base
