#include "daemon/http/http_client.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include <chrono>
#include <optional>
#include <utility>

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

namespace simm::http {
namespace {

namespace beast = boost::beast;
using boost::asio::ip::tcp;
using Code = boost::system::error_code;
using Deadline = std::chrono::steady_clock::time_point;

constexpr std::uint64_t kAnswerBytesMax = 4 << 20;

// Operations of one request, one after the other, until its deadline. What an operation uses has to
// live until wait() returns, and no longer.
class Exchange {
public:
  explicit Exchange(Deadline deadline) : deadline_(deadline), socket_(io_), resolver_(io_) {}

  [[nodiscard]] beast::tcp_stream& stream() noexcept { return socket_; }
  [[nodiscard]] tcp::resolver& resolver() noexcept { return resolver_; }

  // Starts an operation and waits for its end. `start` is given the handler.
  template <typename Start>
  Code wait(Start start) {
    std::optional<Code> done;
    start([&done](Code failed, auto&&...) { done = failed; });
    io_.restart();
    io_.run_until(deadline_);
    if (done) return *done;
    Code ignored;
    socket_.socket().close(ignored);
    resolver_.cancel();
    io_.restart();
    io_.run();
    return boost::asio::error::timed_out;
  }

private:
  const Deadline deadline_;
  boost::asio::io_context io_{1};
  beast::tcp_stream socket_;
  tcp::resolver resolver_;
};

}  // namespace

struct HttpClient::Tls {
  boost::asio::ssl::context context{boost::asio::ssl::context::tls_client};
};

HttpClient::HttpClient(TlsFiles files, std::unique_ptr<Tls> tls)
    : files_(std::move(files)), tls_(std::move(tls)) {}
HttpClient::~HttpClient() = default;

Expected<std::unique_ptr<HttpClient::Tls>> HttpClient::read(const TlsFiles& files) {
  auto tls = std::make_unique<Tls>();
  Code failed;
  const auto wrong = [&failed](const std::string& file) {
    return Error{Status::invalid_argument, file + ": " + failed.message() + ": name a PEM file"};
  };
  tls->context.set_verify_mode(boost::asio::ssl::verify_peer);
  if (files.authorities.empty()) {
    tls->context.set_default_verify_paths(failed);
    failed = {};  // without authorities no server is trusted, and the first request says so
  } else if (tls->context.load_verify_file(files.authorities, failed); failed) {
    return wrong(files.authorities);
  }
  if (!files.certificate.empty()) {
    tls->context.use_certificate_chain_file(files.certificate, failed);
    if (failed) return wrong(files.certificate);
    tls->context.use_private_key_file(files.key, boost::asio::ssl::context::pem, failed);
    if (failed) return wrong(files.key);
  }
  return tls;
}

Expected<std::unique_ptr<HttpClient>> HttpClient::make(const TlsFiles& files) {
  auto tls = read(files);
  if (!tls) return std::move(tls).error();
  return std::unique_ptr<HttpClient>(new HttpClient(files, std::move(*tls)));
}

Outcome HttpClient::read_again() {
  auto tls = read(files_);
  if (!tls) return std::move(tls).error();
  tls_ = std::move(*tls);
  return Done{};
}

namespace {

// What the other side says of a handshake.
bool is_alert(const Code& failed) {
  return failed.category() == boost::asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(failed.value())) > SSL_AD_REASON_OFFSET;
}

HttpCause cause_of(const Code& failed, const SSL* stream) {
  if (is_alert(failed)) return HttpCause::refused;
  switch (SSL_get_verify_result(stream)) {
    case X509_V_OK:
      break;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return HttpCause::another_name;
    default:
      return HttpCause::untrusted;
  }
  // A server that does not understand the first message of TLS hangs up. What it said before is
  // lost when the rest of that message meets its closed socket.
  const bool is_end = failed == boost::asio::ssl::error::stream_truncated ||
                      failed == boost::asio::error::connection_reset;
  if (is_end && SSL_is_init_finished(stream) == 0) return HttpCause::no_tls;
  if (failed.category() != boost::asio::error::get_ssl_category()) return HttpCause::other;
  const int reason = ERR_GET_REASON(static_cast<unsigned long>(failed.value()));
  const bool is_foreign = reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST;
  return is_foreign ? HttpCause::no_tls : HttpCause::other;
}

// The name, or the address, that the server's certificate must have.
bool expect_name(SSL* stream, const std::string& host) {
  Code is_name;
  boost::asio::ip::make_address(host, is_name);
  if (!is_name) return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(stream), host.c_str()) == 1;
  return SSL_set1_host(stream, host.c_str()) == 1 &&
         SSL_set_tlsext_host_name(stream, host.c_str()) == 1;
}

template <typename Stream>
Code talk(Exchange& exchange, Stream& stream, const HttpEndpoint& to, const HttpRequest& asked,
          HttpAnswer& answer, bool& is_sent) {
  beast::http::request<beast::http::string_body> request{beast::http::verb::post, asked.target, 11};
  request.set(beast::http::field::host, to.host + ":" + to.port);
  request.set(beast::http::field::content_type, "application/json");
  request.set(beast::http::field::connection, "close");
  for (const auto& [name, value] : asked.headers) request.set(name, value);
  request.body() = asked.body;
  request.prepare_payload();
  is_sent = true;
  const Code unwritten = exchange.wait(
      [&](auto handler) { beast::http::async_write(stream, request, std::move(handler)); });
  if (unwritten == boost::asio::error::timed_out) return unwritten;
  // A server that takes nothing may have said why.
  beast::flat_buffer buffer;
  beast::http::response_parser<beast::http::string_body> parser;
  parser.body_limit(kAnswerBytesMax);
  // In one step Beast 1.74 forgets that a body is too long when some of it came with its header.
  Code failed = exchange.wait([&](auto handler) {
    beast::http::async_read_header(stream, buffer, parser, std::move(handler));
  });
  if (!failed) {
    failed = exchange.wait(
        [&](auto handler) { beast::http::async_read(stream, buffer, parser, std::move(handler)); });
  }
  if (failed) return unwritten && !is_alert(failed) ? unwritten : failed;
  answer.status = parser.get().result_int();
  answer.body = std::move(parser.get().body());
  return {};
}

Code reach(Exchange& exchange, const HttpEndpoint& to) {
  Code failed;
  const auto address = boost::asio::ip::make_address(to.host, failed);
  if (!failed) {
    const auto port = static_cast<std::uint16_t>(std::stoul(to.port));
    return exchange.wait([&](auto handler) {
      exchange.stream().async_connect(tcp::endpoint(address, port), std::move(handler));
    });
  }
  tcp::resolver::results_type found;
  failed = exchange.wait([&](auto handler) {
    exchange.resolver().async_resolve(
        to.host, to.port, [&found, handler](Code code, tcp::resolver::results_type results) {
          found = std::move(results);
          handler(code);
        });
  });
  if (failed) return failed;
  return exchange.wait(
      [&](auto handler) { exchange.stream().async_connect(found, std::move(handler)); });
}

}  // namespace

bool HttpClient::post(const HttpEndpoint& to, const HttpRequest& request, base::TimeNs limit_ns,
                      HttpAnswer& answer, HttpFailure& failure) {
  Exchange exchange(std::chrono::steady_clock::now() + std::chrono::nanoseconds(limit_ns));
  failure = {};
  Code failed = reach(exchange, to);
  std::string words;
  if (!failed && to.tls) {
    boost::asio::ssl::stream<beast::tcp_stream&> stream(exchange.stream(), tls_->context);
    SSL* const end = stream.native_handle();
    if (!expect_name(end, to.host)) failed = boost::asio::error::no_memory;
    if (!failed) {
      failed = exchange.wait([&](auto handler) {
        stream.async_handshake(boost::asio::ssl::stream_base::client, std::move(handler));
      });
    }
    if (!failed) failed = talk(exchange, stream, to, request, answer, failure.is_sent);
    failure.cause = failed ? cause_of(failed, end) : HttpCause::other;
    // OpenSSL keeps apart what went wrong, and why no certificate was good enough.
    const long verified = SSL_get_verify_result(end);
    if (verified != X509_V_OK) words = X509_verify_cert_error_string(verified);
  } else if (!failed) {
    failed = talk(exchange, exchange.stream(), to, request, answer, failure.is_sent);
    if (failed == beast::http::error::end_of_stream) failure.cause = HttpCause::hung_up;
  }
  if (!failed) return true;
  const bool is_late = failed == boost::asio::error::timed_out;
  if (words.empty()) words = is_late ? "no answer in time" : failed.message();
  failure.error = {is_late ? Status::timeout : Status::unreachable, std::move(words)};
  return false;
}

}  // namespace simm::http
