// A session set with a fake engine, a fake control thread and clients that write into real lanes.
#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "daemon/base/manual_clock.h"
#include "daemon/session/session_set.h"
#include "ipc/client_lane.h"
#include "ipc/session_words.h"

namespace session_rig {

using namespace simm;

// Keeps what is submitted until the test completes it.
class FakeEngine final : public engine::OperationSink {
public:
  explicit FakeEngine(std::uint32_t operations = 8) {
    for (std::uint32_t i = 0; i < operations; ++i) {
      all_.push_back(std::make_unique<engine::Operation>());
      free_.push_back(all_.back().get());
    }
  }
  engine::Operation* allocate() noexcept override {
    if (free_.empty()) return nullptr;
    engine::Operation* const operation = free_.back();
    free_.pop_back();
    return operation;
  }
  void release(engine::Operation& operation) noexcept override { free_.push_back(&operation); }
  void submit(engine::Operation& operation) noexcept override {
    if (on_submit) on_submit(operation);
    submitted.push_back(&operation);
  }
  void end_soon(const engine::OperationEvents& owner, base::TimeNs deadline_ns) noexcept override {
    for (engine::Operation* operation : submitted) {
      if (operation->owner != &owner) continue;
      operation->header.deadline_ns = std::min(operation->header.deadline_ns, deadline_ns);
    }
  }
  // Completes the oldest one: every page has `status`.
  void complete_one(Status status = Status::ok) {
    REQUIRE_FALSE(submitted.empty());
    engine::Operation& operation = *submitted.front();
    submitted.erase(submitted.begin());
    operation.status = Status::ok;
    operation.bytes_moved = 0;
    for (std::uint32_t i = 0; i < operation.page_count; ++i) {
      operation.replies[operation.pages[i].index] = {status, operation.pages[i].slice.length};
      if (status == Status::ok) operation.bytes_moved += operation.pages[i].slice.length;
    }
    operation.owner->on_complete(operation);
    release(operation);
  }
  void complete_all(Status status = Status::ok) {
    while (!submitted.empty()) complete_one(status);
  }
  [[nodiscard]] std::size_t free_count() const { return free_.size(); }

  std::vector<engine::Operation*> submitted;
  std::function<void(const engine::Operation&)> on_submit;

private:
  std::vector<std::unique_ptr<engine::Operation>> all_;
  std::vector<engine::Operation*> free_;
};

class FakeWaiter final : public base::Waiter {
public:
  void announce() noexcept override {}
  void retract() noexcept override {}
  void wait_until(base::TimeNs) noexcept override {}
  Outcome watch(int descriptor, base::FdWatch& handler) override {
    watched.emplace_back(descriptor, &handler);
    return Done{};
  }
  void unwatch(int descriptor) noexcept override {
    for (std::size_t i = watched.size(); i-- > 0;) {
      if (watched[i].first == descriptor) watched.erase(watched.begin() + static_cast<long>(i));
    }
  }
  void wake() noexcept override {}
  std::vector<std::pair<int, base::FdWatch*>> watched;
};

class CountingControl final : public session::ControlWaker {
public:
  void wake_control() noexcept override { ++wakes; }
  int wakes = 0;
};

inline ipc::BellSocket no_bell() {
  return ipc::BellSocket(-1);
}

// One client: memory, session, client ends, one region.
struct Client {
  // In memory of its own, or in `shared` (of session_bytes(), zeroed where it matters).
  explicit Client(const session::SessionConfig& config, ipc::BellSocket bell = no_bell(),
                  std::byte* shared = nullptr)
      : own(shared != nullptr ? 0 : ipc::session_bytes(config.lane_count) / sizeof(Page)),
        memory(shared != nullptr ? shared : own.data()->bytes) {
    session = std::make_unique<session::Session>(config, memory, std::move(bell));
    words = std::make_unique<ipc::ClientSessionWords>(header());
    for (std::uint32_t i = 0; i < config.lane_count; ++i) {
      lanes.emplace_back(ipc::LaneMemory(ipc::lane_base(memory, i)));
    }
  }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  ipc::SessionHeader* header() { return reinterpret_cast<ipc::SessionHeader*>(memory); }
  ipc::LaneMemory lane_memory(std::uint32_t lane) {
    return ipc::LaneMemory(ipc::lane_base(memory, lane));
  }
  ipc::SessionState state() { return words->state(); }

  struct alignas(4096) Page {
    std::byte bytes[4096] = {};
  };
  std::vector<Page> own;
  std::byte* const memory;
  std::unique_ptr<session::Session> session;
  std::unique_ptr<ipc::ClientSessionWords> words;
  std::vector<ipc::ClientLane> lanes;
  const memory::Region* region = nullptr;  // 1 MiB, never touched: the engine is a fake
  ipc::RegionHandle handle = ipc::kNoRegion;
};

struct Rig {
  explicit Rig(std::uint32_t operations = 8, session::SessionSetLimits limits = {},
               std::size_t mailbox = 256)
      : engine(operations), commands(mailbox), events(mailbox) {
    set = std::make_unique<session::SessionSet>(limits, engine, clock, waiter, commands, events,
                                                control,
                                                session::SessionCounters(counters, "session"));
  }
  // Takes every client down; what they have in flight is completed.
  ~Rig() {
    for (const auto& client : clients) command(client->session.get(), Kind::drain);
    engine.complete_all();
    for (int turn = 0; turn < 10'000 && set->sessions() != 0; ++turn) {
      set->do_work();
      engine.complete_all();
      session::SessionEvent ignored;
      while (events.try_pop(ignored)) {
      }
    }
    set.reset();
  }

  using Kind = session::SessionCommand::Kind;
  using EventKind = session::SessionEvent::Kind;

  static session::SessionConfig config(std::uint64_t id, std::uint64_t tenant = 1,
                                       std::uint32_t lanes = 1) {
    session::SessionConfig config;
    config.id = id;
    config.tenant = {tenant};
    config.default_name_space = {{tenant * 100}};
    config.lane_count = lanes;
    config.tenant_bytes_max = 1 << 20;
    config.tenant_operations_max = 4;
    config.limits.regions_max = 64;
    return config;
  }

  void command(session::Session* session, Kind kind, memory::RegionMemory* region = nullptr,
               ipc::RegionHandle handle = 0) {
    session::SessionCommand c;
    c.kind = kind;
    c.session = session;
    c.region = region;
    c.handle = handle;
    c.name_space = {{77}};
    c.reason = ipc::PoisonReason::bad_message;
    c.cookie = 4711;
    REQUIRE(commands.try_push(c));
  }
  session::SessionEvent event(EventKind kind) {
    session::SessionEvent e;
    REQUIRE(events.try_pop(e));
    REQUIRE(e.kind == kind);
    return e;
  }

  // A client with one region of 1 MiB.
  Client& attach(const session::SessionConfig& config, ipc::BellSocket bell = no_bell(),
                 std::byte* shared = nullptr, std::uint64_t region_bytes = 1 << 20) {
    clients.push_back(std::make_unique<Client>(config, std::move(bell), shared));
    Client& client = *clients.back();
    memory::RegionMemory::Spec spec;
    spec.kind = memory::RegionKind::foreign;
    spec.length = region_bytes;
    spec.session_id = config.id;
    auto region = memory::RegionMemory::copied(spec, {}, nullptr);
    client.region = &region->region();
    command(client.session.get(), Kind::attach);
    command(client.session.get(), Kind::add_region, region.release());
    set->do_work();
    event(EventKind::attached);
    client.handle = event(EventKind::region_added).handle;
    REQUIRE(client.handle != ipc::kNoRegion);
    return client;
  }
  void forget(const Client& client) {
    for (std::size_t i = 0; i < clients.size(); ++i) {
      if (clients[i].get() == &client) {
        clients.erase(clients.begin() + static_cast<long>(i));
        return;
      }
    }
  }

  base::CounterSet counters;
  base::ManualClock clock;
  FakeEngine engine;
  FakeWaiter waiter;
  CountingControl control;
  session::SessionCommands commands;
  session::SessionEvents events;
  std::vector<std::unique_ptr<Client>> clients;
  std::unique_ptr<session::SessionSet> set;
};

inline ipc::Submission submission(ipc::Opcode opcode, std::uint32_t pages,
                                  std::uint64_t token = 1) {
  ipc::Submission s{};
  s.opcode = static_cast<std::uint8_t>(opcode);
  s.page_count = pages;
  s.token = token;
  return s;
}

inline ipc::PageDescriptor page(const Client& client, std::uint64_t offset, std::uint64_t length,
                                std::uint32_t key_offset = 0) {
  ipc::PageDescriptor p{};
  p.region = client.handle;
  p.offset = offset;
  p.length = length;
  p.key_offset = key_offset;
  p.key_bytes = 8;
  return p;
}

// Writes `count` put/get pages of `length` bytes and pushes a submission over them.
inline void push(Client& client, ipc::Opcode opcode, std::uint32_t count, std::uint64_t length,
                 std::uint64_t token = 1, std::uint32_t lane = 0) {
  for (std::uint32_t i = 0; i < count; ++i) {
    ipc::PageDescriptor p = page(client, i * length, length, i * 8);
    if (opcode == ipc::Opcode::exists || opcode == ipc::Opcode::remove) p.region = 0;
    REQUIRE(client.lanes[lane].write_page(i, p) == Status::ok);
    const std::string key = "key" + std::to_string(10000 + i);
    REQUIRE(client.lanes[lane].write_key(i * 8, key.data(), 8) == Status::ok);
  }
  REQUIRE(client.lanes[lane].push(submission(opcode, count, token)) == Status::ok);
}

inline ipc::Completion take(Client& client, std::uint32_t lane = 0) {
  ipc::Completion c{};
  REQUIRE(client.lanes[lane].poll_completion(c) == ipc::Poll::taken);
  return c;
}

inline std::uint64_t seed(const char* test) {
  const char* const given = std::getenv("SIMM_TEST_SEED");
  const std::uint64_t value =
      given != nullptr ? std::strtoull(given, nullptr, 0) : std::uint64_t{std::random_device{}()};
  std::printf("%s: repeat with SIMM_TEST_SEED=%llu bin/unit_session -tc='%s'\n", test,
              static_cast<unsigned long long>(value), test);
  std::fflush(stdout);
  return value;
}

}  // namespace session_rig
