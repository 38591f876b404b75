// A control thread without threads: the production attach server with a data plane that answers
// when the test says so, driven by the test's own polling. Clients are raw sockets.
// Thread: the test's.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/attach/attach_server.h"
#include "daemon/base/manual_clock.h"
#include "daemon/base/real_clock.h"
#include "ipc/control_codec.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/turns_until.h"

namespace control_fixture {

using namespace simm;

using test_support::TemporaryDirectory;

// Records requests and answers them at once, unless `holding`.
class FakePlane : public control::SessionControl {
public:
  void open_session(const control::SessionStart& start) override {
    opened.push_back(start.session_id);
    answer([this, id = start.session_id] { events->on_session_opened(id, open_status); });
  }
  void open_name_space(std::uint64_t id, session::OpenNameSpace name_space) override {
    name_spaces.push_back(name_space);
    const auto local = static_cast<std::uint16_t>(name_spaces.size());
    answer([this, id, local] { events->on_name_space_opened(id, Status::ok, local); });
  }
  void add_region(std::uint64_t id, std::unique_ptr<memory::RegionMemory> region) override {
    regions.push_back(std::move(region));
    const auto handle = static_cast<ipc::RegionHandle>(1u << 16 | regions.size());
    answer([this, id, handle] { events->on_region_added(id, handle, nullptr); });
  }
  void remove_region(std::uint64_t id, ipc::RegionHandle handle) override {
    const std::size_t index = (handle & 0xffff) - 1;
    answer([this, id, index] {
      const bool known = index < regions.size();
      events->on_region_removed(id, known ? std::move(regions[index]) : nullptr);
    });
  }
  void close_session(std::uint64_t id, ipc::PoisonReason poison, bool client_waits) override {
    closed.push_back(id);
    waits.push_back(client_waits);
    poisons.push_back(poison);
    // The regions of all sessions, which is good enough for tests with one of them.
    answer([this, id] {
      control::SessionRemains remains;
      remains.regions = std::exchange(regions, {});
      std::erase(remains.regions, nullptr);  // those that were removed before
      events->on_session_gone(id, std::move(remains), ipc::BellSocket(-1));
    });
  }

  void answer(std::function<void()> call) { answers.push_back(std::move(call)); }
  bool deliver() {
    if (holding || answers.empty()) return false;
    auto call = std::move(answers.front());
    answers.pop_front();
    call();
    return true;
  }

  control::SessionControlEvents* events = nullptr;
  Status open_status = Status::ok;
  bool holding = false;
  std::deque<std::function<void()>> answers;
  std::vector<std::uint64_t> opened, closed;
  std::vector<ipc::PoisonReason> poisons;
  std::vector<bool> waits;  // whether the client waits for what is in flight
  std::vector<session::OpenNameSpace> name_spaces;
  std::vector<std::unique_ptr<memory::RegionMemory>> regions;
};

// Regions of thin air; counts how many exist.
class FakeOpener : public control::RegionOpener {
public:
  control::RegionAnswer open(control::RegionRequest request) override {
    if (before_open) before_open(request);
    control::RegionAnswer answer;
    answer.status = status;
    answer.kind = kind;
    answer.reason = "because";
    if (status != Status::ok || kind == ipc::RegionRequestKind::staged) return answer;
    memory::RegionMemory::Spec spec;
    spec.id = last_id.fetch_add(1) + 1;
    spec.length = request.wanted.length;
    auto charge = budget.charge(spec.length);
    REQUIRE(charge.has_value());
    spec.kind = memory::RegionKind::foreign;
    answer.memory = memory::RegionMemory::copied(spec, std::move(*charge), nullptr);
    return answer;
  }
  [[nodiscard]] std::uint64_t alive() const { return budget.regions(); }

  memory::PinBudget budget{"test", 1ull << 40, 1000};
  std::atomic<std::uint64_t> last_id{0};
  std::function<void(const control::RegionRequest&)> before_open;  // on the thread that opens
  Status status = Status::ok;
  ipc::RegionRequestKind kind = ipc::RegionRequestKind::shared;
};

class World {
public:
  // `takes_pages`: session memory may be the client's, as on a machine without swap.
  explicit World(const std::function<void(base::Config&)>& change = {}, bool takes_pages = true)
      : config(make_config(directory, change)),
        errors(clock),
        log(clock, base::LogLevel::error, 2, false),
        events(clock, log, counters),
        limits(counters),
        tenants(config, base::KeyHasher(1)),
        accounts(tenants, config),
        registrar("test-registrar", 16),
        adopter("test-adopter", 16),
        closers(tenants, "test-closer"),
        sealers(tenants, "test-sealer"),
        session_memory(io, clock, control::SessionMemoryBudget::Bounds::of(config, 1ull << 40),
                       counters),
        environment{io, config, clock, counters, limits, errors, log, registrar, events},
        server({environment,
                plane,
                opener,
                tenants,
                accounts,
                closers,
                sealers,
                adopter,
                session_memory,
                {},
                takes_pages},
               1) {
    plane.events = &server;
    registrar.start(tenants.ids());
    adopter.start();
    closers.start();
    sealers.start();
    std::vector<control::InheritedSocket> none;
    const Outcome listening = server.listen(none);
    REQUIRE(listening.has_value());
  }
  ~World() {
    server.drain([] {});
    plane.holding = false;
    until([this] { return server.sessions() == 0; });
    adopter.stop();
    registrar.stop();
    closers.stop();
    sealers.stop();
    io.restart();
    io.poll();
  }

  // Whether there was anything to do.
  bool turn() {
    io.restart();
    const bool worked = io.poll() > 0;
    return plane.deliver() || worked;
  }
  // Runs everything until `done`; a test that never gets there fails.
  void until(const std::function<bool()>& done) {
    const bool is_done = test_support::turns_until([this] { return turn(); }, done);
    CHECK(is_done);
  }
  // Lets everything happen that happens by itself.
  void settle() {
    for (int idle = 0; idle < 20;) {
      idle = turn() ? 0 : idle + 1;
      if (idle > 0) ::usleep(500);
    }
  }

  ipc::FdSocket connect(std::size_t socket = 0) {
    auto connected = ipc::FdSocket::connect(config.sockets[socket].path, base::kNsPerSecond);
    REQUIRE(connected.has_value());
    return std::move(*connected);
  }

  static void send(ipc::FdSocket& socket, const ipc::ClientMessage& message,
                   std::span<const int> fds = {}) {
    const auto packet = ipc::encode(message);
    REQUIRE(packet.has_value());
    CHECK(socket.try_send(*packet, fds) == ipc::SocketResult::done);
  }

  // The next message to this client.
  struct Answer {
    ipc::DaemonMessage message;
    std::vector<ipc::UniqueFd> fds;
  };
  Answer receive(ipc::FdSocket& socket) {
    std::vector<std::byte> buffer(ipc::kControlMessageBytesMax);
    ipc::Received received;
    until([&] {
      received = socket.try_receive(buffer);
      return received.result != ipc::SocketResult::would_block;
    });
    REQUIRE(received.result == ipc::SocketResult::done);
    auto message = ipc::decode_daemon_message(std::span(buffer.data(), received.bytes));
    REQUIRE(message.has_value());
    Answer answer{std::move(*message), {}};
    for (std::size_t i = 0; i < received.fd_count; ++i) {
      answer.fds.push_back(std::move(received.fds[i]));
    }
    return answer;
  }
  bool hung_up(ipc::FdSocket& socket) {
    std::array<std::byte, 4096> buffer;
    ipc::Received received;
    until([&] {
      received = socket.try_receive(buffer);
      return received.result != ipc::SocketResult::would_block &&
             received.result != ipc::SocketResult::done;
    });
    return received.result == ipc::SocketResult::hung_up;
  }

  // A client whose session is open.
  ipc::FdSocket attach(std::size_t socket_index = 0, ipc::Welcome* welcome = nullptr) {
    ipc::FdSocket socket = connect(socket_index);
    send(socket, ipc::Hello{});
    Answer first = receive(socket);
    const auto* got = std::get_if<ipc::Welcome>(&first.message);
    REQUIRE(got != nullptr);
    REQUIRE(first.fds.size() == ipc::kWelcomeFds);
    if (welcome != nullptr) *welcome = *got;
    send(socket, ipc::Mapped{});
    REQUIRE(std::holds_alternative<ipc::Opened>(receive(socket).message));
    return socket;
  }

  static base::Config make_config(const TemporaryDirectory& directory,
                                  const std::function<void(base::Config&)>& change) {
    base::Config config = base::default_config();
    config.sockets = {{directory / "a.sock", "", 0600}, {directory / "b.sock", "blue", 0600}};
    if (change) change(config);
    return config;
  }

  TemporaryDirectory directory{"/tmp"};  // short, for the names of sockets
  base::Config config;
  base::RealClock clock;
  base::CounterSet counters;
  base::ErrorLog errors;
  base::Log log;
  base::EventLog events;
  base::LimitCounters limits;
  control::TenantRules tenants;
  control::TenantAccounts accounts;
  boost::asio::io_context io;
  control::JobThread registrar;
  control::JobThread adopter;
  control::Closers closers;
  control::Closers sealers;
  control::SessionMemoryBudget session_memory;
  control::Environment environment;
  FakePlane plane;
  FakeOpener opener;
  control::AttachServer server;
};

}  // namespace control_fixture
