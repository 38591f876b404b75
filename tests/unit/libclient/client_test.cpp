// What a Client does with a daemon that behaves: every call, every limit, every wait mode.
#include "simm/client.h"
#include "simm/simm.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "fake_daemon.h"
#include "tests/support/eventually.h"

namespace client_test {

using libclient_test::FakeDaemon;
using libclient_test::FakeOptions;
using libclient_test::SocketPlace;
using simm::CallOptions;
using simm::Client;
using simm::ClientOptions;
using simm::Item;
using simm::PageResult;
using simm::Status;
using simm::View;
using simm::test_support::eventually;

ClientOptions options_for(const SocketPlace& place) {
  ClientOptions options;
  options.socket_path = place.path();
  options.lanes = 4;
  return options;
}

FakeOptions daemon_at(const SocketPlace& place) {
  FakeOptions options;
  options.path = place.path();
  return options;
}

std::string key_of(std::size_t i) {
  return "key-" + std::to_string(i);
}

// Bytes that differ from key to key and from place to place.
void fill(std::byte* to, std::size_t bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t at = 0; at < bytes; at += 8) {
    const std::uint64_t word = random();
    std::memcpy(to + at, &word, std::min<std::size_t>(8, bytes - at));
  }
}

TEST_CASE("single calls: put, get, exists, remove, ping") {
  SocketPlace place;
  FakeDaemon daemon(daemon_at(place));
  Client client = Client::connect(options_for(place)).value();
  CHECK(client.ping() == Status::ok);
  simm::Region region = client.allocate_region(1 << 20).value();
  CHECK(region.kind() == simm::RegionKind::shared);
  CHECK_FALSE(region.kind_reason().empty());
  fill(region.data(), 4096, 1);

  CHECK(client.get("a", View(region, 4096, 4096)).status == Status::not_found);
  CHECK(client.exists("a").status == Status::not_found);
  CHECK(client.remove("a") == Status::not_found);
  const PageResult stored = client.put("a", View(region, 0, 4096));
  CHECK(stored.status == Status::ok);
  CHECK(stored.bytes == 4096);
  CHECK(client.exists("a").bytes == 4096);
  const PageResult got = client.get("a", View(region, 8192, 8192));
  CHECK(got.status == Status::ok);
  CHECK(got.bytes == 4096);
  CHECK(std::memcmp(region.data(), region.data() + 8192, 4096) == 0);
  CHECK(client.remove("a") == Status::ok);
  CHECK_FALSE(client.exists("a").ok());
}

TEST_CASE("a daemon that takes memory of clients gets the session's whole, and serves it") {
  SocketPlace place;
  FakeOptions fake = daemon_at(place);
  fake.takes_memory = true;
  auto daemon = std::make_unique<FakeDaemon>(fake);
  Client client = Client::connect(options_for(place)).value();
  CHECK(daemon->counts().taken == 1);
  simm::Region region = client.allocate_region(1 << 20).value();
  fill(region.data(), 4096, 1);
  CHECK(client.put("a", View(region, 0, 4096)).ok());
  CHECK(client.get("a", View(region, 8192, 4096)).ok());
  CHECK(std::memcmp(region.data(), region.data() + 8192, 4096) == 0);
  // Each session has new memory, because the old one can not be mapped again; and a daemon that
  // takes none is served by its own.
  for (const bool takes : {true, false}) {
    daemon.reset();
    fake.takes_memory = takes;
    daemon = std::make_unique<FakeDaemon>(fake);
    CHECK(eventually([&] { return client.put("b", View(region, 0, 4096)).ok(); }));
    CHECK(daemon->counts().taken == (takes ? 1 : 0));
  }
}

TEST_CASE("pin and unpin, one key or a list, with the daemon's answer for each") {
  SocketPlace place;
  FakeDaemon daemon(daemon_at(place));
  Client client = Client::connect(options_for(place)).value();
  simm::Region region = client.allocate_region(1 << 20).value();
  REQUIRE(client.put("a", View(region, 0, 100)).ok());
  REQUIRE(client.put("b", View(region, 0, 100)).ok());
  CHECK(client.pin("a") == Status::ok);
  CHECK(client.pin("b") == Status::no_space);
  CHECK(client.pin("c") == Status::not_found);
  const std::vector<std::string_view> keys = {"a", "b", "c"};
  std::vector<PageResult> results(3);
  CHECK(client.pin(keys, results) == Status::ok);
  CHECK(results[0].status == Status::ok);
  CHECK(results[1].status == Status::no_space);
  CHECK(results[2].status == Status::not_found);
  CHECK(client.unpin(keys, results) == Status::ok);
  CHECK(results[1].status == Status::ok);
  CHECK(client.pin("b") == Status::ok);
  CHECK(client.unpin("b") == Status::ok);
  CHECK(client.unpin("c") == Status::not_found);
  results.resize(2);
  CHECK(client.pin(keys, results) == Status::invalid_argument);
  CHECK(client.unpin(keys, results) == Status::invalid_argument);
}

TEST_CASE("put modes, ttl, lease, exact size, ranges and depth reach the daemon") {
  SocketPlace place;
  FakeDaemon daemon(daemon_at(place));
  Client client = Client::connect(options_for(place)).value();
  simm::Region region = client.allocate_region(1 << 16).value();
  std::memcpy(region.data(), "onetwo", 6);
  CallOptions options;
  options.ttl_ms = 77;
  REQUIRE(client.put("k", View(region, 0, 3), options).ok());
  CHECK(daemon.last_submission().ttl_ms == 77);
  REQUIRE(client.put("k", View(region, 3, 3)).ok());  // if_absent: nothing moves
  CHECK(daemon.store()->value("/k") == "one");
  options.mode = simm::PutMode::replace;
  REQUIRE(client.put("k", View(region, 3, 3), options).ok());
  CHECK(daemon.store()->value("/k") == "two");

  CallOptions get;
  get.lease_ms = 1234;
  get.exact_size = true;
  get.shared = true;
  CHECK(client.get("k", View(region, 100, 4), get).status == Status::not_found);
  const simm::ipc::Submission seen = daemon.last_submission();
  CHECK(seen.lease_ms == 1234);
  CHECK(seen.flags == (simm::ipc::kFlagExactSize | simm::ipc::kFlagShared));
  CHECK(seen.ttl_ms == 0);
  CHECK(client.get("k", View(region, 100, 3), get).bytes == 3);
  CHECK(client.exists("k", get).ok());
  CHECK(daemon.last_submission().lease_ms == 1234);
  CHECK(daemon.last_submission().flags == 0);

  Item ranged{"k", View(region, 200, 2), 1, 0};
  PageResult result;
  REQUIRE(client.get(std::span(&ranged, 1), std::span(&result, 1)) == Status::ok);
  CHECK(result.bytes == 2);
  CHECK(std::memcmp(region.data() + 200, "wo", 2) == 0);
}

TEST_CASE("the deadline grows with the bytes of a call, unless one is given") {
  SocketPlace place;
  FakeDaemon daemon(daemon_at(place));
  ClientOptions options = options_for(place);
  options.sync_timeout_ms = 1000;
  options.floor_bytes_per_s = 1'000'000;
  Client client = Client::connect(options).value();
  simm::Region region = client.allocate_region(1'000'000).value();
  REQUIRE(client.put("k", View(region, 0, 500'000)).ok());
  CHECK(daemon.last_submission().timeout_ns > 1'400'000'000);
  CHECK(daemon.last_submission().timeout_ns <= 1'500'000'000);
  CallOptions given;
  given.timeout_ms = 300;
  REQUIRE(client.put("k", View(region, 0, 500'000), given).ok());
  CHECK(daemon.last_submission().timeout_ns <= 300'000'000);
}

TEST_CASE("a daemon that knows patience gets it, and a far deadline; given deadlines stay") {
  SocketPlace place;
  libclient_test::FakeOptions fake = daemon_at(place);
  fake.knows_patience = true;
  FakeDaemon daemon(fake);
  ClientOptions options = options_for(place);
  options.sync_timeout_ms = 1000;
  options.floor_bytes_per_s = 1'000'000;
  Client client = Client::connect(options).value();
  simm::Region region = client.allocate_region(1'000'000).value();
  REQUIRE(client.put("k", View(region, 0, 500'000)).ok());
  CHECK(daemon.last_submission().patience_ns == 1'500'000'000);
  CHECK(daemon.last_submission().timeout_ns > 14'000'000'000);
  CHECK(daemon.last_submission().timeout_ns <= 15'000'000'000);
  CallOptions given;
  given.timeout_ms = 300;
  REQUIRE(client.put("k", View(region, 0, 500'000), given).ok());
  CHECK(daemon.last_submission().patience_ns == 0);
  CHECK(daemon.last_submission().timeout_ns <= 300'000'000);
}

TEST_CASE("lists of any length, with pages of any size, in every wait mode") {
  for (const simm::WaitMode wait :
       {simm::WaitMode::spin, simm::WaitMode::adaptive, simm::WaitMode::event}) {
    CAPTURE(static_cast<int>(wait));
    SocketPlace place;
    FakeDaemon daemon(daemon_at(place));
    ClientOptions options = options_for(place);
    options.wait = wait;
    options.sync_timeout_ms = 60'000;  // thousands of pages, with sanitizers beside other work
    Client client = Client::connect(options).value();
    simm::Region source = client.allocate_region(8 << 20).value();
    simm::Region target = client.allocate_region(8 << 20).value();
    fill(source.data(), source.size(), 7);
    for (const std::size_t count : {0u, 1u, 2u, 1023u, 1024u, 1025u, 5000u}) {
      CAPTURE(count);
      std::vector<std::string> keys;
      std::vector<Item> puts;
      std::vector<Item> gets;
      std::vector<std::string_view> names;
      for (std::size_t i = 0; i < count; ++i) keys.push_back(key_of(i) + std::string(i % 200, 'x'));
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t length = 1 + i * 37 % 1500;
        puts.push_back({keys[i], View(source, i * 1600, length), 0, 0});
        gets.push_back({keys[i], View(target, i * 1600, length), 0, 0});
        names.push_back(keys[i]);
      }
      std::vector<PageResult> results(count);
      CallOptions replace;
      replace.mode = simm::PutMode::replace;
      REQUIRE(client.put(puts, results, replace) == Status::ok);
      for (const PageResult& result : results) REQUIRE(result.ok());
      REQUIRE(client.exists(names, results) == Status::ok);
      for (const PageResult& result : results) REQUIRE(result.ok());
      REQUIRE(client.get(gets, results) == Status::ok);
      for (std::size_t i = 0; i < count; ++i) {
        REQUIRE(results[i].ok());
        REQUIRE(results[i].bytes == puts[i].view.length());
        REQUIRE(std::memcmp(source.data() + i * 1600, target.data() + i * 1600, results[i].bytes) ==
                0);
      }
      REQUIRE(client.remove(names, results) == Status::ok);
      for (const PageResult& result : results) REQUIRE(result.ok());
      std::memset(target.data(), 0, target.size());
    }
    CHECK(daemon.counts().pages_most == 1024);
    CHECK(daemon.counts().outstanding_most > 1);
    CHECK(daemon.store()->size() == 0);
    CHECK(client.stats().pages_ok == daemon.counts().pages);
  }
}

TEST_CASE("long keys fill the key bytes of a lane before the descriptors") {
  SocketPlace place;
  FakeDaemon daemon(daemon_at(place));
  Client client = Client::connect(options_for(place)).value();
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < 2000; ++i) keys.push_back(key_of(i) + std::string(1000, 'k'));
  std::vector<std::string_view> names(keys.begin(), keys.end());
  std::vector<PageResult> results(names.size());
  REQUIRE(client.exists(names, results) == Status::ok);
  for (const PageResult& result : results) CHECK(result.status == Status::not_found);
  CHECK(daemon.counts().pages == 2000);
}

TEST_CASE("bad pages of a batch have their own result and words, the others are carried out") {
  SocketPlace place;
  FakeOptions limited = daemon_at(place);
  limited.value_bytes_max = 5000;
  FakeDaemon daemon(limited);
  Client client = Client::connect(options_for(place)).value();
  CHECK(client.max_value_bytes() == 5000);
  simm::Region region = client.allocate_region(8192).value();
  const std::string long_key(1025, 'x');
  const std::string longest(1024, 'x');
  std::vector<std::byte> foreign(100);
  const std::vector<Item> items = {
      {"good", View(region, 0, 10), 0, 0},
      {"", View(region, 0, 10), 0, 0},
      {long_key, View(region, 0, 10), 0, 0},
      {longest, View(region, 8191, 1), 0, 0},
      {"empty", View(region, 0, 0), 0, 0},
      {"outside", View(region, 8192, 1), 0, 0},
      {"overflow", View(region, ~0ull - 1, 10), 0, 0},
      {"large", View(region, 0, 5001), 0, 0},
      {"nowhere", View(foreign.data(), 10), 0, 0},
      {"address", View(region.data() + 8000, 192), 0, 0},
      {"past", View(region.data() + 8000, 193), 0, 0},
      {std::string_view("nul\0byte", 8), View(region, 0, 10), 0, 0},
  };
  const std::vector<bool> good = {true,  false, false, true, false, false,
                                  false, false, false, true, false, true};
  std::vector<PageResult> results(items.size());
  REQUIRE(client.put(items, results) == Status::ok);
  for (std::size_t i = 0; i < items.size(); ++i) {
    CAPTURE(i);
    CHECK(results[i].status == (good[i] ? Status::ok : Status::invalid_argument));
  }
  CHECK(daemon.store()->size() == 4);

  CHECK(client.put("large", View(region, 0, 5001)).status == Status::invalid_argument);
  CHECK(std::string(simm::last_error()).find("5001") != std::string::npos);
  CHECK(std::string(simm::last_error()).find("max_value_bytes") != std::string::npos);
  CHECK(client.put(std::span(items).first(2), std::span(results).first(1)) ==
        Status::invalid_argument);
  CHECK(results[0].status == Status::invalid_argument);
  // A view may be longer than any object.
  CHECK(client.get("good", View(region, 0, 8192)).bytes == 10);
}

TEST_CASE("the text for a key without an address says that, whatever its length") {
  SocketPlace place;
  FakeDaemon daemon(daemon_at(place));
  Client client = Client::connect(options_for(place)).value();
  simm_item item{};
  item.key_bytes = 5;
  simm_client_options options = SIMM_CLIENT_OPTIONS_INIT;
  options.socket_path = place.path().c_str();
  simm_client* c_client = nullptr;
  REQUIRE(simm_connect(&options, &c_client) == SIMM_OK);
  simm_result result{};
  CHECK(simm_exists(c_client, &item, 1, &result, nullptr) == SIMM_OK);
  CHECK(result.status == SIMM_INVALID_ARGUMENT);
  CHECK(std::string(simm_last_error()) ==
        "items[0].key: NULL, of 5 bytes: give the address of the key");
  simm_close(c_client);
}

TEST_CASE("a Client that was moved from refuses its calls, and can be given another one") {
  SocketPlace place;
  FakeDaemon daemon(daemon_at(place));
  Client moved = Client::connect(options_for(place)).value();
  Client client = std::move(moved);
  const std::string_view key = "k";
  PageResult result;
  CHECK(moved.exists(key).status == Status::invalid_state);
  CHECK(std::string(simm::last_error()).find("moved from") != std::string::npos);
  CHECK(moved.ping() == Status::invalid_state);
  CHECK(moved.exists({&key, 1}, {&result, 1}) == Status::invalid_state);
  CHECK(result.status == Status::invalid_state);
  CHECK(moved.exists_async({&key, 1}, {&result, 1}).status() == Status::invalid_state);
  CHECK(moved.allocate_region(4096).status() == Status::invalid_state);
  CHECK(moved.open_namespace("n").status() == Status::invalid_state);
  CHECK(moved.completion_fd() == -1);
  CHECK(moved.poll() == 0);
  CHECK(moved.drain({}) == 0);
  moved.wait(10'000);
  CHECK_FALSE(moved.has_completed(1));
  CHECK(moved.pending() == 0);
  CHECK_FALSE(moved.attached());
  CHECK(moved.socket_path().empty());
  CHECK(moved.max_value_bytes() == 0);
  CHECK(moved.stats().attaches == 0);
  moved = std::move(client);
  CHECK(moved.ping() == Status::ok);
}

TEST_CASE("namespaces separate keys and carry their options") {
  SocketPlace place;
  FakeDaemon daemon(daemon_at(place));
  Client client = Client::connect(options_for(place)).value();
  simm::Region region = client.allocate_region(4096).value();
  CallOptions one;
  one.name_space = client.open_namespace("one").value();
  CallOptions exact;
  exact.name_space = client.open_namespace("two", {true, true}).value();
  REQUIRE(client.put("k", View(region, 0, 100), one).ok());
  CHECK_FALSE(client.exists("k").ok());
  CHECK_FALSE(client.exists("k", exact).ok());
  CHECK(client.exists("k", one).ok());
  REQUIRE(client.put("k", View(region, 0, 50), exact).ok());
  CHECK(client.get("k", View(region, 0, 100), exact).status == Status::not_found);
  CHECK(client.get("k", View(region, 0, 100), one).ok());
  CHECK(client.open_namespace("one").has_value());
  CHECK(daemon.namespaces() == std::vector<std::string>{"one", "two"});
  CHECK(client.open_namespace("").status() == Status::invalid_argument);
  CHECK(client.open_namespace(std::string(256, 'n')).status() == Status::invalid_argument);
}

TEST_CASE("a bad name is refused here and costs the session nothing") {
  SocketPlace place;
  FakeDaemon daemon(daemon_at(place));
  Client client = Client::connect(options_for(place)).value();
  for (const std::string name : {"a\nb", "\x7f", "\x1b[2J"}) {
    const auto refused = client.open_namespace(name);
    CHECK(refused.status() == Status::invalid_argument);
    CHECK(refused.error().context.find("name") != std::string::npos);
    CHECK(refused.error().context.find("control character") != std::string::npos);
  }
  CHECK(client.open_namespace(std::string("a\0b", 3)).status() == Status::invalid_argument);
  CHECK(client.ping() == Status::ok);
  CHECK(client.stats().attaches == 1);
  CHECK(daemon.namespaces().empty());
}

TEST_CASE("several Clients are one session, which ends with the last handle") {
  SocketPlace place;
  FakeDaemon daemon(daemon_at(place));
  {
    Client first = Client::connect(options_for(place)).value();
    simm::Region region = first.allocate_region(4096).value();
    {
      Client second = Client::connect(options_for(place)).value();
      CHECK(second.put("k", View(region, 0, 10)).ok());
    }
    CHECK(daemon.counts().sessions == 1);
    CHECK(daemon.counts().hellos == 1);
    Client moved = std::move(first);
    CHECK(moved.get("k", View(region, 0, 10)).ok());
  }
  CHECK(eventually([&] { return daemon.counts().sessions == 0; }));
  Client again = Client::connect(options_for(place)).value();
  CHECK(again.exists("k").ok());
  CHECK(daemon.counts().hellos == 2);
}

TEST_CASE("a further Client whose options can not be honoured is refused by the field") {
  SocketPlace place;
  FakeDaemon daemon(daemon_at(place));
  ClientOptions wanted = options_for(place);
  wanted.lanes = 6;
  wanted.async_lanes = 3;
  wanted.wait = simm::WaitMode::event;
  wanted.staging_bytes = 1 << 20;
  std::optional<Client> first(Client::connect(wanted).value());
  CHECK(Client::connect(wanted).has_value());
  ClientOptions defaults;
  defaults.socket_path = place.path();
  CHECK(Client::connect(defaults).has_value());
  ClientOptions own = wanted;  // each Client's own, and the name
  own.name = "another";
  own.sync_timeout_ms = 7;
  own.reattach = false;
  CHECK(Client::connect(own).has_value());
  const auto check_refused = [&](const ClientOptions& other, const std::string& text) {
    const auto refused = Client::connect(other);
    REQUIRE(refused.status() == Status::invalid_argument);
    CAPTURE(refused.error().context);
    CHECK(refused.error().context.find(text) == 0);
  };
  ClientOptions other = wanted;
  other.lanes = 16;
  check_refused(other, "lanes = 16: this process has 6");
  other = wanted;
  other.async_lanes = 1;
  check_refused(other, "async_lanes = 1: this process has 3");
  other = wanted;
  other.wait = simm::WaitMode::spin;
  check_refused(other, "wait = spin: this process has event");
  other = wanted;
  other.staging_bytes = 2 << 20;
  check_refused(other, "staging_bytes = 2097152: this process has 1048576");
  CHECK(first->ping() == Status::ok);
  CHECK(daemon.counts().hellos == 1);
  first.reset();
  CHECK(Client::connect(other).has_value());
}

TEST_CASE("more threads than lanes wait for one, all inside their deadline") {
  SocketPlace place;
  FakeDaemon daemon(daemon_at(place));
  ClientOptions options = options_for(place);
  options.lanes = 3;
  options.async_lanes = 1;
  Client client = Client::connect(options).value();
  simm::Region region = client.allocate_region(8 * 4096).value();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::size_t t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::byte* const mine = region.data() + t * 4096;
      for (std::size_t i = 0; i < 200; ++i) {
        const std::string key = key_of(t) + "/" + std::to_string(i);
        fill(mine, 2048, i * 8 + t);
        if (!client.put(key, View(mine, 2048)).ok()) ++wrong;
        if (!client.get(key, View(mine + 2048, 2048)).ok()) ++wrong;
        if (std::memcmp(mine, mine + 2048, 2048) != 0) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(client.stats().lane_waits > 0);

  // Both lanes are taken by calls that hang: a third one gives up at its own deadline.
  daemon.stop();
  std::vector<std::thread> hanging;
  for (int t = 0; t < 2; ++t) {
    hanging.emplace_back([&] {
      CallOptions patient;
      patient.timeout_ms = 3000;
      CHECK(client.exists("k", patient).status == Status::not_found);
    });
  }
  REQUIRE(daemon.wait_until_holding(2));
  CallOptions hasty;
  hasty.timeout_ms = 50;
  CHECK(client.exists("k", hasty).status == Status::timeout);
  daemon.go_on();
  for (std::thread& thread : hanging) thread.join();
}

TEST_CASE("connecting says what is wrong, and the remedy") {
  SocketPlace place;
  const auto none = Client::connect(options_for(place));
  CHECK(none.status() == Status::unreachable);
  CHECK(none.error().context.find(place.path()) != std::string::npos);
  CHECK(none.error().context.find("simmd all") != std::string::npos);
  CHECK(std::string(simm::last_error()) == none.error().context);

  const auto refused_field = [&](auto change, const char* field) {
    ClientOptions options = options_for(place);
    change(options);
    const auto refused = Client::connect(options);
    CHECK(refused.status() == Status::invalid_argument);
    CHECK(refused.error().context.find(field) != std::string::npos);
  };
  refused_field([](ClientOptions& o) { o.lanes = 1; }, "lanes = 1");
  refused_field([](ClientOptions& o) { o.lanes = 65; }, "lanes = 65");
  refused_field([](ClientOptions& o) { o.async_lanes = 4; }, "async_lanes = 4");
  refused_field([](ClientOptions& o) { o.async_lanes = 0; }, "async_lanes = 0");
  refused_field([](ClientOptions& o) { o.wait = static_cast<simm::WaitMode>(9); }, "wait = 9");
  refused_field([](ClientOptions& o) { o.sync_timeout_ms = 0; }, "sync_timeout_ms");
  refused_field([](ClientOptions& o) { o.async_timeout_ms = 0; }, "async_timeout_ms");
  refused_field([](ClientOptions& o) { o.connect_timeout_ms = 0; }, "connect_timeout_ms");
  refused_field([](ClientOptions& o) { o.staging_bytes = 1; }, "staging_bytes = 1");
  refused_field([](ClientOptions& o) { o.name = std::string(300, 'n'); }, "name");
  refused_field([](ClientOptions& o) { o.name = "a\nb"; }, "name");

  FakeOptions cluster = daemon_at(place);
  cluster.manager_address = "10.0.0.1:30001";
  FakeDaemon daemon(cluster);
  ClientOptions other = options_for(place);
  other.manager_address = "10.0.0.2:30001";
  const auto wrong_cluster = Client::connect(other);
  CHECK(wrong_cluster.status() == Status::invalid_argument);
  CHECK(wrong_cluster.error().context.find("10.0.0.1:30001") != std::string::npos);
  CHECK(wrong_cluster.error().context.find("10.0.0.2:30001") != std::string::npos);
  other.manager_address = "10.0.0.1:30001";
  other.name = "a name";
  CHECK(Client::connect(other).has_value());
  CHECK(daemon.client_names().back() == "a name");
}

TEST_CASE("a daemon that refuses, is silent, or has too few lanes") {
  SocketPlace place;
  {
    FakeOptions refusing = daemon_at(place);
    refusing.refuses = "64 sessions are open: raise max_sessions";
    FakeDaemon daemon(refusing);
    const auto refused = Client::connect(options_for(place));
    CHECK(refused.status() == Status::out_of_memory);
    CHECK(refused.error().context.find("raise max_sessions") != std::string::npos);
  }
  {
    FakeOptions silent = daemon_at(place);
    silent.silent = true;
    FakeDaemon daemon(silent);
    ClientOptions hasty = options_for(place);
    hasty.connect_timeout_ms = 100;
    CHECK(Client::connect(hasty).status() == Status::timeout);
  }
  {
    FakeOptions narrow = daemon_at(place);
    narrow.lanes_max = 2;
    FakeDaemon daemon(narrow);
    const auto refused = Client::connect(options_for(place));
    CHECK(refused.status() == Status::incompatible);
    ClientOptions modest = options_for(place);
    modest.lanes = 8;  // granted: 2
    modest.async_lanes = 1;
    Client client = Client::connect(modest).value();
    CHECK(client.exists("k").status == Status::not_found);
  }
}

}  // namespace client_test
