// Floods: connections that say nothing, doorbells, empty batches. An honest client gets its share.
#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "simm/client.h"
#include "tests/siege/two_tenant_daemon.h"
#include "tests/siege/victim.h"
#include "tests/support/raw_client.h"

namespace simm::siege {
namespace floods {

using test_support::RawClient;

TEST_CASE("silent connections do not keep an honest client out") {
  TwoTenantDaemon daemon(R"("session": {"handshake_ms": 1000})");
  Victim victim(daemon.blue_socket());
  std::vector<ipc::FdSocket> silent;
  for (int i = 0; i < 200; ++i) {
    auto socket = ipc::FdSocket::connect(daemon.red_socket(), 10'000'000);
    if (socket.has_value()) silent.push_back(std::move(*socket));
  }
  CHECK(silent.size() >= 64);
  // Silent ones are dropped after the handshake time; the honest one waits in the queue meanwhile.
  ClientOptions options;
  options.socket_path = daemon.red_socket();
  options.connect_timeout_ms = 60'000;
  auto client = Client::connect(options);
  INFO((client ? std::string("attached") : client.error().context));
  CHECK(client.has_value());
  silent.clear();
  CHECK(victim.does_rounds(3));
  victim.stop();
  CHECK(victim.failed() == 0);
  CHECK(daemon.alive());
}

TEST_CASE("doorbell storms and empty batches leave the victim its turns") {
  TwoTenantDaemon daemon;
  Victim victim(daemon.blue_socket());
  REQUIRE(victim.does_rounds(3));
  std::atomic<bool> over{false};
  std::atomic<std::uint64_t> shots{0};
  std::vector<std::thread> attackers;
  for (int i = 0; i < 3; ++i) {
    attackers.emplace_back([&] {
      RawClient client = RawClient::attached(daemon.red_socket());
      ipc::ClientLane lane(client.lane_memory(0));
      ipc::Submission noop{};
      while (!over) {
        if (lane.push(noop) == Status::ok) ++shots;
        client.ring();
        ipc::Completion completion{};
        while (lane.poll_completion(completion) == ipc::Poll::taken) {
        }
      }
    });
  }
  while (shots < 1000) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK(victim.does_rounds(100));
  over = true;
  for (auto& attacker : attackers) attacker.join();
  victim.stop();
  CHECK(victim.wrong() == 0);
  CHECK(victim.failed() == 0);
  CHECK(daemon.alive());
}

}  // namespace floods
}  // namespace simm::siege
