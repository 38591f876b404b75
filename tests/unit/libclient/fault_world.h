// A client and its FakeDaemon, which dies, stops and comes back. Thread: the test's.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "fake_daemon.h"
#include "simm/client.h"
#include "tests/support/eventually.h"

namespace fault_test {

using libclient_test::FakeDaemon;
using libclient_test::FakeOptions;
using libclient_test::FakeStore;
using libclient_test::SocketPlace;
using simm::CallOptions;
using simm::Client;
using simm::ClientOptions;
using simm::Item;
using simm::PageResult;
using simm::Region;
using simm::RegionKind;
using simm::Status;
using simm::View;
using simm::test_support::eventually;
using Clock = std::chrono::steady_clock;

struct World {
  explicit World(bool adopts = false, bool knows_patience = false) {
    fake.path = place.path();
    fake.knows_patience = knows_patience;
    fake.adopts = adopts;
    daemon = std::make_unique<FakeDaemon>(fake, store);
    options.socket_path = place.path();
    options.lanes = 4;
    client.emplace(Client::connect(options).value());
  }
  void die() { daemon.reset(); }
  void come_back() { daemon = std::make_unique<FakeDaemon>(fake, store); }
  // Calls until the daemon is there again, as a program would.
  bool wait_until_back() {
    return eventually([&] { return client->ping() == Status::ok; });
  }

  SocketPlace place;
  FakeOptions fake;
  std::shared_ptr<FakeStore> store = std::make_shared<FakeStore>();
  std::unique_ptr<FakeDaemon> daemon;
  ClientOptions options;
  std::optional<Client> client;
};

// Longer than anything that a test waits for takes.
inline constexpr std::uint32_t kLongMs = 120'000;

inline CallOptions within(std::uint32_t timeout_ms) {
  CallOptions options;
  options.timeout_ms = timeout_ms;
  return options;
}

}  // namespace fault_test
