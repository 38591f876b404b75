// EtcdGateway: EtcdCalls through etcd's JSON gateway (etcd 3.4 and
// later: POST /v3/...; keys and values in base64, 64-bit numbers as strings). Reads are
// linearizable, which is etcd's default.
//
// A call tries the endpoints in turn, first the one that answered last, and never takes longer than
// EtcdConfig::call_ns. What is not of etcd's form is no answer: somebody else may have taken an
// endpoint's place. A write is tried at another endpoint only while no endpoint can have heard of
// it. Each request says that the member must have a leader: else one that is cut off answers
// nothing.
//
// Errors name the key of the configuration, its value, and what to do. Certificates and passwords
// may be replaced: after a refusal their files are read again.
//
// Owned by whoever keeps something in etcd. Thread: one, which may wait.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/etcd/etcd_calls.h"
#include "daemon/http/http_client.h"
#include "simm/expected.h"

namespace simm::etcd {

inline constexpr base::TimeNs kCallNs = base::kNsPerSecond;

struct EtcdConfig {
  std::vector<http::HttpEndpoint> endpoints;  // at least one
  http::TlsFiles tls;
  std::string user;  // empty: etcd has no users
  std::string password;
  // Reads the password anew, after etcd has refused the one that was there; may be empty.
  std::function<Expected<std::string>()> read_password;
  base::TimeNs call_ns = kCallNs;
};

class EtcdGateway final : public EtcdCalls {
public:
  // invalid_argument: a file of TLS.
  static Expected<std::unique_ptr<EtcdGateway>> make(EtcdConfig config);
  ~EtcdGateway() override;
  EtcdGateway(const EtcdGateway&) = delete;
  EtcdGateway& operator=(const EtcdGateway&) = delete;

  Expected<std::optional<EtcdValue>> get(const std::string& key) override;
  Expected<std::int64_t> put_if(const std::vector<EtcdCondition>& conditions,
                                const EtcdPut& put) override;
  Expected<std::int64_t> grant(std::uint32_t ttl_s) override;
  Expected<bool> keep(std::int64_t lease) override;
  Outcome revoke(std::int64_t lease) override;

  [[nodiscard]] base::TimeNs call_ns() const noexcept { return config_.call_ns; }

private:
  EtcdGateway(EtcdConfig config, std::unique_ptr<http::HttpClient> client);

  // `read` says what an answer means; nullopt: it is none of etcd's, and counts as no answer.
  template <typename Answer>
  [[nodiscard]] Expected<Answer> call(const std::string& path, const nlohmann::json& body,
                                      bool is_write,
                                      std::optional<Answer> (*read)(const nlohmann::json&));
  [[nodiscard]] Expected<nlohmann::json> ask(const http::HttpEndpoint& endpoint,
                                             const std::string& path, const nlohmann::json& body,
                                             base::TimeNs until_ns, bool& is_final);
  Outcome log_in(const http::HttpEndpoint& endpoint, base::TimeNs until_ns);
  // One try, with the password that is known.
  Outcome ask_token(const http::HttpEndpoint& endpoint, base::TimeNs until_ns);
  bool post(const http::HttpEndpoint& endpoint, const http::HttpRequest& request,
            base::TimeNs until_ns, http::HttpAnswer& answer, http::HttpFailure& failure);
  [[nodiscard]] std::string unreached(const http::HttpEndpoint& endpoint,
                                      const http::HttpFailure& failure) const;
  [[nodiscard]] Error no_json(const std::string& path, const std::string& body) const;
  [[nodiscard]] Error refused(const std::string& said, int code) const;

  EtcdConfig config_;
  const std::unique_ptr<http::HttpClient> client_;
  std::size_t next_ = 0;  // the endpoint that is asked first
  std::string token_;
};

}  // namespace simm::etcd
