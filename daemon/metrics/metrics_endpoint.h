// MetricsEndpoint: everything that a daemon needs to show its numbers (metrics.listen): the pages,
// the watch over the data threads that they tell about, and the server, if there is to be one. What
// the status page shows is somebody else's (StatusSource).
// Owned by the composition root. Thread: control.
#pragma once

#include <string>
#include <utility>

#include "daemon/base/log.h"
#include "daemon/metrics/metrics_page.h"
#include "daemon/metrics/metrics_server.h"
#include "daemon/metrics/thread_watch.h"

namespace simm::control {

class MetricsEndpoint {
public:
  // All outlive it; the data threads' counters are there already.
  MetricsEndpoint(boost::asio::io_context& io, const base::Clock& clock, base::CounterSet& counters,
                  base::LimitCounters& limits, MetricsSource& source, std::string role)
      : watch_(io, clock, counters),
        page_(clock, counters, watch_, source, std::move(role)),
        server_(io, counters, limits, page_, {}) {}

  // At set-up: people may look at a status page, see MetricsServer::show_status().
  void show_status(ReaderRules rules, StatusSource& source) {
    server_.show_status(std::move(rules), source);
  }

  // `where` is the value of metrics.listen; empty: nowhere.
  Outcome listen(const std::string& where, base::Log& log) {
    if (where.empty()) return Done{};
    Outcome done = server_.listen(where);
    if (!done) return done;
    watch_.start();
    log.info("metrics", "listening", {{"address", server_.address()}});
    if (!server_.is_loopback()) {
      log.warning("metrics", "anybody who reaches metrics.listen may read the numbers",
                  {{"address", server_.address()}});
    }
    return done;
  }
  void stop() { server_.stop(); }

  // Where it listens; empty: nowhere.
  [[nodiscard]] std::string address() const { return server_.address(); }

private:
  ThreadWatch watch_;
  MetricsPage page_;
  MetricsServer server_;
};

}  // namespace simm::control
