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
constexpr int kResourceExhausted = 8;

// etcd's answers are no deeper than half of that. Each level of what somebody else sends costs a
// hundred bytes.
constexpr int kAnswerDepthMax = 16;
// As a header carries it. Tokens of etcd have a hundred bytes, or some hundred with signatures.
constexpr std::size_t kTokenBytesMax = 8192;

bool is_deep(const std::string& body) {
  int depth = 0;
  bool is_text = false;
  for (std::size_t i = 0; i < body.size() && depth <= kAnswerDepthMax; ++i) {
    const char c = body[i];
    if (c == '"') is_text = !is_text;
    if (is_text && c == '\\') ++i;
    if (is_text) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
  }
  return depth > kAnswerDepthMax;
}

// Discarded: it is no JSON, or deeper than anything of etcd.
json parsed(const std::string& body) {
  if (is_deep(body)) return json(json::value_t::discarded);
  return json::parse(body, nullptr, false);
}

bool is_token(const std::string& text) {
  const auto fits = [](char c) { return c > ' ' && c < '\x7f'; };
  return text.size() <= kTokenBytesMax && std::all_of(text.begin(), text.end(), fits);
}

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

// All that etcd answers has one.
bool has_header(const json& said) {
  const auto header = said.find("header");
  return header != said.end() && header->is_object();
}

// What each answer says; nullopt: it has not the form of etcd's, whoever has sent it.

std::optional<std::optional<EtcdValue>> read_value(const json& said) {
  const auto found = said.find("kvs");
  if (!has_header(said)) return std::nullopt;
  if (found == said.end()) return std::optional<EtcdValue>();
  if (!found->is_array()) return std::nullopt;
  if (found->empty()) return std::optional<EtcdValue>();
  const json& entry = found->front();
  if (!entry.is_object()) return std::nullopt;
  auto bytes = http::from_base64(text_of(entry, "value"));
  if (!bytes) return std::nullopt;
  return EtcdValue{std::move(*bytes), number_of(entry, "create_revision"),
                   number_of(entry, "mod_revision"), number_of(entry, "lease")};
}

// The revision; 0: no condition was met.
std::optional<std::int64_t> read_put(const json& said) {
  if (!has_header(said)) return std::nullopt;
  const auto succeeded = said.find("succeeded");
  if (succeeded == said.end()) return 0;
  if (!succeeded->is_boolean()) return std::nullopt;
  if (!succeeded->get<bool>()) return 0;
  const std::int64_t revision = number_of(said["header"], "revision");
  return revision > 0 ? std::optional(revision) : std::nullopt;
}

std::optional<std::int64_t> read_lease(const json& said) {
  const std::int64_t lease = number_of(said, "ID");
  return has_header(said) && lease != 0 ? std::optional(lease) : std::nullopt;
}

std::optional<bool> read_kept(const json& said) {
  const auto result = said.find("result");
  if (result == said.end() || !result->is_object() || !has_header(*result)) return std::nullopt;
  return number_of(*result, "TTL") > 0;
}

std::optional<bool> read_revoked(const json& said) {
  return has_header(said) ? std::optional(true) : std::nullopt;
}

Error unclear(const std::string& path) {
  return {Status::incompatible, "etcd's answer to " + path + " has not the form of etcd 3.4's"};
}

// A key of the configuration and what it says.
std::string value_of(const char* key, const std::string& value) {
  return std::string("manager.") + key + " = " + (value.empty() ? "\"\"" : value);
}

bool has(const std::string& text, const char* words) {
  return text.find(words) != std::string::npos;
}

// A token ends by itself, with etcd's process, and with each change of a user or a role.
bool is_of_token(const std::string& said, int code) {
  return code == kUnauthenticated || has(said, "auth token") || has(said, "auth store is old");
}

}  // namespace

EtcdGateway::EtcdGateway(EtcdConfig config, std::unique_ptr<http::HttpClient> client)
    : config_(std::move(config)), client_(std::move(client)) {}
EtcdGateway::~EtcdGateway() = default;

Expected<std::unique_ptr<EtcdGateway>> EtcdGateway::make(EtcdConfig config) {
  SIMM_CHECK(!config.endpoints.empty());
  auto client = http::HttpClient::make(config.tls);
  if (!client) {
    const std::string& why = client.error().context;  // begins with a file
    const auto is_of = [&why](const std::string& file) { return why.rfind(file + ": ", 0) == 0; };
    const char* const key = is_of(config.tls.authorities)   ? "ca"
                            : is_of(config.tls.certificate) ? "cert"
                                                            : "key";
    return Error{client.status(), std::string("manager.etcd_") + key + "_file = " + why};
  }
  return std::unique_ptr<EtcdGateway>(new EtcdGateway(std::move(config), std::move(*client)));
}

std::string EtcdGateway::unreached(const http::HttpEndpoint& endpoint,
                                   const http::HttpFailure& failure) const {
  const std::string at = endpoint.text();
  const std::string why = " (" + base::sanitize(failure.error.context) + ")";
  switch (failure.cause) {
    case http::HttpCause::untrusted:
      return value_of("etcd_ca_file", config_.tls.authorities) + " does not vouch for " + at + why +
             ": name the authority of etcd's certificate";
    case http::HttpCause::another_name:
      return "manager.etcd = " + at + ": its certificate is another host's" + why +
             ": write a name that it has";
    case http::HttpCause::refused:
      return value_of("etcd_cert_file", config_.tls.certificate) + " is refused by " + at + why +
             ": name a certificate that etcd's --trusted-ca-file has signed";
    case http::HttpCause::no_tls:
      return "manager.etcd = " + at + why + ": if it does not speak TLS, write http://";
    case http::HttpCause::hung_up:
      return "manager.etcd = " + at + ": it hangs up: if it speaks TLS, write https://";
    case http::HttpCause::other:
      break;
  }
  return "manager.etcd = " + at + why + ": start etcd there, or name where it is";
}

Error EtcdGateway::no_json(const std::string& path, const std::string& body) const {
  // An etcd with users takes no certificate with a name here: it could not tell whose word counts.
  if (!has(body, "CommonName")) return unclear(path);
  return {Status::permission_denied,
          "manager.etcd_cert_file = " + config_.tls.certificate +
              " has a common name, which an etcd with users refuses: make one without CN in its "
              "subject"};
}

Error EtcdGateway::refused(const std::string& said, int code) const {
  const std::string user = value_of("etcd_user", config_.user) + ": ";
  const std::string text = "etcd says: " + base::sanitize(said);
  if (has(said, "is not enabled")) {
    return {Status::permission_denied, user + text + ": take the key out, or enable users in etcd"};
  }
  const bool is_denied = code == kPermissionDenied;
  const bool is_nameless = is_denied || has(said, "user name is empty") || is_of_token(said, code);
  if (config_.user.empty() && is_nameless) {
    return {Status::permission_denied,
            user + text +
                ": write it and manager.etcd_password_file; a certificate's name is not "
                "enough for etcd's gateway"};
  }
  if (is_denied) {
    return {Status::permission_denied,
            user + text + ": give it a role that reads and writes /simm/"};
  }
  if (has(said, "authentication failed") || is_of_token(said, code)) {
    return {Status::permission_denied,
            user + text + ": mend it, or what manager.etcd_password_file holds"};
  }
  if (code == kResourceExhausted && has(said, "space exceeded")) {
    return {Status::unreachable,
            text + ": make room by `etcdctl compact` and `defrag`, then `alarm disarm`"};
  }
  return {Status::unreachable, text};
}

bool EtcdGateway::post(const http::HttpEndpoint& endpoint, const http::HttpRequest& request,
                       base::TimeNs until_ns, http::HttpAnswer& answer,
                       http::HttpFailure& failure) {
  const base::RealClock clock;
  const base::TimeNs now_ns = clock.now_ns();
  const base::TimeNs limit_ns = std::max(until_ns, now_ns) - now_ns;
  if (client_->post(endpoint, request, limit_ns, answer, failure)) return true;
  failure.error.context = unreached(endpoint, failure);
  const bool is_of_files =
      failure.cause == http::HttpCause::untrusted || failure.cause == http::HttpCause::refused;
  // For the next call, if the files have been mended.
  if (is_of_files) (void)client_->read_again();
  return false;
}

template <typename Answer>
Expected<Answer> EtcdGateway::call(const std::string& path, const json& body, bool is_write,
                                   std::optional<Answer> (*read)(const json&)) {
  const base::RealClock clock;
  const base::TimeNs until_ns = clock.now_ns() + config_.call_ns;
  const std::size_t count = config_.endpoints.size();
  const base::TimeNs each_ns =
      std::max(kEndpointNsMin, config_.call_ns / static_cast<base::TimeNs>(count));
  Error last{Status::timeout, "etcd was not asked"};
  for (std::size_t i = 0; i < count; ++i) {
    const base::TimeNs now_ns = clock.now_ns();
    if (now_ns >= until_ns) break;
    const std::size_t at = (next_ + i) % count;
    bool is_final = is_write;
    auto said =
        ask(config_.endpoints[at], path, body, std::min(until_ns, now_ns + each_ns), is_final);
    if (said) {
      if (auto answer = read(*said)) {
        next_ = at;
        return std::move(*answer);
      }
      is_final = is_write;
      last = unclear(path);
    } else {
      last = std::move(said).error();
    }
    if (is_final) {
      next_ = (at + 1) % count;  // it may hang: another one is asked first the next time
      break;
    }
  }
  return last;
}

Expected<json> EtcdGateway::ask(const http::HttpEndpoint& endpoint, const std::string& path,
                                const json& body, base::TimeNs until_ns, bool& is_final) {
  const bool is_write = std::exchange(is_final, false);
  for (bool is_second = false;; is_second = true) {
    if (!config_.user.empty() && token_.empty()) {
      if (Outcome done = log_in(endpoint, until_ns); !done) return std::move(done).error();
    }
    http::HttpRequest request{path, base::json_text(body), {{"Grpc-Metadata-hasleader", "true"}}};
    if (!token_.empty()) request.headers.emplace_back("Authorization", token_);
    http::HttpAnswer answer;
    http::HttpFailure failure;
    if (!post(endpoint, request, until_ns, answer, failure)) {
      is_final = is_write && failure.is_sent;
      return failure.error;
    }
    json said = parsed(answer.body);
    if (said.is_discarded() || !said.is_object()) {
      is_final = is_write;
      return no_json(path, answer.body);
    }
    if (answer.status == 200) return said;
    const int code = static_cast<int>(number_of(said, "code"));
    const std::string text = text_of(said, "error");
    // Nothing was done: etcd asks for the token first.
    if (is_of_token(text, code) && !is_second && !config_.user.empty()) {
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

Outcome EtcdGateway::log_in(const http::HttpEndpoint& endpoint, base::TimeNs until_ns) {
  Outcome done = ask_token(endpoint, until_ns);
  if (done || done.status() != Status::permission_denied || !config_.read_password) return done;
  // The password may have been changed, in etcd and then in its file.
  auto password = config_.read_password();
  if (!password) return std::move(password).error();
  if (*password == config_.password) return done;
  config_.password = std::move(*password);
  return ask_token(endpoint, until_ns);
}

Outcome EtcdGateway::ask_token(const http::HttpEndpoint& endpoint, base::TimeNs until_ns) {
  const json body = {{"name", config_.user}, {"password", config_.password}};
  http::HttpAnswer answer;
  http::HttpFailure failure;
  if (!post(endpoint, {"/v3/auth/authenticate", base::json_text(body), {}}, until_ns, answer,
            failure)) {
    return failure.error;
  }
  const json said = parsed(answer.body);
  if (said.is_discarded() || !said.is_object()) {
    return no_json("/v3/auth/authenticate", answer.body);
  }
  std::string token = text_of(said, "token");
  if (!is_token(token)) return unclear("/v3/auth/authenticate");
  token_ = std::move(token);
  if (!token_.empty()) return Done{};
  return refused(text_of(said, "error"), static_cast<int>(number_of(said, "code")));
}

Expected<std::optional<EtcdValue>> EtcdGateway::get(const std::string& key) {
  return call("/v3/kv/range", {{"key", http::to_base64(key)}}, false, read_value);
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
  return call("/v3/kv/txn", body, true, read_put);
}

Expected<std::int64_t> EtcdGateway::grant(std::uint32_t ttl_s) {
  return call("/v3/lease/grant", {{"TTL", std::to_string(ttl_s)}, {"ID", "0"}}, true, read_lease);
}

Expected<bool> EtcdGateway::keep(std::int64_t lease) {
  return call("/v3/lease/keepalive", {{"ID", std::to_string(lease)}}, false, read_kept);
}

Outcome EtcdGateway::revoke(std::int64_t lease) {
  const auto done =
      call("/v3/kv/lease/revoke", {{"ID", std::to_string(lease)}}, true, read_revoked);
  if (!done) return done.error();
  return Done{};
}

}  // namespace simm::etcd
