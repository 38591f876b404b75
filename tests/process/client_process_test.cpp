// libclient against a real daemon: kill -9 and SIGSTOP of either side under load, forks and execs,
// many processes, programs of others. Every byte that is answered is verified.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "simm/client.h"
#include "tests/support/daemon_process.h"
#include "tests/support/paths.h"

namespace client_process_test {

using simm::CallOptions;
using simm::Client;
using simm::ClientOptions;
using simm::Item;
using simm::PageResult;
using simm::Region;
using simm::Status;
using simm::View;
using simm::test_support::DaemonProcess;
using simm::test_support::eventually;
using simm::test_support::program;
using Clock = std::chrono::steady_clock;

Client attach(const std::string& socket) {
  ClientOptions options;
  options.socket_path = socket;
  options.lanes = 4;
  auto client = Client::connect(options);
  if (!client) FAIL(client.error().context);
  return std::move(*client);
}

// Of calls that shall never fail, on a busy machine too.
constexpr std::uint32_t kPatientMs = 30'000;

CallOptions within(std::uint32_t timeout_ms) {
  CallOptions options;
  options.timeout_ms = timeout_ms;
  options.mode = simm::PutMode::replace;
  return options;
}

// The page of a key at a version begins with both and continues with bytes made from them.
void write_page(std::byte* page, std::size_t bytes, std::uint64_t key, std::uint64_t version) {
  std::uint64_t word = key << 32 | version;
  for (std::size_t at = 0; at < bytes; at += 8) {
    std::memcpy(page + at, &word, std::min<std::size_t>(8, bytes - at));
    if (at == 0) word ^= 0x9e3779b97f4a7c15;
    word = word * 6364136223846793005u + 1442695040888963407u;
  }
}

bool is_page_of(const std::byte* page, std::size_t bytes, std::uint64_t key) {
  std::uint64_t first = 0;
  std::memcpy(&first, page, 8);
  if (first >> 32 != key) return false;
  std::vector<std::byte> expected(bytes);
  write_page(expected.data(), bytes, key, first & 0xffffffff);
  return std::memcmp(page, expected.data(), bytes) == 0;
}

// Sizes that are no multiple of anything.
std::size_t size_of(std::uint64_t key) {
  return 9 + key * 7919 % 60'000;
}

// What children and parent tell each other: in memory that both have.
struct Tally {
  std::atomic<std::uint64_t> verified{0};
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<std::uint64_t> failed{0};  // calls answered with an error
  std::atomic<int> attached{0};          // children that have their session
  std::atomic<bool> done{false};
};
struct SharedTally {
  SharedTally()
      : tally(new (::mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Tally) {}
  ~SharedTally() { ::munmap(tally, sizeof(Tally)); }
  Tally* const tally;
};

pid_t in_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::alarm(300);
    body();
    ::_exit(0);
  }
  return child;
}
int ended(pid_t child) {
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// Puts, gets and verifies until told to stop. Half of its memory is shared, half private.
void load(Client& client, Tally& tally, std::uint64_t seed) {
  constexpr std::size_t kSlot = 64 * 1024;
  auto allocated = client.allocate_region(4 * kSlot);
  std::vector<std::byte> own(4 * kSlot);
  auto registered = client.register_region(own.data(), own.size());
  if (!allocated || !registered) ::_exit(3);
  for (std::uint64_t i = 0; !tally.done; ++i) {
    const std::uint64_t key = (seed + i * 13) % 40;
    const std::string name = "load/" + std::to_string(key);
    const Region& region = i % 2 == 0 ? *allocated : *registered;
    const std::size_t bytes = size_of(key);
    write_page(region.data(), bytes, key, seed * 1000 + i % 1000);
    if (!client.put(name, View(region, 0, bytes), within(kPatientMs)).ok()) ++tally.failed;
    std::memset(region.data() + kSlot, 0xcc, kSlot + 64);
    const PageResult got = client.get(name, View(region, kSlot, kSlot), within(kPatientMs));
    if (!got.ok()) {
      ++tally.failed;
      continue;
    }
    const bool right = got.bytes == bytes && is_page_of(region.data() + kSlot, bytes, key) &&
                       region.data()[kSlot + bytes] == std::byte{0xcc};
    ++(right ? tally.verified : tally.wrong);
  }
}

TEST_CASE("eight processes at once on the same keys") {
  DaemonProcess daemon;
  REQUIRE(daemon.start());
  SharedTally shared;
  std::vector<pid_t> children;
  for (std::uint64_t i = 0; i < 8; ++i) {
    children.push_back(in_child([&, i] {
      Client client = attach(daemon.socket());
      load(client, *shared.tally, i);
    }));
  }
  CHECK(eventually([&] { return shared.tally->verified >= 2000; }));
  shared.tally->done = true;
  for (const pid_t child : children) CHECK(ended(child) == 0);
  CHECK(shared.tally->wrong == 0);
  CHECK(shared.tally->failed == 0);
}

TEST_CASE("clients killed and stopped under load harm nobody") {
  DaemonProcess daemon;
  REQUIRE(daemon.start());
  SharedTally shared;
  const pid_t honest = in_child([&] {
    Client client = attach(daemon.socket());
    load(client, *shared.tally, 1);
  });
  SharedTally victims;
  for (int round = 0; round < 6; ++round) {
    const pid_t victim = in_child([&] {
      Client client = attach(daemon.socket());
      load(client, *victims.tally, 2);
    });
    const std::uint64_t before = victims.tally->verified;
    CHECK(eventually([&] { return victims.tally->verified > before + 10; }));
    if (round % 2 == 1) {
      ::kill(victim, SIGSTOP);
      const std::uint64_t seen = shared.tally->verified;
      CHECK(eventually([&] { return shared.tally->verified > seen + 20; }));
    }
    ::kill(victim, SIGKILL);
    CHECK(ended(victim) == 1000 + SIGKILL);
  }
  shared.tally->done = true;
  CHECK(ended(honest) == 0);
  CHECK(shared.tally->wrong == 0);
  CHECK(victims.tally->wrong == 0);
  CHECK(shared.tally->failed == 0);
  CHECK(eventually([&] { return daemon.ask("sessions") == "[]"; }));
}

TEST_CASE("daemon killed under load and started again: clients come back by themselves") {
  DaemonProcess daemon;
  REQUIRE(daemon.start());
  SharedTally shared;
  std::vector<pid_t> children;
  for (std::uint64_t i = 0; i < 3; ++i) {
    children.push_back(in_child([&, i] {
      Client client = attach(daemon.socket());
      ++shared.tally->attached;
      load(client, *shared.tally, i);
    }));
  }
  // A first attach needs a daemon: none is killed before all have theirs.
  REQUIRE(eventually([&] { return shared.tally->attached == 3; }));
  for (int round = 0; round < 3; ++round) {
    const std::uint64_t before = shared.tally->verified;
    CHECK(eventually([&] { return shared.tally->verified > before + 50; }));
    daemon.signal(SIGKILL);
    CHECK(daemon.wait() == 1000 + SIGKILL);
    REQUIRE(daemon.start());
  }
  const std::uint64_t before = shared.tally->verified;
  CHECK(eventually([&] { return shared.tally->verified > before + 50; }));
  shared.tally->done = true;
  for (const pid_t child : children) CHECK(ended(child) == 0);
  CHECK(shared.tally->wrong == 0);
  CHECK(shared.tally->failed > 0);
}

TEST_CASE("connect() finds a restarted daemon, although nobody had noticed the end of the former") {
  DaemonProcess daemon;
  REQUIRE(daemon.start());
  const Client idle = attach(daemon.socket());
  for (int life = 0; life < 3; ++life) {
    daemon.signal(SIGKILL);
    CHECK(daemon.wait() == 1000 + SIGKILL);
    ClientOptions options;
    options.socket_path = daemon.socket();
    CHECK(Client::connect(options).status() == Status::unreachable);
    REQUIRE(daemon.start());
    Client client = attach(daemon.socket());
    CHECK(client.allocate_region(4096).has_value());
    daemon.signal(SIGKILL);
    CHECK(daemon.wait() == 1000 + SIGKILL);
    REQUIRE(daemon.start());
    Client another = attach(daemon.socket());
    CHECK(another.allocate_region(4096).has_value());
    CHECK(client.open_namespace("n").has_value());
  }
}

TEST_CASE("daemon stopped under load: calls are bounded, reused pages keep the caller's bytes") {
  DaemonProcess daemon;
  REQUIRE(daemon.start());
  Client client = attach(daemon.socket());
  constexpr std::size_t kPage = 200'001;
  constexpr std::size_t kPages = 64;
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    Region region = client.allocate_region(kPages * kPage).value();
    std::vector<std::string> keys;
    std::vector<Item> items;
    for (std::size_t i = 0; i < kPages; ++i) keys.push_back("stop/" + std::to_string(i));
    for (std::size_t i = 0; i < kPages; ++i) {
      write_page(region.data() + i * kPage, kPage, i, 1);
      items.push_back({keys[i], View(region, i * kPage, kPage), 0, 0});
    }
    std::vector<PageResult> results(kPages);
    REQUIRE(client.put(items, results, within(5000)) == Status::ok);
    std::thread stopper([&] {
      ::usleep(static_cast<useconds_t>(1000 + round * 700));
      daemon.signal(SIGSTOP);
    });
    Clock::time_point start = Clock::now();
    Status status = Status::ok;
    while (status == Status::ok) {
      start = Clock::now();
      status = client.get(items, results, within(300));
    }
    CHECK(Clock::now() - start < std::chrono::milliseconds(300 + 10'000));
    stopper.join();
    CHECK(status == Status::timeout);
    CHECK(region.kind_reason().find("taken back") != std::string::npos);
    for (std::size_t i = 0; i < kPages; ++i) {
      if (results[i].ok()) CHECK(is_page_of(region.data() + i * kPage, kPage, i));
    }
    // The caller uses the pages again at once; the daemon goes on where it was.
    std::memset(region.data(), 0x5a, region.size());
    daemon.signal(SIGCONT);
    CHECK(eventually([&] { return client.ping(within(1000)) == Status::ok; }));
    REQUIRE(std::all_of(region.data(), region.data() + region.size(),
                        [](std::byte b) { return b == std::byte{0x5a}; }));
    REQUIRE(client.get(items, results, within(5000)) == Status::ok);
    for (std::size_t i = 0; i < kPages; ++i) {
      REQUIRE(results[i].ok());
      REQUIRE(is_page_of(region.data() + i * kPage, kPage, i));
    }
  }
}

TEST_CASE("a daemon stopped during puts stores whole values or none") {
  DaemonProcess daemon;
  REQUIRE(daemon.start());
  Client client = attach(daemon.socket());
  constexpr std::size_t kPage = 300'007;
  constexpr std::size_t kPages = 32;
  Region region = client.allocate_region(2 * kPages * kPage).value();
  std::vector<std::string> keys;
  std::vector<Item> items;
  for (std::size_t i = 0; i < kPages; ++i) keys.push_back("whole/" + std::to_string(i));
  for (std::size_t i = 0; i < kPages; ++i) {
    items.push_back({keys[i], View(region, i * kPage, kPage), 0, 0});
  }
  std::vector<PageResult> results(kPages);
  std::thread stopper([&] {
    ::usleep(3000);
    daemon.signal(SIGSTOP);
  });
  Status status = Status::ok;
  for (std::uint64_t version = 1; status == Status::ok; ++version) {
    for (std::size_t i = 0; i < kPages; ++i) {
      write_page(region.data() + i * kPage, kPage, i, version);
    }
    status = client.put(items, results, within(200));
  }
  stopper.join();
  std::memset(region.data(), 0x11, region.size());
  daemon.signal(SIGCONT);
  CHECK(eventually([&] { return client.ping(within(1000)) == Status::ok; }));
  for (std::size_t i = 0; i < kPages; ++i) {
    const PageResult got =
        client.get(keys[i], View(region, (kPages + i) * kPage, kPage), within(5000));
    if (!got.ok()) continue;
    CHECK(got.bytes == kPage);
    CHECK(is_page_of(region.data() + (kPages + i) * kPage, kPage, i));
  }
}

TEST_CASE("lists of any length and odd sizes, shared, staged and adopted memory") {
  DaemonProcess daemon;
  REQUIRE(daemon.start());
  Client client = attach(daemon.socket());
  constexpr std::size_t kBytes = 24 << 20;
  Region shared = client.allocate_region(kBytes).value();
  std::vector<std::byte> own(kBytes);
  Region staged = client.register_region(own.data(), own.size()).value();
  CHECK(staged.kind() == simm::RegionKind::staged);
  void* const mapped = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  // Adopted where the helper has its rights, else staged: both must work, and say which.
  Region automatic = client.register_region(mapped, kBytes).value();
  CHECK_FALSE(automatic.kind_reason().empty());
  for (const Region* region : {&shared, &staged, &automatic}) {
    CAPTURE(simm::region_kind_name(region->kind()));
    for (const std::size_t count : {1u, 7u, 1024u, 2500u}) {
      CAPTURE(count);
      std::vector<std::string> keys;
      std::vector<std::string_view> names;
      std::vector<Item> items;
      for (std::size_t i = 0; i < count; ++i) {
        keys.push_back(std::to_string(i) + simm::region_kind_name(region->kind()));
      }
      for (std::size_t i = 0; i < count; ++i) {
        const std::size_t bytes = 9 + i * 37 % 9000;
        write_page(region->data() + i * 9100, bytes, i, count);
        items.push_back({keys[i], View(*region, i * 9100, bytes), 0, 0});
        names.push_back(keys[i]);
      }
      std::vector<PageResult> results(count);
      REQUIRE(client.put(items, results, within(10'000)) == Status::ok);
      for (const PageResult& result : results) REQUIRE(result.ok());
      std::memset(region->data(), 0, count * 9100);
      REQUIRE(client.exists(names, results) == Status::ok);
      for (std::size_t i = 0; i < count; ++i) REQUIRE(results[i].bytes == items[i].view.length());
      REQUIRE(client.get(items, results, within(10'000)) == Status::ok);
      for (std::size_t i = 0; i < count; ++i) {
        REQUIRE(results[i].bytes == items[i].view.length());
        REQUIRE(is_page_of(region->data() + i * 9100, results[i].bytes, i));
      }
      REQUIRE(client.remove(names, results) == Status::ok);
      for (const PageResult& result : results) REQUIRE(result.ok());
    }
  }
  CHECK(automatic.deregister().has_value());
  ::munmap(mapped, kBytes);
}

TEST_CASE("bad input is answered, the session lives on") {
  DaemonProcess daemon;
  REQUIRE(daemon.start());
  Client client = attach(daemon.socket());
  Region region = client.allocate_region(8192).value();
  write_page(region.data(), 4096, 1, 1);
  REQUIRE(client.put("k", View(region, 0, 4096)).ok());
  CHECK(client.get("k", View(region, 4096, 100)).status == Status::invalid_argument);
  CHECK(client.get("", View(region, 0, 1)).status == Status::invalid_argument);
  CHECK(client.get(std::string(1025, 'k'), View(region, 0, 1)).status == Status::invalid_argument);
  CHECK(client.put("k", View(region, 8000, 193)).status == Status::invalid_argument);
  CHECK(client.get("none", View(region, 0, 1)).status == Status::not_found);
  CHECK(client.remove("none") == Status::not_found);
  CHECK(client.open_namespace("").status() == Status::invalid_argument);
  simm::RegisterOptions gpu;
  gpu.kind = simm::RegionKind::gpu;
  std::vector<std::byte> own(4096);
  CHECK(client.register_region(own.data(), 4096, gpu).status() == Status::invalid_argument);
  // Ranges of an object, exact sizes, namespaces.
  Item ranged{"k", View(region, 4096, 4096), 1000, 0};
  PageResult result;
  REQUIRE(client.get({&ranged, 1}, {&result, 1}) == Status::ok);
  CHECK(result.bytes == 3096);
  CHECK(std::memcmp(region.data() + 1000, region.data() + 4096, 3096) == 0);
  CallOptions exact;
  exact.exact_size = true;
  CHECK(client.get("k", View(region, 0, 8192), exact).status == Status::not_found);
  CallOptions spaced;
  spaced.name_space = client.open_namespace("other").value();
  CHECK(client.exists("k", spaced).status == Status::not_found);
  CHECK(client.exists("k").ok());
  CHECK(client.stats().attaches == 1);
}

TEST_CASE("fork and exec: neither ends nor shares the parent's session") {
  DaemonProcess daemon;
  REQUIRE(daemon.start());
  Client client = attach(daemon.socket());
  Region region = client.allocate_region(8192).value();
  write_page(region.data(), 4096, 7, 1);
  REQUIRE(client.put("k", View(region, 0, 4096)).ok());
  const pid_t forked = in_child([&] {
    if (!client.get("k", View(region, 4096, 4096)).ok()) ::_exit(4);
    if (!client.attached() || !is_page_of(region.data() + 4096, 4096, 7)) ::_exit(5);
  });
  CHECK(ended(forked) == 0);
  const pid_t executed = in_child([] {
    // What exec leaves open would be visible here: 0, 1, 2 and the directory itself.
    ::execl("/bin/sh", "sh", "-c", "test $(ls -l /proc/self/fd | grep -c 'socket\\|memfd') -eq 0",
            static_cast<char*>(nullptr));
  });
  CHECK(ended(executed) == 0);
  CHECK(client.get("k", View(region, 4096, 4096)).ok());
  CHECK(client.stats().attaches == 1);
  CHECK(eventually([&] { return nlohmann::json::parse(daemon.ask("sessions")).size() == 1; }));
}

TEST_CASE("programs of others: the examples, the C interface from C, simmctl") {
  DaemonProcess daemon;
  const auto shell = [](const std::string& line) { return std::system(line.c_str()); };
  const std::string simmctl = program("simmctl") + " --admin " + daemon.admin_socket();
  CHECK(shell(simmctl + " status 2> " + daemon.directory() + "/why") != 0);
  CHECK(shell("grep -q 'no daemon at .*simmd all' " + daemon.directory() + "/why") == 0);

  REQUIRE(daemon.start());
  const std::string socket = "SIMM_SOCKET=" + daemon.socket() + " ";
  CHECK(shell(socket + program("hello_cpp") + " > /dev/null") == 0);
  CHECK(shell(socket + program("hello_c") + " > /dev/null") == 0);
  CHECK(shell(socket + program("process_c_api")) == 0);

  Client client = attach(daemon.socket());
  Region region = client.allocate_region(12'288).value();
  CHECK(shell(simmctl + " status | grep -q '^version  '") == 0);
  CHECK(shell(simmctl + " sessions | grep -q process_daemon") == 0);
  CHECK(shell(simmctl + " regions | grep -q 12288") == 0);
  CHECK(shell(simmctl + " errors > /dev/null") == 0);
  CHECK(shell(simmctl + " stats session. | grep -q '^session\\.'") == 0);
  CHECK(shell(simmctl + " stats store. | grep -q '^session\\.'") != 0);
  CHECK(shell(simmctl + " stats engine. | grep -Eq '^engine\\.0\\.complete_ns +count [1-9][0-9]*, "
                        "p50 < [0-9.]+ us, p99 < [0-9.]+ us, max < [0-9.]+ us$'") == 0);
  CHECK(shell(simmctl + " stats | grep -q log2_") != 0);
  CHECK(shell(simmctl + " --json stats | grep -q log2_00") == 0);
  CHECK(shell(simmctl + " nonsense > /dev/null 2>&1") != 0);
  CHECK(shell(simmctl + " --json sessions | /usr/bin/python3 -c "
                        "'import json,sys; assert json.load(sys.stdin)[0][\"lanes\"] == 4'") == 0);
  CHECK(shell(socket + program("simmctl") + " status --json > /dev/null") == 0);
  const std::string counters =
      nlohmann::json::parse(daemon.ask("status")).at("counters_file").get<std::string>();
  CHECK(shell(simmctl + " stats --counters " + counters + " | grep -q '^session\\.'") == 0);
  CHECK(shell(simmctl + " stats --counters /dev/null > /dev/null 2>&1") != 0);
}

}  // namespace client_process_test
