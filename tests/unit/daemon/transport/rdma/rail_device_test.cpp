// Ports that come and go: opened when they can be, ended in order when their device has gone, and
// there again with the next one.
#include "daemon/transport/rdma/device/rail_device.h"

#include <doctest/doctest.h>

#include <poll.h>

#include <atomic>
#include <thread>
#include <utility>

#include "daemon/base/real_clock.h"
#include "daemon/transport/rdma/rdma_link.h"
#include "registrar_world.h"
#include "tests/support/fake_rail.h"

namespace rail_device_test {

using namespace simm;
using namespace simm::transport;
using fake_rail::FakeRail;
using registrar_world::until;

// Where a device is plugged in, or not.
struct Slot {
  std::atomic<bool> is_there{true};
  std::atomic<bool> takes_ports{true};
  std::atomic<int> opened{0};
  std::atomic<int> live{0};
  std::atomic<FakeRail*> now{nullptr};
};

class Plugged final : public FakeRail {
public:
  explicit Plugged(Slot& slot) : FakeRail(1, 1), slot_(slot) {
    ++slot_.live;
    ++slot_.opened;
    slot_.now = this;
  }
  ~Plugged() override { --slot_.live; }
  Expected<std::unique_ptr<RdmaPort>> make_port(std::uint32_t completions_max) override {
    if (!slot_.takes_ports) return Error{Status::out_of_memory, "no completion queue is left"};
    return FakeRail::make_port(completions_max);
  }

private:
  Slot& slot_;
};

struct World {
  World()
      : log(clock, base::LogLevel::error),
        rail({"fake_0", 1,
              [this]() -> Expected<std::unique_ptr<RdmaDevice>> {
                if (!slot.is_there) return Error{Status::unreachable, "fake_0 is not there"};
                return std::unique_ptr<RdmaDevice>(new Plugged(slot));
              },
              log, counters.counter("is_open"), counters.counter("lost"),
              std::chrono::milliseconds(1)}) {}

  void start() {
    const Outcome started = rail.start({[this] { ++changes; },
                                        [this] {
                                          ++keys_closed;
                                          memory.reset();
                                        },
                                        [this] { ++keys_opened; }});
    REQUIRE(started.has_value());
  }
  // The rail's thread may still be busy with what goes with it: its figures, its keys.
  void until_state(RailState state) {
    until([&] { return rail.state() == state; });
  }
  std::unique_ptr<RdmaPort> port() {
    auto made = rail.make_port(64);
    REQUIRE(made.has_value());
    return std::move(*made);
  }

  base::RealClock clock;
  base::Log log;
  base::CounterSet counters;
  Slot slot;
  std::atomic<int> changes{0};
  std::atomic<int> keys_closed{0};
  std::atomic<int> keys_opened{0};
  std::unique_ptr<Registration> memory;  // of a registrar
  RailDevice rail;
};

bool can_link(World& world, RdmaPort& port) {
  return make_rdma_link(world.rail, port, true).has_value();
}

TEST_CASE("rail: a port that can not be opened says why, and opens when it can be") {
  World world;
  world.slot.is_there = false;
  CHECK(world.rail.open().status() == Status::unreachable);
  const auto port = world.port();
  world.start();
  std::array<Completion, 4> some;
  CHECK(port->poll(some) == 0);
  CHECK(port->prepare_sleep());
  CHECK(world.rail.trouble() == "fake_0 is not there");
  const auto link = make_rdma_link(world.rail, *port, true);
  CHECK(link.status() == Status::unreachable);
  CHECK(link.error().context == "fake_0: the port is not open: fake_0 is not there");
  CHECK(world.rail.refresh().status() == Status::unreachable);
  CHECK(world.rail.address() == QueuePairAddress{});
  world.slot.takes_ports = false;
  world.slot.is_there = true;
  until([&] { return world.rail.trouble() == "no completion queue is left"; });
  CHECK(world.rail.state() == RailState::waiting);
  world.slot.takes_ports = true;
  world.until_state(RailState::open);
  until([&] { return world.changes == 1 && world.keys_opened == 1; });
  CHECK(world.rail.trouble().empty());
  CHECK(world.counters.value("is_open") == 1);
  CHECK_FALSE(port->prepare_sleep());  // there is news
  pollfd polled{port->event_descriptor(), POLLIN, 0};
  CHECK(::poll(&polled, 1, 0) == 1);
  CHECK(port->poll(some) == 0);
  CHECK(::poll(&polled, 1, 0) == 0);
  CHECK(can_link(world, *port));
}

TEST_CASE("rail: a link that is down makes no queue pairs, and leaves those that there are") {
  World world;
  REQUIRE(world.rail.open());
  const auto port = world.port();
  world.start();
  auto link = make_rdma_link(world.rail, *port, true);
  REQUIRE(link.has_value());
  world.slot.now.load()->knobs.is_down = true;
  world.until_state(RailState::down);
  CHECK(world.rail.trouble() == "rail-1: its link is down");
  until([&] { return world.counters.value("is_open") == 0; });
  CHECK(world.slot.now.load()->knobs.live == 1);
  world.slot.now.load()->knobs.network = 7;
  world.slot.now.load()->knobs.is_down = false;
  world.until_state(RailState::open);
  until([&] { return world.changes == 2; });
  CHECK(world.rail.address().gid[14] == 7);
  CHECK(world.slot.opened == 1);
  CHECK(world.counters.value("lost") == 0);
  CHECK(can_link(world, *port));
}

TEST_CASE("rail: a device that has gone ends behind its queue pairs, its memory and its agents") {
  World world;
  REQUIRE(world.rail.open());
  const auto port = world.port();
  world.start();
  std::array<Completion, 4> some;
  CHECK(port->poll(some) == 0);
  auto link = make_rdma_link(world.rail, *port, true);
  REQUIRE(link.has_value());
  std::byte bytes[16];
  world.memory = std::move(*world.rail.register_memory({bytes, sizeof bytes}, RemoteAccess::none));
  const auto sleep = [] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); };
  world.slot.now.load()->knobs.event = DeviceEvent::gone;
  world.until_state(RailState::ending);
  CHECK(world.rail.trouble() == "the device was reset, or taken out");
  CHECK(make_rdma_link(world.rail, *port, true).status() == Status::unreachable);
  sleep();  // whatever it does too early, it would do now
  CHECK(world.keys_closed == 0);
  CHECK(world.slot.now.load()->knobs.live == 1);
  link->reset();
  until([&] { return world.keys_closed == 1; });
  until([&] {
    const auto made = world.rail.register_memory({bytes, sizeof bytes}, RemoteAccess::none);
    return made.status() == Status::unreachable;
  });
  sleep();
  CHECK(world.slot.live == 1);  // an agent may be polling it
  CHECK(world.rail.state() == RailState::ending);
  world.slot.is_there = false;
  CHECK(port->poll(some) == 0);
  world.until_state(RailState::waiting);
  until([&] { return world.slot.live == 0; });
  world.slot.is_there = true;
  world.until_state(RailState::open);
  CHECK(world.slot.opened == 2);
  CHECK(can_link(world, *port));
  CHECK(world.counters.value("lost") == 1);
  until([&] { return world.keys_opened == 1; });
}

TEST_CASE("rail: agents poll, sleep and make links while devices come and go") {
  World world;
  REQUIRE(world.rail.open());
  const auto port = world.port();
  world.start();
  std::atomic<bool> is_over{false};
  std::thread agent([&] {
    std::array<Completion, 4> some;
    while (!is_over) {
      static_cast<void>(port->poll(some));
      static_cast<void>(port->prepare_sleep());
      std::this_thread::yield();
    }
  });
  std::thread maker([&] {
    while (!is_over) {
      static_cast<void>(can_link(world, *port));
      static_cast<void>(world.rail.address());
      std::this_thread::yield();
    }
  });
  for (int round = 1; round <= 20; ++round) {
    world.until_state(RailState::open);
    world.slot.now.load()->knobs.event = DeviceEvent::gone;
    until([&] { return world.slot.opened > round; });
  }
  is_over = true;
  agent.join();
  maker.join();
  CHECK(world.counters.value("lost") == 20);
}

TEST_CASE("rail: who stops leaves a device that has not ended to its owner") {
  World world;
  REQUIRE(world.rail.open());
  {
    const auto port = world.port();
    world.start();
    auto link = make_rdma_link(world.rail, *port, true);
    world.slot.now.load()->knobs.event = DeviceEvent::gone;
    world.until_state(RailState::ending);
    world.rail.stop();
  }
  CHECK(world.keys_closed == 0);
  CHECK(world.slot.live == 1);
}

}  // namespace rail_device_test
