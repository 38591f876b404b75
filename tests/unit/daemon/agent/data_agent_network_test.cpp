// What a data agent has of its cluster: maps and links reach it by two ways.
#include "daemon/agent/data_agent_network.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <vector>

#include "daemon/agent/local_placement.h"
#include "daemon/base/real_clock.h"
#include "daemon/transport/region_mover.h"

namespace data_agent_network_test {

using namespace simm;

constexpr transport::Route kMember{base::PeerId{1}, 0};

struct Nobody final : transport::RequesterEvents {
  void on_reply(transport::RequestToken, std::span<const transport::PageReply>) noexcept override {}
  void on_fenced(transport::RequestToken, transport::FenceCause) noexcept override { ++fenced; }
  int fenced = 0;
};

struct Network {
  Network() { network.requester()->connect(nobody, nullptr); }
  // As when a daemon has joined: its link first, then the map that names it.
  void member_joins() {
    std::array<int, 2> ends{};
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0);
    peer = ipc::UniqueFd(ends[1]);
    transport::TcpLink link{ipc::UniqueFd(ends[0]), kMember.peer, kMember.shard, 1};
    REQUIRE(network.presence().links.outgoing->control_add(link));
    auto map = std::make_unique<cluster::AgentMap>();
    map->placement = std::make_shared<const LocalPlacement>(std::uint16_t{1});
    network.presence().maps->control_send(std::move(map));
  }
  Status ask() {
    page.key = "key";
    page.key_bytes = 3;
    request.header.opcode = ipc::Opcode::exists;
    request.pages = {&page, 1};
    return network.requester()->post(kMember, transport::RequestToken{1}, request);
  }

  base::RealClock clock;
  base::EpollWaiter waiter{clock};
  base::CounterSet counters;
  transport::RegionMover mover;
  base::Config config;
  base::TenantWeights weights;
  Nobody nobody;
  ipc::UniqueFd peer;
  transport::PageRequest page;
  transport::Request request;
  DataAgentNetwork network{
      config,   weights,
      clock,    transport::make_socket_io(transport::SocketIoChoice::epoll, &waiter).value(),
      mover,    waiter,
      counters, 0,
      true,     false};
};

}  // namespace data_agent_network_test

TEST_CASE("whom a map names can be asked as soon as the map is used") {
  using namespace data_agent_network_test;
  Network of;
  CHECK(of.ask() == Status::unreachable);
  of.member_joins();
  std::vector<Status> asked;
  CHECK(of.network.take_maps([&](const cluster::AgentMap&) { asked.push_back(of.ask()); }) == 1);
  REQUIRE(asked.size() == 1);
  CHECK(asked[0] == Status::ok);
}
