// HttpClient: sends one request and waits for its answer, never longer than it is told. Each
// request has a connection of its own, so there is none that a peer or a firewall has forgotten.
//
// Boost.Beast, in one source: nothing else knows of it. Thread: one, never control or a data agent,
// because a look-up of a name can not be broken off.
#pragma once

#include <cstdint>
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

// Why a request has no answer, as far as somebody can mend it.
enum class HttpCause : std::uint8_t {
  other,         // not reached, late, or it broke off
  untrusted,     // the server's certificate has no known authority, or is out of date
  another_name,  // the server's certificate is for another host
  refused,       // the server does not take our certificate, or wants one
  hung_up,       // http://, and no word came: a server that speaks TLS does so
  no_tls,        // https://, and what came is no TLS, or the end
};

// What is to be known of a request that has no answer.
struct HttpFailure {
  Error error;
  HttpCause cause = HttpCause::other;
  bool is_sent = false;  // the server may have done what was asked
};

class HttpClient {
public:
  // invalid_argument begins with the file that can not be used.
  static Expected<std::unique_ptr<HttpClient>> make(const TlsFiles& files);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  // POST. Answers longer than 4 MiB are failures. Look-up, connection, handshake and answer have
  // `limit_ns` together.
  bool post(const HttpEndpoint& to, const HttpRequest& request, base::TimeNs limit_ns,
            HttpAnswer& answer, HttpFailure& failure);
  // Reads the files anew, which may have been replaced. On an error nothing changes.
  Outcome read_again();

private:
  struct Tls;
  HttpClient(TlsFiles files, std::unique_ptr<Tls> tls);
  static Expected<std::unique_ptr<Tls>> read(const TlsFiles& files);

  const TlsFiles files_;
  std::unique_ptr<Tls> tls_;
};

}  // namespace simm::http
