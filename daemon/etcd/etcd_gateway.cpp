#include "daemon/etcd/etcd_gateway.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/base/json_text.h"
#include "daemon/base/real_clock.h"
#include "daemon/base/sanitize.h"
#include "daemon/http/base64.h"
#include "simm/check.h"

namespace simm::etcd {
namespace {

using nlohmann::json;

// An endpoint that says nothing leaves time for the others.
constexpr base::TimeNs kEndpointNsMin = 250 * base::kNsPerMs;
// Codes of gRPC, which the gateway passes on.
constexpr int kUnauthenticated = 16;
constexpr int kPermissionDenied = 7;
constexpr int kInvalidArgument = 3;

// A 64-bit number is a string in the gateway's JSON, and absent where it is 0.
std::int64_t number_of(const json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return 0;
  if (found->is_number_integer()) return found->get<std::int64_t>();
  if (!found->is_string()) return 0;
  const auto& text = found->get_ref<const std::string&>();
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

std::string text_of(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Error unclear(const std::string& path) {
  return {Status::incompatible, "etcd's answer to " + path + " has not the form of etcd 3.4's"};
}

Error refused(const std::string& said, int code) {
  const std::string text = "etcd says: " + base::sanitize(said);
  if (code == kPermissionDenied) {
    return {Status::permission_denied,
            text + ": give the user of manager.etcd_user a role that reads and writes /simm/"};
  }
  if (code == kUnauthenticated || code == kInvalidArgument) {
    return {Status::permission_denied,
            text +
                ": set manager.etcd_user and manager.etcd_password_file; etcd does not take "
                "the name in a certificate through its gateway"};
  }
  return {Status::unreachable, text};
}

}  // namespace

EtcdGateway::EtcdGateway(EtcdConfig config, std::unique_ptr<http::HttpClient> client)
    : config_(std::move(config)), client_(std::move(client)) {}
EtcdGateway::~EtcdGateway() = default;

Expected<std::unique_ptr<EtcdGateway>> EtcdGateway::make(EtcdConfig config) {
  SIMM_CHECK(!config.endpoints.empty());
  auto client = http::HttpClient::make(config.tls);
  if (!client) return std::move(client).error();
  return std::unique_ptr<EtcdGateway>(new EtcdGateway(std::move(config), std::move(*client)));
}

Expected<json> EtcdGateway::call(const std::string& path, const json& body, bool is_write) {
  const base::RealClock clock;
  const base::TimeNs until_ns = clock.now_ns() + kCallNs;
  const std::size_t count = config_.endpoints.size();
  const base::TimeNs each_ns = std::max(kEndpointNsMin, kCallNs / static_cast<base::TimeNs>(count));
  Error last{Status::timeout, "etcd was not asked"};
  for (std::size_t i = 0; i < count; ++i) {
    const base::TimeNs now_ns = clock.now_ns();
    if (now_ns >= until_ns) break;
    const std::size_t at = (next_ + i) % count;
    bool is_final = is_write;
    auto answer =
        ask(config_.endpoints[at], path, body, std::min(until_ns - now_ns, each_ns), is_final);
    if (answer) {
      next_ = at;
      return answer;
    }
    last = std::move(answer).error();
    if (is_final) {
      next_ = (at + 1) % count;  // it may hang: another one is asked first the next time
      break;
    }
  }
  return last;
}

Expected<json> EtcdGateway::ask(const http::HttpEndpoint& endpoint, const std::string& path,
                                const json& body, base::TimeNs limit_ns, bool& is_final) {
  const bool is_write = std::exchange(is_final, false);
  for (bool is_second = false;; is_second = true) {
    if (!config_.user.empty() && token_.empty()) {
      if (Outcome done = log_in(endpoint, limit_ns); !done) return std::move(done).error();
    }
    http::HttpRequest request{path, base::json_text(body), {{"Grpc-Metadata-hasleader", "true"}}};
    if (!token_.empty()) request.headers.emplace_back("Authorization", token_);
    http::HttpAnswer answer;
    http::HttpFailure failure;
    if (!client_->post(endpoint, request, limit_ns, answer, failure)) {
      is_final = is_write && failure.is_sent;
      return failure.error;
    }
    json said = json::parse(answer.body, nullptr, false);
    if (said.is_discarded() || !said.is_object()) return unclear(path);
    if (answer.status == 200) return said;
    const int code = static_cast<int>(number_of(said, "code"));
    const std::string text = text_of(said, "error");
    // A token ends by itself.
    const bool is_token = code == kUnauthenticated || text.find("auth token") != std::string::npos;
    if (is_token && !is_second && !config_.user.empty()) {
      token_.clear();
      continue;
    }
    Error error = refused(text, code);
    // A write without a leader is not begun; what else stands in its way may have come later.
    const bool is_begun = text.find("no leader") == std::string::npos;
    is_final = error.status != Status::unreachable || (is_write && is_begun);
    return error;
  }
}

Outcome EtcdGateway::log_in(const http::HttpEndpoint& endpoint, base::TimeNs limit_ns) {
  const json body = {{"name", config_.user}, {"password", config_.password}};
  http::HttpAnswer answer;
  http::HttpFailure failure;
  if (!client_->post(endpoint, {"/v3/auth/authenticate", base::json_text(body), {}}, limit_ns,
                     answer, failure)) {
    return failure.error;
  }
  const json said = json::parse(answer.body, nullptr, false);
  if (said.is_discarded() || !said.is_object()) return unclear("/v3/auth/authenticate");
  token_ = text_of(said, "token");
  if (!token_.empty()) return Done{};
  return refused(text_of(said, "error"), kUnauthenticated);
}

Expected<std::optional<EtcdValue>> EtcdGateway::get(const std::string& key) {
  const auto said = call("/v3/kv/range", {{"key", http::to_base64(key)}}, false);
  if (!said) return said.error();
  const auto found = said->find("kvs");
  if (found == said->end() || !found->is_array() || found->empty()) {
    return std::optional<EtcdValue>();
  }
  const json& entry = found->front();
  if (!entry.is_object()) return unclear("/v3/kv/range");
  auto bytes = http::from_base64(text_of(entry, "value"));
  if (!bytes) return unclear("/v3/kv/range");
  return std::optional(EtcdValue{std::move(*bytes), number_of(entry, "create_revision"),
                                 number_of(entry, "mod_revision")});
}

Expected<std::int64_t> EtcdGateway::put_if(const std::vector<EtcdCondition>& conditions,
                                           const EtcdPut& put) {
  json compare = json::array();
  for (const EtcdCondition& condition : conditions) {
    const bool is_creation = condition.what == EtcdCondition::What::created;
    compare.push_back(
        {{"key", http::to_base64(condition.key)},
         {"result", "EQUAL"},
         {"target", is_creation ? "CREATE" : "MOD"},
         {is_creation ? "create_revision" : "mod_revision", std::to_string(condition.revision)}});
  }
  json value = {{"key", http::to_base64(put.key)}, {"value", http::to_base64(put.bytes)}};
  if (put.lease != 0) value["lease"] = std::to_string(put.lease);
  const json body = {{"compare", std::move(compare)},
                     {"success", {{{"request_put", std::move(value)}}}}};
  const auto said = call("/v3/kv/txn", body, true);
  if (!said) return said.error();
  const auto header = said->find("header");
  if (header == said->end() || !header->is_object()) return unclear("/v3/kv/txn");
  if (!said->value("succeeded", false)) return std::int64_t{0};
  const std::int64_t revision = number_of(*header, "revision");
  if (revision <= 0) return unclear("/v3/kv/txn");
  return revision;
}

Expected<std::int64_t> EtcdGateway::grant(std::uint32_t ttl_s) {
  const auto said = call("/v3/lease/grant", {{"TTL", std::to_string(ttl_s)}, {"ID", "0"}}, true);
  if (!said) return said.error();
  const std::int64_t lease = number_of(*said, "ID");
  if (lease == 0) return unclear("/v3/lease/grant");
  return lease;
}

Expected<bool> EtcdGateway::keep(std::int64_t lease) {
  const auto said = call("/v3/lease/keepalive", {{"ID", std::to_string(lease)}}, false);
  if (!said) return said.error();
  const auto result = said->find("result");
  if (result == said->end() || !result->is_object()) return unclear("/v3/lease/keepalive");
  return number_of(*result, "TTL") > 0;
}

Outcome EtcdGateway::revoke(std::int64_t lease) {
  const auto said = call("/v3/kv/lease/revoke", {{"ID", std::to_string(lease)}}, true);
  if (!said) return said.error();
  return Done{};
}

}  // namespace simm::etcd
