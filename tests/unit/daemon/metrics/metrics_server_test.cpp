#include "daemon/metrics/metrics_server.h"

#include <doctest/doctest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "daemon/base/manual_clock.h"
#include "daemon/base/real_clock.h"
#include "tests/support/number_from.h"
#include "tests/support/turns_until.h"

namespace metrics_server_test {

using namespace simm;

bool holds(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct FakeSource final : control::MetricsSource {
  void write_metrics(control::MetricsText& text) override {
    ++written;
    text.family("simm_fake", control::MetricType::gauge, "Of the test.");
    text.sample("", std::uint64_t{written});
    if (padding_bytes > 0) text.sample({{"p", std::string(padding_bytes, 'x')}}, 1);
  }
  [[nodiscard]] std::string not_ready() const override { return why_not; }
  std::string why_not;
  std::uint64_t written = 0;
  std::size_t padding_bytes = 0;
};

// The server, driven by the test's own polling.
struct World {
  explicit World(control::MetricsServer::Times times = {})
      : limits(counters),
        turns(base::RunnerCounters(counters, "data0").turns),
        watch(io, watched_clock, counters),
        page(real_clock, counters, watch, source, "test"),
        server(io, counters, limits, page, times) {
    const Outcome listening = server.listen("0");
    REQUIRE(listening.has_value());
  }
  // Whether there was anything to do.
  bool turn() {
    io.restart();
    return io.poll() > 0;
  }
  void poll() {
    if (!turn()) ::usleep(500);
  }
  bool until(const std::function<bool()>& done) {
    return test_support::turns_until([this] { return turn(); }, done);
  }
  std::uint64_t answers(const std::string& code) const {
    return counters.value("metrics.requests." + code);
  }

  boost::asio::io_context io;
  base::RealClock real_clock;
  base::ManualClock watched_clock;
  base::CounterSet counters;
  base::LimitCounters limits;
  base::Counter turns;
  FakeSource source;
  control::ThreadWatch watch;
  control::MetricsPage page;
  control::MetricsServer server;
};

struct Client {
  explicit Client(World& w) : world(w) {
    const auto address = cluster::SocketAddress::parse(world.server.address());
    REQUIRE(address.has_value());
    auto connected = control::start_connect(*address);
    REQUIRE(connected.has_value());
    socket = std::move(*connected);
  }
  void send(const std::string& text) {
    std::size_t sent = 0;
    CHECK(world.until([&] {
      const auto moved = control::send_tcp(
          socket.get(), std::as_bytes(std::span(text.data() + sent, text.size() - sent)));
      sent += moved.bytes;
      return sent == text.size() || moved.result == control::TcpResult::hung_up;
    }));
  }
  void receive() {
    std::array<char, 4096> block{};
    const auto moved = control::receive_tcp(socket.get(), std::as_writable_bytes(std::span(block)));
    received.append(block.data(), moved.bytes);
    over = over || moved.result == control::TcpResult::hung_up;
  }
  // The next whole answer, head and body; what there is when the server hangs up.
  std::string answer() {
    std::string whole;
    CHECK(world.until([&] {
      receive();
      const std::size_t head = received.find("\r\n\r\n");
      const std::size_t length = received.find("Content-Length: ");
      if (head == std::string::npos || length == std::string::npos) return over;
      const std::size_t bytes = head + 4 + std::stoul(received.substr(length + 16));
      if (received.size() < bytes) return over;
      whole = received.substr(0, bytes);
      received.erase(0, bytes);
      return true;
    }));
    return whole;
  }
  std::string get(const std::string& path) {
    send("GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    return answer();
  }
  bool hung_up() {
    return world.until([&] {
      receive();
      return over;
    });
  }
  World& world;
  ipc::UniqueFd socket;
  std::string received;
  bool over = false;
};

TEST_CASE("numbers, life and readiness are shown; everything else is not there") {
  World world;
  Client client(world);
  const std::string metrics = client.get("/metrics");
  CHECK(metrics.rfind("HTTP/1.1 200 OK\r\n", 0) == 0);
  CHECK(holds(metrics, "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
  CHECK(holds(metrics, "simm_build_info{version=\""));
  CHECK(holds(metrics, "role=\"test\"} 1\n"));
  CHECK(holds(metrics, "simm_fake 1\n"));
  CHECK(holds(metrics, "process_cpu_seconds_total "));
  CHECK(holds(metrics, "process_start_time_seconds "));
  CHECK(holds(metrics, "simm_ready 1\n"));
  // The same connection goes on.
  CHECK(holds(client.get("/healthz"), "alive\n"));
  CHECK(holds(client.get("/readyz?verbose=1"), "ready\n"));
  CHECK(holds(client.get("/metrics/"), "HTTP/1.1 404 Not Found\r\n"));
  CHECK(holds(client.get("/"), "HTTP/1.1 404 Not Found\r\n"));
  CHECK(world.answers("200") == 3);
  CHECK(world.answers("404") == 2);
  CHECK(world.answers("none") == 0);
  CHECK(world.server.connections() == 1);
}

TEST_CASE("who is not ready or hangs says so") {
  World world;
  Client client(world);
  world.source.why_not = "no map yet";
  std::string answer = client.get("/readyz");
  CHECK(answer.rfind("HTTP/1.1 503 ", 0) == 0);
  CHECK(holds(answer, "no map yet\n"));
  CHECK(holds(client.get("/metrics"), "simm_ready 0\n"));
  CHECK(holds(client.get("/healthz"), "alive\n"));
  world.source.why_not.clear();
  // A thread that has turns, and then none for more than ten seconds.
  for (int second = 0; second < 9; ++second) {
    world.watched_clock.advance_ns(base::kNsPerSecond);
    world.watch.look();
  }
  CHECK(holds(client.get("/healthz"), "alive\n"));
  world.turns.add();
  world.watch.look();
  for (int second = 0; second < 11; ++second) {
    world.watched_clock.advance_ns(base::kNsPerSecond);
    world.watch.look();
  }
  answer = client.get("/healthz");
  CHECK(answer.rfind("HTTP/1.1 503 ", 0) == 0);
  CHECK(holds(answer, "data0"));
  CHECK(holds(client.get("/readyz"), "data0"));
  ::usleep(60'000);  // the page is kept for a moment
  CHECK(holds(client.get("/metrics"), "simm_thread_turn_age_seconds{thread=\"data0\"} 11\n"));
  world.turns.add();
  world.watch.look();
  CHECK(holds(client.get("/healthz"), "alive\n"));
}

TEST_CASE("a page is made once for all who ask within a moment") {
  World world;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 16; ++i) clients.push_back(std::make_unique<Client>(world));
  const base::TimeNs before_ns = world.real_clock.now_ns();
  for (const auto& client : clients) CHECK(holds(client->get("/metrics"), "simm_fake"));
  const base::TimeNs took_ns = world.real_clock.now_ns() - before_ns;
  CHECK(world.source.written <= 1 + took_ns / control::MetricsPage::kKeptNs);
}

TEST_CASE("HEAD has the head of GET; old and closing clients are let go") {
  World world;
  {
    Client client(world);
    client.send("HEAD /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    CHECK(client.hung_up());
    CHECK(holds(client.received, "200 OK"));
    CHECK(holds(client.received, "Content-Length: "));
    CHECK(holds(client.received, "Connection: close\r\n"));
    CHECK(client.received.substr(client.received.find("\r\n\r\n")).size() == 4);
  }
  {
    Client client(world);
    client.send("GET /healthz HTTP/1.0\r\n\r\n");
    CHECK(client.hung_up());
    CHECK(holds(client.received, "alive\n"));
  }
  CHECK(world.until([&] { return world.server.connections() == 0; }));
  CHECK(world.answers("none") == 0);
}

TEST_CASE("two requests in one packet, and one in many, are answered in order") {
  World world;
  Client client(world);
  client.send(
      "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /nothing HTTP/1.1\r\nHost: "
      "localhost\r\n\r\nGET /re");
  CHECK(holds(client.answer(), "alive\n"));
  CHECK(holds(client.answer(), "404"));
  for (const char c : std::string("adyz HTTP/1.1\r\nHost: localhost\r\n\r\n")) {
    client.send(std::string(1, c));
    world.poll();
  }
  CHECK(holds(client.answer(), "ready\n"));
}

TEST_CASE("on loopback, a name that a foreign site may have made up is not answered") {
  World world;
  const std::vector<std::pair<std::string, std::string>> cases = {{"localhost", "200"},
                                                                  {"localhost:9464", "200"},
                                                                  {"127.0.0.1:9464", "200"},
                                                                  {"[::1]:9464", "200"},
                                                                  {"[::1]", "200"},
                                                                  {"10.1.2.3", "200"},
                                                                  {"evil.example.com", "400"},
                                                                  {"evil.example.com:80", "400"},
                                                                  {"localhost.evil", "400"},
                                                                  {"1.2.3.4.evil.com:1", "400"},
                                                                  {"[::1", "400"},
                                                                  {":9464", "400"}};
  for (const auto& sent : cases) {
    const std::string& host = sent.first;
    const std::string& code = sent.second;
    CAPTURE(host);
    Client client(world);
    client.send("GET /healthz HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n");
    CHECK(client.hung_up());
    CHECK(client.received.rfind("HTTP/1.1 " + code, 0) == 0);
  }
}

// Tells its text when the test says so.
struct FakeStatus final : control::StatusSource {
  void tell(std::function<void(Text)> answer) override {
    ++asked;
    if (is_silent) return waiting.push_back(std::move(answer));
    answer(std::make_shared<const std::string>("{\"n\":" + std::to_string(asked) + "}"));
  }
  bool is_silent = false;
  int asked = 0;
  std::vector<std::function<void(Text)>> waiting;
};

TEST_CASE("a status page is there when a daemon has one, under its own rules") {
  World world;
  FakeStatus status;
  Client before(world);
  CHECK(holds(before.get("/status.json"), " 404 "));
  CHECK(holds(before.get("/page.js"), " 404 "));
  world.server.show_status(control::ReaderRules({}, {}), status);
  Client client(world);
  const std::string page = client.get("/");
  CHECK(page.rfind("HTTP/1.1 200 OK\r\n", 0) == 0);
  CHECK(holds(page, "\r\nContent-Type: text/html; charset=utf-8\r\n"));
  CHECK(holds(page, "\r\nContent-Security-Policy: default-src 'self';"));
  CHECK(holds(page, "\r\nX-Content-Type-Options: nosniff\r\n"));
  CHECK(holds(page, "<!doctype html>"));
  const std::string figures = client.get("/status.json?x=1");
  CHECK(holds(figures, "\r\nContent-Type: application/json\r\n"));
  CHECK(holds(figures, "\r\nCache-Control: no-store\r\n"));
  CHECK(holds(figures, "{\"n\":1}"));
  client.send("GET /status.json HTTP/1.1\r\nHost: evil.example.com\r\n\r\n");
  CHECK(holds(client.answer(), " 400 "));
  client.send("GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.com\r\n\r\n");
  CHECK(holds(client.answer(), " 403 "));
  client.send("GET /status.json HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n\r\n");
  CHECK(holds(client.answer(), " 403 "));
  CHECK(status.asked == 1);
  world.server.show_status(control::ReaderRules("a-token", {"simm1"}), status);
  CHECK(holds(client.get("/status.json"), " 401 "));
  CHECK(holds(client.get("/"), " 200 "));
  client.send("GET /status.json HTTP/1.1\r\nHost: simm1\r\nAuthorization: Bearer a-token\r\n\r\n");
  CHECK(holds(client.answer(), "{\"n\":2}"));
  // The same connection all the while; what is refused closes nothing.
  CHECK(world.answers("401") == 1);
  CHECK(world.answers("403") == 2);
  client.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
  CHECK(client.hung_up());
  CHECK(holds(client.received, " 405 "));
}

TEST_CASE("figures that come late reach who still waits for them, and hold nobody up") {
  control::MetricsServer::Times times;
  times.write_ns = 100 * base::kNsPerMs;
  World world(times);
  FakeStatus status;
  status.is_silent = true;
  world.server.show_status(control::ReaderRules({}, {}), status);
  const std::string ask = "GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
  Client patient(world);
  Client gone(world);
  patient.send(ask);
  gone.send(ask);
  REQUIRE(world.until([&] { return status.waiting.size() == 2; }));
  Client other(world);
  CHECK(holds(other.get("/healthz"), "alive\n"));
  status.waiting[0](std::make_shared<const std::string>("{\"late\":1}"));
  CHECK(holds(patient.answer(), "{\"late\":1}"));
  // Nobody tells this one anything, so its time runs out.
  CHECK(gone.hung_up());
  status.waiting[1](std::make_shared<const std::string>("{}"));
  CHECK(holds(other.get("/healthz"), "alive\n"));
  // One that waits when the server stops.
  patient.send(ask);
  REQUIRE(world.until([&] { return status.waiting.size() == 3; }));
  world.server.stop();
  status.waiting[2](std::make_shared<const std::string>("{}"));
  CHECK(patient.hung_up());
}

TEST_CASE("who has hung up holds nothing while the figures are late") {
  World world;
  FakeStatus status;
  status.is_silent = true;
  world.server.show_status(control::ReaderRules({}, {}), status);
  const auto ask = [&](std::size_t askers) {
    const std::size_t asked = status.waiting.size();
    for (std::size_t i = 0; i < askers; ++i) {
      Client one(world);
      one.send("GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n");
      REQUIRE(world.until([&] { return status.waiting.size() == asked + i + 1; }));
    }
  };
  constexpr std::size_t kAskers = 300;
  ask(2 * control::MetricsServer::kConnectionsMax);
  const std::size_t before = ::mallinfo2().uordblks;
  ask(kAskers);
  CHECK(::mallinfo2().uordblks < before + kAskers * 1024);
}

TEST_CASE("what is no request that we take is refused by its kind, and the connection ends") {
  const std::string host = " HTTP/1.1\r\nHost: localhost\r\n";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\x16\x03\x01\x02garbage\r\n\r\n", "400"},
      {"GET\r\n\r\n", "400"},
      {"GET /metrics HTTP/9.9\r\n\r\n", "400"},
      {"GET /metrics HTTP/1.1\r\n\r\n", "400"},  // no host
      {"GET /metrics" + host + "Host: y\r\n\r\n", "400"},
      {"GET /metrics" + host + "Content-Length: x\r\n\r\n", "400"},
      {"GET /metrics" + host + "Content-Length: 5\r\n\r\nhello", "413"},
      {"POST /metrics" + host + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "413"},
      {"POST /metrics" + host + "Content-Length: 0\r\n\r\n", "405"},
      {"DELETE /metrics" + host + "\r\n", "405"},
      {"GET /" + std::string(20'000, 'a') + host + "\r\n", "431"},
      {"GET /metrics" + host + "A: " + std::string(9000, 'b') + "\r\n\r\n", "431"},
      {std::string(20'000, 'c'), "4"},
  };
  World world;
  for (const auto& [request, code] : cases) {
    const std::string start = request.substr(0, 60);
    INFO(start);
    Client client(world);
    client.send(request);
    CHECK(client.hung_up());
    CHECK(client.received.rfind("HTTP/1.1 " + code, 0) == 0);
    if (code == "405") CHECK(holds(client.received, "Allow: GET, HEAD\r\n"));
  }
  Client client(world);
  CHECK(holds(client.get("/healthz"), "alive\n"));
  CHECK(world.until([&] { return world.server.connections() == 1; }));
}

TEST_CASE("who is slow is hung up on, with the header or with the answer") {
  control::MetricsServer::Times times;
  times.header_ns = times.write_ns = 100 * base::kNsPerMs;
  times.idle_ns = 150 * base::kNsPerMs;
  World world(times);
  Client silent(world);
  Client slow(world);
  // A byte now and then does not buy more time.
  slow.send("GET /metrics HTTP/1.1\r\n");
  CHECK(world.until([&] {
    ::usleep(5000);
    slow.send("x");
    slow.receive();
    return slow.over;
  }));
  CHECK(silent.hung_up());
  CHECK(slow.received.empty());
  CHECK(world.answers("none") == 2);
  // One that asks and does not read; the answer is more than all buffers hold.
  world.source.padding_bytes = 16 << 20;
  Client deaf(world);
  deaf.send("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(world.until([&] { return world.answers("none") == 3; }));
  CHECK(world.server.connections() == 0);
  // Doing nothing between requests is nobody's mistake.
  Client idle(world);
  CHECK(holds(idle.get("/healthz"), "alive\n"));
  CHECK(idle.hung_up());
  CHECK(world.answers("none") == 3);
}

TEST_CASE("any number of connections keeps nobody out") {
  World world;
  std::vector<std::unique_ptr<Client>> crowd;
  Client first(world);
  CHECK(holds(first.get("/healthz"), "alive\n"));
  for (std::size_t i = 0; i < 4 * control::MetricsServer::kConnectionsMax; ++i) {
    crowd.push_back(std::make_unique<Client>(world));
    crowd.back()->send("GET /met");
    world.poll();
    // Who has just been served is the last to go.
    if (i % 8 == 0) CHECK(holds(first.get("/healthz"), "alive\n"));
  }
  CHECK(world.server.connections() == control::MetricsServer::kConnectionsMax);
  CHECK(world.counters.value("limit.metrics_connections.reached") >=
        3 * control::MetricsServer::kConnectionsMax);
  Client last(world);
  CHECK(holds(last.get("/metrics"), "simm_fake"));
  CHECK(crowd.front()->hung_up());
}

TEST_CASE("random bytes break nothing") {
  const std::uint64_t seed = test_support::number_from("SIMM_SEED", std::random_device{}());
  MESSAGE("SIMM_SEED=" << seed << " unit_control -tc='random bytes break*'");
  std::mt19937_64 random(seed);
  const std::string headers =
      " HTTP/1.1\r\nHost: localhost\r\nConnection: keep-alive\r\nOrigin: http://localhost\r\n"
      "Sec-Fetch-Site: same-origin\r\nAuthorization: Bearer a-token\r\n\r\n";
  FakeStatus status;
  World world;
  world.server.show_status(control::ReaderRules("a-token", {}), status);
  for (int round = 0; round < 400; ++round) {
    std::string request = (round % 2 == 0 ? "GET /metrics" : "GET /status.json") + headers;
    for (std::uint64_t change = 0; change < 1 + random() % 4; ++change) {
      const std::size_t at = random() % request.size();
      if (random() % 2 == 0) {
        request[at] = static_cast<char>(random());
      } else {
        request.erase(at, random() % 8);
      }
      if (request.empty()) request = "\n";
    }
    Client client(world);
    client.send(request);
    for (int i = 0; i < 3; ++i) world.poll();
  }
  Client client(world);
  CHECK(holds(client.get("/metrics"), "simm_fake"));
  client.send("GET /status.json" + headers);
  CHECK(holds(client.answer(), "{\"n\":"));
}

TEST_CASE("an address that is none is refused with a remedy, one in use with its name") {
  World world;
  control::MetricsServer other(world.io, world.counters, world.limits, world.page, {});
  for (const char* wrong : {"localhost:1", "1.2.3.4", "70000", "x"}) {
    const Outcome refused = other.listen(wrong);
    REQUIRE_FALSE(refused.has_value());
    CHECK(holds(refused.error().context, "metrics.listen"));
  }
  const Outcome taken = other.listen(world.server.address());
  REQUIRE_FALSE(taken.has_value());
  CHECK(holds(taken.error().context, world.server.address()));
  CHECK(other.address().empty());
  CHECK(world.server.address().rfind("127.0.0.1:", 0) == 0);
  CHECK(world.server.is_loopback());
  REQUIRE(other.listen("0.0.0.0:0").has_value());
  CHECK_FALSE(other.is_loopback());
}

TEST_CASE("a server that stops lets everybody go, whatever they wait for") {
  World world;
  Client idle(world);
  CHECK(holds(idle.get("/healthz"), "alive\n"));
  Client half(world);
  half.send("GET /metr");
  CHECK(world.until([&] { return world.server.connections() == 2; }));
  world.server.stop();
  CHECK(idle.hung_up());
  CHECK(half.hung_up());
  CHECK(world.server.connections() == 0);
}

}  // namespace metrics_server_test
