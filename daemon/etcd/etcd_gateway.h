// EtcdGateway: the calls of etcd that a manager needs, through etcd's JSON gateway (etcd 3.4 and
// later: POST /v3/...; keys and values in base64, 64-bit numbers as strings). Reads are
// linearizable, which is etcd's default.
//
// A call tries the endpoints in turn, first the one that answered last, and never takes longer than
// a second. A write is tried at another endpoint only while no endpoint can have heard of it. Each
// request says that the member must have a leader: else one that is cut off answers nothing.
//
// Owned by whoever keeps something in etcd. Thread: one, which may wait.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/http/http_client.h"
#include "simm/expected.h"

namespace simm::etcd {

inline constexpr base::TimeNs kCallNs = base::kNsPerSecond;

struct EtcdConfig {
  std::vector<http::HttpEndpoint> endpoints;  // at least one
  http::TlsFiles tls;
  std::string user;  // empty: etcd asks nobody who he is
  std::string password;
};

struct EtcdValue {
  std::string bytes;
  std::int64_t created = 0;  // revisions
  std::int64_t modified = 0;
};

// What must be so for a transaction to happen.
struct EtcdCondition {
  enum class What : std::uint8_t { created, modified };
  std::string key;
  What what = What::modified;
  std::int64_t revision = 0;  // 0 for created: there is no such key
};

struct EtcdPut {
  std::string key;
  std::string bytes;
  std::int64_t lease = 0;  // 0: none
};

class EtcdGateway {
public:
  // invalid_argument: a file of TLS.
  static Expected<std::unique_ptr<EtcdGateway>> make(EtcdConfig config);
  ~EtcdGateway();
  EtcdGateway(const EtcdGateway&) = delete;
  EtcdGateway& operator=(const EtcdGateway&) = delete;

  // nullopt: there is no such key.
  Expected<std::optional<EtcdValue>> get(const std::string& key);
  // The revision of the change; 0: a condition is not met, and nothing happened. An error with
  // Status::timeout or unreachable may have happened all the same, or may yet.
  Expected<std::int64_t> put_if(const std::vector<EtcdCondition>& conditions, const EtcdPut& put);
  // A lease's number.
  Expected<std::int64_t> grant(std::uint32_t ttl_s);
  // False: it is over.
  Expected<bool> keep(std::int64_t lease);
  // What has the lease is gone with it.
  Outcome revoke(std::int64_t lease);

private:
  EtcdGateway(EtcdConfig config, std::unique_ptr<http::HttpClient> client);

  [[nodiscard]] Expected<nlohmann::json> call(const std::string& path, const nlohmann::json& body,
                                              bool is_write);
  [[nodiscard]] Expected<nlohmann::json> ask(const http::HttpEndpoint& endpoint,
                                             const std::string& path, const nlohmann::json& body,
                                             base::TimeNs limit_ns, bool& is_final);
  Outcome log_in(const http::HttpEndpoint& endpoint, base::TimeNs limit_ns);

  const EtcdConfig config_;
  const std::unique_ptr<http::HttpClient> client_;
  std::size_t next_ = 0;  // the endpoint that is asked first
  std::string token_;
};

}  // namespace simm::etcd
