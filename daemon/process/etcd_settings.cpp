#include "daemon/process/etcd_settings.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "ipc/fd.h"
#include "ipc/text_list.h"

namespace simm {
namespace {

// A line end at the end is not a part of it.
Expected<std::string> password_of(const std::string& path) {
  const std::string key = "manager.etcd_password_file = " + path;
  const ipc::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return system_error(key, errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return system_error(key, errno);
  if (!S_ISREG(info.st_mode) || (info.st_mode & 077) != 0) {
    return Error{Status::permission_denied, key + ": others may read it: chmod 600 " + path};
  }
  std::array<char, 1024> text{};
  const ssize_t got = ::read(file.get(), text.data(), text.size());
  if (got < 0) return system_error(key, errno);
  std::string password(text.data(), static_cast<std::size_t>(got));
  while (!password.empty() && (password.back() == '\n' || password.back() == '\r')) {
    password.pop_back();
  }
  if (password.empty() || static_cast<std::size_t>(got) == text.size()) {
    return Error{Status::invalid_argument, key + ": write a password of 1 to 1,000 bytes into it"};
  }
  return password;
}

Outcome check_tls(const decltype(base::Config::manager)& keys,
                  const std::vector<http::HttpEndpoint>& endpoints) {
  if (keys.etcd_cert_file.empty() != keys.etcd_key_file.empty()) {
    const bool has_file = !keys.etcd_cert_file.empty();
    return Error{Status::invalid_argument,
                 has_file ? "manager.etcd_cert_file = " + keys.etcd_cert_file +
                                ": name its key in manager.etcd_key_file too"
                          : "manager.etcd_key_file = " + keys.etcd_key_file +
                                ": name its certificate in manager.etcd_cert_file too"};
  }
  if (keys.etcd_ca_file.empty() && keys.etcd_cert_file.empty()) return Done{};
  for (const http::HttpEndpoint& endpoint : endpoints) {
    if (endpoint.tls) continue;
    return Error{Status::invalid_argument,
                 "manager.etcd = " + endpoint.text() +
                     ": the files of TLS are for https:// only: write that, or no "
                     "manager.etcd_ca_file and manager.etcd_cert_file"};
  }
  return Done{};
}

}  // namespace

Expected<etcd::EtcdConfig> etcd_settings(const base::Config& config) {
  etcd::EtcdConfig result;
  for (const std::string& text : ipc::text_list(config.manager.etcd)) {
    auto endpoint = http::HttpEndpoint::parse(text);
    if (!endpoint) {
      return Error{endpoint.status(), "manager.etcd: " + endpoint.error().context};
    }
    result.endpoints.push_back(std::move(*endpoint));
  }
  if (result.endpoints.empty()) {
    return Error{Status::invalid_argument, "manager.etcd = " + config.manager.etcd +
                                               ": name an endpoint, such as http://10.0.0.7:2379"};
  }
  result.tls = {config.manager.etcd_ca_file, config.manager.etcd_cert_file,
                config.manager.etcd_key_file};
  if (Outcome fits = check_tls(config.manager, result.endpoints); !fits) {
    return std::move(fits).error();
  }
  result.user = config.manager.etcd_user;
  if (result.user.empty() != config.manager.etcd_password_file.empty()) {
    return Error{Status::invalid_argument,
                 "manager.etcd_user = \"" + result.user +
                     "\": write it and manager.etcd_password_file, or neither"};
  }
  if (result.user.empty()) return result;
  auto password = password_of(config.manager.etcd_password_file);
  if (!password) return std::move(password).error();
  result.password = std::move(*password);
  result.read_password = [path = config.manager.etcd_password_file] { return password_of(path); };
  return result;
}

}  // namespace simm
