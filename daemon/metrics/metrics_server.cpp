#include "daemon/metrics/metrics_server.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/metrics/page_files.h"

namespace simm::control {
namespace {

namespace http = boost::beast::http;
using boost::system::error_code;

constexpr int kHttpBacklog = 64;
constexpr base::TimeNs kHttpAcceptAgainNs = 100 * base::kNsPerMs;  // others may free descriptors
// How long, and how much, is still read after the last answer: closing a socket with unread bytes
// resets the connection, and the answer may be lost with that.
constexpr base::TimeNs kLingerNs = 1 * base::kNsPerSecond;
constexpr int kLingerReads = 64;

struct Answer {
  unsigned code = 200;
  std::string_view reason = "OK";
  std::string_view more = {};  // header lines
  std::string_view type = "text/plain; charset=utf-8";
  MetricsPage::Text body;
};

MetricsPage::Text line(const std::string& text) {
  return std::make_shared<const std::string>(text + "\n");
}

Answer yes_or(const std::string& why_not, const char* yes) {
  if (why_not.empty()) return {200, "OK", {}, "text/plain; charset=utf-8", line(yes)};
  return {503, "Service Unavailable", {}, "text/plain; charset=utf-8", line(why_not)};
}

Answer refused(const ReaderRules::Refusal& why) {
  return {why.code, why.reason, why.more, "text/plain; charset=utf-8", line(why.text)};
}

Answer refusal(unsigned code, std::string_view reason, const std::string& text,
               std::string_view more = {}) {
  return {code, reason, more, "text/plain; charset=utf-8", line(text)};
}

constexpr std::string_view kStatusPath = "/status.json";

// Null: it is none of the files of the status page.
const PageFile* page_file(std::string_view path) {
  const std::vector<PageFile>& files = page_files();
  const auto found = std::find_if(files.begin(), files.end(),
                                  [path](const PageFile& file) { return file.path == path; });
  return found == files.end() ? nullptr : &*found;
}

Answer answer_to(MetricsPage& page, std::string_view path) {
  if (path == "/metrics") return {200, "OK", {}, kMetricsContentType, page.metrics()};
  if (path == "/healthz") return yes_or(page.not_alive(), "alive");
  if (path == "/readyz") return yes_or(page.not_ready(), "ready");
  return refusal(404, "Not Found", "there are /, /metrics, /healthz and /readyz");
}

// A port of all addresses shows those of IPv4 as a part of IPv6.
boost::asio::ip::address plain(const boost::asio::ip::address& address) {
  if (!address.is_v6() || !address.to_v6().is_v4_mapped()) return address;
  return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6());
}

std::string head_of(const Answer& answer, bool keep_alive) {
  std::string head = "HTTP/1.1 " + std::to_string(answer.code) + " ";
  head += answer.reason;
  head += "\r\nContent-Type: ";
  head += answer.type;
  head += "\r\nContent-Length: " + std::to_string(answer.body->size()) + "\r\n";
  head += answer.more;
  head += keep_alive ? "\r\n" : "Connection: close\r\n\r\n";
  return head;
}

}  // namespace

// One reader: waits for a request, answers it, and so on. Handlers keep it alive; after close()
// they do nothing.
class MetricsServer::Connection : public std::enable_shared_from_this<Connection> {
public:
  Connection(MetricsServer& server, boost::asio::ip::tcp::socket socket)
      : server_(&server), socket_(std::move(socket)), deadline_(server.io_) {}

  void start() {
    limit(server_->times_.header_ns);
    read();
  }

  // Forgotten by its server.
  void close() {
    server_ = nullptr;
    deadline_.cancel();
    error_code ignored;
    socket_.close(ignored);
  }

  std::uint64_t turn = 0;  // its key in the server's map

private:
  void limit(base::TimeNs time_ns) {
    deadline_.after(time_ns, [this] { hang_up(); });
  }

  // Without an answer.
  void hang_up() {
    if (server_ == nullptr) return;
    if (!is_lingering_) server_->count(0);
    server_->forget(*this);
  }

  void wait_for_request() {
    server_->touch(*this);
    if (buffer_.size() > 0) {
      limit(server_->times_.header_ns);
      return read();
    }
    // Nobody owes another request, so one that ends here has done nothing wrong.
    deadline_.after(server_->times_.idle_ns, [this] { server_->forget(*this); });
    socket_.async_wait(boost::asio::ip::tcp::socket::wait_read,
                       [self = shared_from_this()](const error_code& failed) {
                         if (failed || self->server_ == nullptr) return;
                         self->is_idle_ = true;
                         self->limit(self->server_->times_.header_ns);
                         self->read();
                       });
  }

  void read() {
    parser_.emplace();
    parser_->header_limit(kHeaderBytesMax);
    http::async_read_header(socket_, buffer_, *parser_,
                            [self = shared_from_this()](const error_code& failed, std::size_t) {
                              if (self->server_ != nullptr) self->on_header(failed);
                            });
  }

  void on_header(const error_code& failed) {
    const bool was_idle = std::exchange(is_idle_, false);
    if (failed == http::error::end_of_stream && was_idle) return server_->forget(*this);
    if (failed == http::error::header_limit || failed == http::error::buffer_overflow) {
      return last(refusal(431, "Request Header Fields Too Large", "a header of at most 8 KiB"));
    }
    // Beast's own errors say what is wrong with the request; others, that there is nobody.
    if (failed && failed.category() == http::make_error_code(http::error::bad_method).category() &&
        failed != http::error::end_of_stream && failed != http::error::partial_message) {
      return last(refusal(400, "Bad Request", "not HTTP: " + failed.message()));
    }
    if (failed) return hang_up();
    const auto& request = parser_->get();
    if (parser_->chunked() || parser_->content_length().value_or(0) > 0) {
      return last(refusal(413, "Content Too Large", "a request has no body here"));
    }
    if (request.version() >= 11 && request.count(http::field::host) != 1) {
      return last(refusal(400, "Bad Request", "one Host header, please"));
    }
    const std::string_view target = view(request.target());
    const std::string_view path = target.substr(0, target.find('?'));
    const PageFile* const file = page_file(path);
    const bool is_of_page = server_->rules_ && (file != nullptr || path == kStatusPath);
    const std::string_view host = view(request[http::field::host]);
    const bool is_strange = here().is_loopback() && !host.empty() && !is_address_or_localhost(host);
    if (is_strange && !is_of_page) {
      return last(
          refusal(400, "Bad Request", "on loopback the Host header is an address or localhost"));
    }
    const bool is_head = request.method() == http::verb::head;
    if (request.method() != http::verb::get && !is_head) {
      return last(refusal(405, "Method Not Allowed", "GET or HEAD", "Allow: GET, HEAD\r\n"));
    }
    if (is_of_page) return show(file, request.keep_alive(), is_head);
    send(answer_to(server_->page_, path), request.keep_alive(), is_head);
  }

  // A file of the status page, or what the page shows: null.
  void show(const PageFile* file, bool keep_alive, bool is_head) {
    const Reader reader = who_reads();
    const auto why_not = file != nullptr ? server_->rules_->refuse_page(reader)
                                         : server_->rules_->refuse_status(reader);
    if (why_not) return send(refused(*why_not), keep_alive, is_head);
    if (file != nullptr) {
      return send({200, "OK", kPageHeaders, file->type, file->body}, keep_alive, is_head);
    }
    limit(server_->times_.write_ns);
    // Not kept for the figures, which may be late: others have its place meanwhile.
    server_->status_->tell([whose = weak_from_this(), keep_alive, is_head](auto text) {
      const auto self = whose.lock();
      if (self == nullptr || self->server_ == nullptr) return;
      self->send({200, "OK", kPageHeaders, "application/json", std::move(text)}, keep_alive,
                 is_head);
    });
  }

  [[nodiscard]] Reader who_reads() const {
    const auto& request = parser_->get();
    error_code unknown;
    Reader reader;
    reader.host = view(request[http::field::host]);
    reader.origin = view(request[http::field::origin]);
    reader.site = view(request["Sec-Fetch-Site"]);
    reader.authorization = view(request[http::field::authorization]);
    reader.address = here().to_string();
    const auto there = socket_.remote_endpoint(unknown);
    reader.is_local = here().is_loopback() && !unknown && plain(there.address()).is_loopback();
    return reader;
  }

  [[nodiscard]] boost::asio::ip::address here() const {
    error_code unknown;
    return plain(socket_.local_endpoint(unknown).address());
  }

  // Boost's view of a text as the standard's.
  template <typename View>
  static std::string_view view(const View& text) {
    return {text.data(), text.size()};
  }

  // After a request that is wrong nobody knows where the next one begins.
  void last(const Answer& answer) { send(answer, false, false); }

  void send(const Answer& answer, bool keep_alive, bool is_head) {
    server_->count(answer.code);
    limit(server_->times_.write_ns);
    head_ = head_of(answer, keep_alive);
    body_ = answer.body;
    const std::array<boost::asio::const_buffer, 2> parts = {
        boost::asio::buffer(head_),
        is_head ? boost::asio::const_buffer() : boost::asio::buffer(*body_)};
    boost::asio::async_write(
        socket_, parts,
        [self = shared_from_this(), keep_alive](const error_code& failed, std::size_t) {
          if (self->server_ == nullptr) return;
          self->body_.reset();
          if (failed) return self->server_->forget(*self);
          keep_alive ? self->wait_for_request() : self->linger();
        });
  }

  void linger() {
    is_lingering_ = true;
    limit(kLingerNs);
    error_code ignored;
    socket_.shutdown(boost::asio::ip::tcp::socket::shutdown_send, ignored);
    skip(kLingerReads);
  }

  void skip(int reads) {
    socket_.async_read_some(
        boost::asio::buffer(skipped_),
        [self = shared_from_this(), reads](const error_code& failed, std::size_t) {
          if (self->server_ == nullptr) return;
          if (failed || reads == 0) return self->server_->forget(*self);
          self->skip(reads - 1);
        });
  }

  MetricsServer* server_;  // null: forgotten
  boost::asio::ip::tcp::socket socket_;
  Deadline deadline_;
  boost::beast::flat_buffer buffer_{kHeaderBytesMax + 1024};
  std::optional<http::request_parser<http::empty_body>> parser_;
  std::string head_;
  MetricsPage::Text body_;
  std::array<char, 4096> skipped_{};
  bool is_idle_ = false;  // it had nothing to say for a while, which is nobody's mistake
  bool is_lingering_ = false;
};

MetricsServer::MetricsServer(boost::asio::io_context& io, base::CounterSet& counters,
                             base::LimitCounters& limits, MetricsPage& page, Times times)
    : io_(io),
      limits_(limits),
      page_(page),
      times_(times),
      readable_(io),
      retry_(io),
      answers_(answers(counters)) {}

MetricsServer::Answers MetricsServer::answers(base::CounterSet& counters) {
  Answers made;
  for (const unsigned code : kCodes) {
    const std::string text = code == 0 ? "none" : std::to_string(code);
    made[code] =
        counters.counter("metrics.requests." + text,
                         {"simm_metrics_requests_total",
                          "Answers of this endpoint by HTTP status; none: hung up on without one."},
                         "code=" + text);
  }
  return made;
}

MetricsServer::~MetricsServer() {
  stop();
}

void MetricsServer::show_status(ReaderRules rules, StatusSource& source) {
  rules_ = std::move(rules);
  status_ = &source;
}

Outcome MetricsServer::listen(const std::string& where) {
  const bool is_port = where.find_first_not_of("0123456789") == std::string::npos;
  const auto wanted = cluster::SocketAddress::parse(is_port ? "127.0.0.1:" + where : where);
  if (!wanted) {
    return Error{Status::invalid_argument, "metrics.listen = " + where +
                                               ": write a numeric address and a port, for example "
                                               "127.0.0.1:9470 or [::]:9470, or a port alone"};
  }
  auto socket = listen_tcp(*wanted, kHttpBacklog);
  if (!socket) return Error{socket.status(), "metrics.listen: " + socket.error().context};
  auto bound = bound_address(socket->get());
  if (!bound) return std::move(bound).error();
  if (!readable_.watch(socket->get())) {
    return Error{Status::io_error, "metrics.listen: can not be watched for connections"};
  }
  socket_ = std::move(*socket);
  address_ = *bound;
  accept_when_possible();
  return Done{};
}

void MetricsServer::stop() {
  readable_.stop();
  retry_.cancel();
  for (const auto& [turn, connection] : connections_) connection->close();
  connections_.clear();
  socket_.reset();
}

void MetricsServer::accept_when_possible() {
  readable_.when_readable([this] { accept_one(); });
}

void MetricsServer::accept_one() {
  auto accepted = accept_tcp(socket_.get());
  if (!accepted) {
    limits_.reached(base::Limit::descriptors);
    // Not at once: the connection is still there, so the socket stays readable.
    return retry_.after(kHttpAcceptAgainNs, [this] { accept_when_possible(); });
  }
  accept_when_possible();
  if (!accepted->has_value()) return;
  AcceptedTcp& tcp = **accepted;
  boost::asio::ip::tcp::socket socket(io_);
  error_code failed;
  socket.assign(tcp.peer.is_v4() ? boost::asio::ip::tcp::v4() : boost::asio::ip::tcp::v6(),
                tcp.socket.get(), failed);
  if (failed) return;
  (void)tcp.socket.release();
  if (connections_.size() == kConnectionsMax) {
    limits_.reached(base::Limit::metrics_connections);
    count(0);
    forget(*connections_.begin()->second);
  }
  // Not by make_shared: the weak references of show() would keep the memory.
  const std::shared_ptr<Connection> connection(new Connection(*this, std::move(socket)));
  connection->turn = next_turn_++;
  connections_.emplace(connection->turn, connection);
  connection->start();
}

void MetricsServer::touch(Connection& connection) {
  auto entry = connections_.extract(connection.turn);
  connection.turn = next_turn_++;
  entry.key() = connection.turn;
  connections_.insert(std::move(entry));
}

void MetricsServer::forget(Connection& connection) {
  const auto found = connections_.find(connection.turn);
  const std::shared_ptr<Connection> kept = std::move(found->second);
  connections_.erase(found);
  kept->close();
}

void MetricsServer::count(unsigned code) {
  answers_.at(code).add();
}

}  // namespace simm::control
