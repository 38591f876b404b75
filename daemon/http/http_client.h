// HttpClient: sends one request and waits for its answer, never longer than it is told. Each
// request has a connection of its own, so there is none that a peer or a firewall has forgotten.
//
// Boost.Beast, in one source: nothing else knows of it. Thread: one, never control or a data agent,
// because a look-up of a name can not be broken off.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/clock.h"
#include "daemon/http/http_endpoint.h"

namespace simm::http {

// Files of PEM; empty: the system's authorities, no certificate of one's own.
struct TlsFiles {
  std::string authorities;
  std::string certificate;
  std::string key;
};

struct HttpRequest {
  std::string target;  // "/v3/kv/range"
  std::string body;    // of application/json
  std::vector<std::pair<std::string, std::string>> headers;
};

struct HttpAnswer {
  unsigned status = 0;
  std::string body;
};

// What is to be known of a request that has no answer.
struct HttpFailure {
  Error error;
  bool is_sent = false;  // the server may have done what was asked
};

class HttpClient {
public:
  // invalid_argument names the file that can not be used. Files are read once.
  static Expected<std::unique_ptr<HttpClient>> make(const TlsFiles& files);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // POST. Answers longer than 4 MiB are failures. Look-up, connection, handshake and answer have
  // `limit_ns` together.
  bool post(const HttpEndpoint& to, const HttpRequest& request, base::TimeNs limit_ns,
            HttpAnswer& answer, HttpFailure& failure);

private:
  struct Tls;
  explicit HttpClient(std::unique_ptr<Tls> tls);

  std::unique_ptr<Tls> tls_;
};

}  // namespace simm::http
