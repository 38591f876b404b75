// MetricsServer: HTTP/1.1 for those who read numbers: GET (or HEAD) /metrics, /healthz and /readyz,
// and for people the status page: / with its files, and /status.json. The numbers are for anybody,
// so it listens where its configuration says and nowhere by default; the page has ReaderRules.
// Nobody can do more than read, and what reading costs does not grow with the number of readers
// (MetricsPage, StatusSource).
//
// Bounded: kConnectionsMax connections, of which the one that was idle for the longest goes when
// another one comes, so that slow or silent ones keep nobody out; a request of kHeaderBytesMax
// without a body; times for the header, for taking the answer, and between requests.
// Owned by the composition root. Thread: control, which it never blocks.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/control/deadline.h"
#include "daemon/control/readiness.h"
#include "daemon/metrics/metrics_page.h"
#include "daemon/metrics/reader_rules.h"
#include "daemon/metrics/status_source.h"
#include "daemon/peers/tcp_socket.h"

namespace simm::control {

class MetricsServer {
public:
  static constexpr std::size_t kConnectionsMax = base::kMetricsConnectionsMax;
  static constexpr std::size_t kHeaderBytesMax = 8192;
  struct Times {
    base::TimeNs header_ns = 5 * base::kNsPerSecond;  // from the connection, or the first byte
    base::TimeNs write_ns = 10 * base::kNsPerSecond;
    base::TimeNs idle_ns = 180 * base::kNsPerSecond;  // longer than anybody's scrape interval
  };

  // What it counts: its answers by code; 0: hung up on without one.
  using Answers = std::map<unsigned, base::Counter>;
  [[nodiscard]] static Answers answers(base::CounterSet& counters);

  MetricsServer(boost::asio::io_context& io, base::CounterSet& counters,
                base::LimitCounters& limits, MetricsPage& page, Times times);
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // At set-up: there is a status page, and `source`, which outlives the server, tells what it
  // shows.
  void show_status(ReaderRules rules, StatusSource& source);

  // `where` is the value of metrics.listen and not empty: an address with a port, or a port alone,
  // which is one of 127.0.0.1.
  Outcome listen(const std::string& where);
  void stop();

  // Where it listens; empty: nowhere.
  [[nodiscard]] std::string address() const { return address_ ? address_->text() : std::string(); }
  [[nodiscard]] bool is_loopback() const { return !address_ || address_->is_loopback(); }
  [[nodiscard]] std::size_t connections() const noexcept { return connections_.size(); }

private:
  class Connection;
  static constexpr std::array<unsigned, 10> kCodes = {0,   200, 400, 401, 403,
                                                      404, 405, 413, 431, 503};

  void accept_when_possible();
  void accept_one();
  // Behind all others in the order of going.
  void touch(Connection& connection);
  void forget(Connection& connection);
  void count(unsigned code);

  boost::asio::io_context& io_;
  base::LimitCounters& limits_;
  MetricsPage& page_;
  std::optional<ReaderRules> rules_;  // of the status page; nothing: there is none
  StatusSource* status_ = nullptr;    // the same
  const Times times_;
  ipc::UniqueFd socket_;
  std::optional<cluster::SocketAddress> address_;
  Readiness readable_;
  Deadline retry_;
  std::uint64_t next_turn_ = 1;
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections_;  // the one to go first
  Answers answers_;
};

}  // namespace simm::control
