#include "daemon/attach/attach_server.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <future>
#include <string>
#include <thread>

#include "ipc/memory_file.h"
#include "tests/unit/daemon/attach/attach_world.h"

namespace attach_server_test {

using namespace control_fixture;

constexpr uid_t kRed = 54321;
constexpr uid_t kGreen = 54322;

// A connection whose other end is a process of that user, for the daemon. Credentials of the kernel
// belong to a thread, so one of its own has the user.
ipc::FdSocket connect_as(World& world, uid_t uid) {
  ipc::FdSocket socket;
  std::thread([&] {
    if (::syscall(SYS_setresuid, uid, uid, uid) == 0) socket = world.connect();
  }).join();
  REQUIRE(socket.valid());
  return socket;
}

TEST_CASE("an attach grants a sealed session memory with a prefaced header") {
  World world;
  ipc::FdSocket socket = world.connect();
  ipc::Hello hello;
  hello.lane_count = 2;
  World::send(socket, hello);
  World::Answer answer = world.receive(socket);
  const auto* welcome = std::get_if<ipc::Welcome>(&answer.message);
  REQUIRE(welcome != nullptr);
  CHECK(welcome->lane_count == 2);
  CHECK(welcome->tenant == "default");
  CHECK(welcome->session_bytes == ipc::session_bytes(2));
  REQUIRE(answer.fds.size() == 2);

  auto file = ipc::MemoryFile::inspect(std::move(answer.fds[0]));
  REQUIRE(file.has_value());
  CHECK(::ftruncate(file->fd(), 0) != 0);
  auto mapping = ipc::Mapping::map(file->fd(), 0, file->bytes());
  REQUIRE(mapping.has_value());
  const auto* header = reinterpret_cast<const ipc::SessionHeader*>(mapping->data());
  CHECK(header->magic == ipc::kSessionMagic);
  CHECK(header->layout_version == ipc::kLayoutVersion);
  CHECK(header->lane_count == 2);
  // Before Mapped the hole can be punched, and the daemon has not handed the rings to anybody.
  CHECK(world.plane.opened.empty());
  World::send(socket, ipc::Mapped{});
  CHECK(std::holds_alternative<ipc::Opened>(world.receive(socket).message));
  CHECK(world.plane.opened == std::vector<std::uint64_t>{welcome->session_id});
  CHECK(::fallocate(file->fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096) != 0);
}

TEST_CASE("the listening socket decides the tenant") {
  World world;
  ipc::Welcome a, b;
  const ipc::FdSocket one = world.attach(0, &a);
  const ipc::FdSocket two = world.attach(1, &b);
  CHECK(a.tenant == "default");
  CHECK(b.tenant == "blue");
  CHECK(a.session_id != b.session_id);
}

TEST_CASE("a client of another layout is refused with both versions and no session") {
  World world;
  ipc::FdSocket socket = world.connect();
  ipc::Hello hello;
  hello.layout_version = 99;
  World::send(socket, hello);
  const World::Answer answer = world.receive(socket);
  const auto* refused = std::get_if<ipc::Refused>(&answer.message);
  REQUIRE(refused != nullptr);
  CHECK(refused->status == Status::incompatible);
  CHECK(refused->reason.find("99") != std::string::npos);
  CHECK(world.hung_up(socket));
  CHECK(world.plane.opened.empty());
  CHECK(world.server.sessions() == 0);
}

// Opens a namespace and returns how that ended.
Status open_name_space(World& world, ipc::FdSocket& socket, const std::string& name) {
  World::send(socket, ipc::OpenNamespace{1, name, false, false});
  const World::Answer answer = world.receive(socket);
  return std::get<ipc::NamespaceReply>(answer.message).status;
}

TEST_CASE("a client of another cluster is refused, one that names none or this one is not") {
  World world([](base::Config& config) { config.cluster.manager = "10.0.0.1:30001"; });
  const auto answer_to = [&](const std::string& manager) {
    ipc::Hello hello;
    hello.manager_address = manager;
    ipc::FdSocket socket = world.connect();
    World::send(socket, hello);
    return world.receive(socket).message;
  };
  CHECK(std::holds_alternative<ipc::Welcome>(answer_to("")));
  CHECK(std::holds_alternative<ipc::Welcome>(answer_to("10.0.0.1:30001")));
  const auto answer = answer_to("10.0.0.2:30001");
  const auto* refused = std::get_if<ipc::Refused>(&answer);
  REQUIRE(refused != nullptr);
  CHECK(refused->reason.find("10.0.0.1:30001") != std::string::npos);
}

TEST_CASE("a namespace is immutable if its client or the configuration says so, of that tenant") {
  World world([](base::Config& config) {
    config.namespaces = {{"hashes", "default", true}, {"plain", "default", false}};
  });
  ipc::FdSocket mine = world.attach();
  ipc::FdSocket blue = world.attach(1);
  const auto opened = [&](ipc::FdSocket& socket, const std::string& name, bool immutable) {
    World::send(socket, ipc::OpenNamespace{1, name, false, false, immutable});
    (void)world.receive(socket);
    return world.plane.name_spaces.back().immutable;
  };
  CHECK(opened(mine, "hashes", false));
  CHECK_FALSE(opened(mine, "plain", false));
  CHECK(opened(mine, "plain", true));
  CHECK_FALSE(opened(mine, "other", false));
  CHECK_FALSE(opened(blue, "hashes", false));
}

TEST_CASE("namespaces are limited for a tenant, over all its sessions, while they are open") {
  World world;
  constexpr std::uint32_t kNamed = base::kNamespacesPerTenantMax - 1;  // beside the default one
  ipc::FdSocket one = world.attach();
  ipc::FdSocket two = world.attach();
  for (std::uint32_t i = 0; i < kNamed; ++i) {
    ipc::FdSocket& socket = i % 2 == 0 ? one : two;
    REQUIRE(open_name_space(world, socket, std::to_string(i)) == Status::ok);
  }
  CHECK(open_name_space(world, one, "one more") == Status::out_of_memory);
  CHECK(open_name_space(world, two, "one more") == Status::out_of_memory);
  CHECK(world.counters.value("limit.namespaces_per_tenant.reached") == 2);
  // What is open already, here or in another session, costs nothing more; nor does the default.
  CHECK(open_name_space(world, one, "0") == Status::ok);
  CHECK(open_name_space(world, one, "1") == Status::ok);
  CHECK(open_name_space(world, one, "") == Status::ok);
  // Another tenant does not notice.
  ipc::FdSocket blue = world.attach(1);
  CHECK(open_name_space(world, blue, "one more") == Status::ok);
  // The end of a session gives back what nobody else has open: 127 of its 128, "1" is of both.
  two.close();
  world.until([&] { return world.server.sessions() == 2; });
  CHECK(world.plane.waits == std::vector<bool>{false});
  std::uint32_t room = 0;
  while (open_name_space(world, one, "later " + std::to_string(room)) == Status::ok) ++room;
  CHECK(room == kNamed / 2 - 1);
}

TEST_CASE("garbage, messages out of place and unexpected descriptors end the connection") {
  World world;
  const auto ends = [&](const std::function<void(ipc::FdSocket&)>& misbehave) {
    ipc::FdSocket socket = world.connect();
    misbehave(socket);
    CHECK(world.hung_up(socket));
  };
  const std::array<std::byte, 64> garbage{};
  ends([&](ipc::FdSocket& s) { CHECK(s.try_send(garbage) == ipc::SocketResult::done); });
  ends([&](ipc::FdSocket& s) { World::send(s, ipc::Mapped{}); });
  ends([&](ipc::FdSocket& s) { World::send(s, ipc::OpenNamespace{1, "x", false, false}); });
  const std::array<int, 1> zero = {0};
  ends([&](ipc::FdSocket& s) { World::send(s, ipc::Hello{}, zero); });
  ends([&](ipc::FdSocket& s) {
    World::send(s, ipc::Hello{});
    (void)world.receive(s);
    World::send(s, ipc::Hello{});
  });
  world.until([&] { return world.server.sessions() == 0; });
  CHECK(world.plane.opened.empty());
}

TEST_CASE("a running session that breaks the protocol is poisoned, told so, and drained first") {
  World world;
  ipc::FdSocket socket = world.attach();
  world.plane.holding = true;
  World::send(socket, ipc::Mapped{});
  const World::Answer answer = world.receive(socket);
  const auto* poisoned = std::get_if<ipc::Poisoned>(&answer.message);
  REQUIRE(poisoned != nullptr);
  CHECK(poisoned->reason == ipc::PoisonReason::bad_message);
  CHECK(world.plane.poisons == std::vector{ipc::PoisonReason::bad_message});
  // The connection is there as long as the data agent may still touch something.
  world.settle();
  std::array<std::byte, 64> buffer;
  CHECK(socket.try_receive(buffer).result == ipc::SocketResult::would_block);
  world.plane.holding = false;
  CHECK(world.hung_up(socket));
}

TEST_CASE("a session that the data agent poisons is closed, and nobody else notices") {
  World world;
  ipc::FdSocket bad = world.attach();
  ipc::FdSocket good = world.attach();
  world.server.on_session_poisoned(world.plane.opened[0], ipc::PoisonReason::ring_cursor);
  const World::Answer told = world.receive(bad);
  REQUIRE(std::holds_alternative<ipc::Poisoned>(told.message));
  CHECK(world.hung_up(bad));
  World::send(good, ipc::OpenNamespace{7, "x", false, false});
  const World::Answer answer = world.receive(good);
  REQUIRE(std::holds_alternative<ipc::NamespaceReply>(answer.message));
  CHECK(std::get<ipc::NamespaceReply>(answer.message).request_id == 7);
}

TEST_CASE("who does not finish the handshake in time is closed") {
  World world([](base::Config& config) { config.session.handshake_ms = 2'000; });
  ipc::FdSocket silent = world.connect();
  ipc::FdSocket half = world.connect();
  World::send(half, ipc::Hello{});
  (void)world.receive(half);
  ipc::FdSocket attached = world.attach();
  CHECK(world.hung_up(silent));
  CHECK(world.hung_up(half));
  world.settle();
  CHECK(world.server.sessions() == 1);
  CHECK(world.counters.value("control.closed.handshake_timeout") == 2);
}

TEST_CASE("more connections than the handshake allows wait in the queue and get their turn") {
  World world;
  std::vector<ipc::FdSocket> silent;
  for (std::uint32_t i = 0; i < base::kUnauthenticatedMax + 5; ++i) {
    silent.push_back(world.connect());
  }
  world.settle();
  CHECK(world.server.sessions() == base::kUnauthenticatedMax);
  CHECK(world.counters.value("limit.unauthenticated_per_socket.reached") > 0);
  const ipc::FdSocket other_socket = world.attach(1);  // nobody there notices
  silent.erase(silent.begin(), silent.begin() + 10);
  world.until([&] { return world.server.sessions() == base::kUnauthenticatedMax + 5 - 10 + 1; });
  const ipc::FdSocket late = world.attach(0);
}

TEST_CASE("sessions beyond sessions_max wait until one goes") {
  World world([](base::Config& config) { config.session.sessions_max = 2; });
  ipc::FdSocket one = world.attach();
  ipc::FdSocket two = world.attach();
  ipc::FdSocket three = world.connect();
  World::send(three, ipc::Hello{});
  world.settle();
  CHECK(world.server.sessions() == 2);
  CHECK(world.counters.value("limit.sessions_per_socket.reached") > 0);
  one.close();
  CHECK(std::holds_alternative<ipc::Welcome>(world.receive(three).message));
}

// Tenants red and green by uid, on a socket that both may use.
void by_uid(base::Config& config) {
  config.session.sessions_max = 2;
  config.sockets[0].mode = 0666;
  config.tenants = {{"red", {kRed}, {}, 100, 1, 1 << 30}, {"green", {kGreen}, {}, 100, 1, 1 << 30}};
}

TEST_CASE("clients that keep the memory of sessions fill their tenant's bound and nothing else") {
  World world([](base::Config& config) {
    config.session.sessions_max = 4;
    config.session.lanes_default = 1;
  });
  ipc::Hello hello;
  hello.lane_count = 32;
  std::vector<ipc::UniqueFd> kept;
  std::string reason;
  for (int attach = 0; attach < 20 && reason.empty(); ++attach) {
    ipc::FdSocket socket = world.connect(1);
    World::send(socket, hello);
    World::Answer answer = world.receive(socket);
    if (const auto* refused = std::get_if<ipc::Refused>(&answer.message)) {
      CHECK(refused->status == Status::out_of_memory);
      reason = refused->reason;
    } else {
      kept.push_back(std::move(answer.fds[0]));
    }
  }
  // 68 sessions of one lane are the bound; two of 32 lanes are below it.
  CHECK(kept.size() == 2);
  CHECK_MESSAGE(reason.find("session memory of tenant blue") == 0, reason);
  CHECK(world.counters.value("limit.session_memory_bytes.reached") == 1);
  ipc::FdSocket other = world.attach(0);  // another tenant
  CHECK(world.session_memory.bytes() == 2 * ipc::session_bytes(32) + ipc::session_bytes(1));
  // When its keeper lets go, there is room at once.
  kept.clear();
  ipc::FdSocket again = world.connect(1);
  World::send(again, hello);
  CHECK(std::holds_alternative<ipc::Welcome>(world.receive(again).message));
}

TEST_CASE("as many sessions as the configuration has attach at once, and again after a crash") {
  World world;
  const std::uint32_t most = world.config.session.sessions_max;
  for (int life = 0; life < 2; ++life) {
    std::vector<ipc::FdSocket> sockets;
    for (std::uint32_t i = 0; i < most; ++i) sockets.push_back(world.attach());
    CHECK(world.counters.value("limit.session_memory_bytes.reached") == 0);
    sockets.clear();
    world.until([&] { return world.server.sessions() == 0; });
    world.until([&] { return world.session_memory.bytes() == 0; });
  }
}

TEST_CASE("an engine with all lanes that crashes again and again attaches each time") {
  World world;
  ipc::Hello hello;
  hello.lane_count = ipc::kLanesMax;
  for (int life = 0; life < 60; ++life) {  // more than the bound holds at once
    ipc::FdSocket socket = world.connect();
    World::send(socket, hello);
    CHECK(std::holds_alternative<ipc::Welcome>(world.receive(socket).message));
  }
  CHECK(world.counters.value("limit.session_memory_bytes.reached") == 0);
}

TEST_CASE("a tenant that has all its sessions of a socket keeps no other tenant out of it") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: to connect as another user needs root");
    return;
  }
  World world(by_uid);
  REQUIRE(::chmod(world.directory.path().c_str(), 0755) == 0);
  std::vector<ipc::FdSocket> red;
  for (int i = 0; i < 4; ++i) red.push_back(connect_as(world, kRed));
  for (ipc::FdSocket& socket : red) World::send(socket, ipc::Hello{});
  world.until([&] { return world.server.listeners()[0].waiting == 2; });
  // Two have a session, two wait; the next one is told so.
  ipc::FdSocket fifth = connect_as(world, kRed);
  const World::Answer answer = world.receive(fifth);
  const auto* refused = std::get_if<ipc::Refused>(&answer.message);
  REQUIRE(refused != nullptr);
  CHECK(refused->status == Status::out_of_memory);
  CHECK(refused->reason.find("tenant red") != std::string::npos);
  CHECK(refused->reason.find("session.sessions_max") != std::string::npos);
  CHECK(world.hung_up(fifth));

  ipc::FdSocket green = connect_as(world, kGreen);
  World::send(green, ipc::Hello{});
  World::Answer greeting = world.receive(green);
  const auto* welcome = std::get_if<ipc::Welcome>(&greeting.message);
  REQUIRE(welcome != nullptr);
  CHECK(welcome->tenant == "green");

  // Whoever gave up waiting makes room for the next; the first that waits comes in first.
  red[3].close();
  ipc::FdSocket sixth = connect_as(world, kRed);
  world.settle();
  CHECK(world.server.sessions() == 3);
  red[0].close();
  CHECK(std::holds_alternative<ipc::Welcome>(world.receive(red[2]).message));
}

TEST_CASE("handshakes that a tenant leaves open keep no other tenant out of their socket") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: to connect as another user needs root");
    return;
  }
  World world([](base::Config& config) {
    by_uid(config);
    config.session.sessions_max = 256;
    config.session.handshake_ms = 60'000;
  });
  REQUIRE(::chmod(world.directory.path().c_str(), 0755) == 0);
  std::vector<ipc::FdSocket> silent;
  for (std::uint32_t i = 0; i < base::kUnauthenticatedMax + 5; ++i) {
    silent.push_back(connect_as(world, kRed));
  }
  ipc::FdSocket green = connect_as(world, kGreen);
  World::send(green, ipc::Hello{});
  CHECK(std::holds_alternative<ipc::Welcome>(world.receive(green).message));
}

TEST_CASE("regions are opened off the control thread, named, and freed with their session") {
  World world;
  ipc::FdSocket socket = world.attach();
  const auto file = ipc::MemoryFile::create({"r", 4096, false, false});
  REQUIRE(file.has_value());
  ipc::RegisterRegion wanted;
  wanted.request_id = 11;
  wanted.length = 4096;
  wanted.has_fd = true;
  wanted.name = "pool";
  const std::array<int, 1> fds = {file->fd()};
  ipc::RegionHandle first = ipc::kNoRegion;
  for (int i = 0; i < 2; ++i) {
    World::send(socket, wanted, fds);
    const World::Answer answer = world.receive(socket);
    const auto* reply = std::get_if<ipc::RegionReply>(&answer.message);
    REQUIRE(reply != nullptr);
    CHECK(reply->request_id == 11);
    CHECK(reply->status == Status::ok);
    CHECK(reply->kind == ipc::RegionRequestKind::shared);
    if (i == 0) first = reply->handle;
  }
  CHECK(world.opener.alive() == 2);
  CHECK(world.server.attachments()[0]->regions().size() == 2);

  World::send(socket, ipc::DeregisterRegion{12, first});
  World::Answer gone = world.receive(socket);
  CHECK(std::get<ipc::DeregisterReply>(gone.message).status == Status::ok);
  World::send(socket, ipc::DeregisterRegion{13, 77});
  gone = world.receive(socket);
  CHECK(std::get<ipc::DeregisterReply>(gone.message).status == Status::invalid_argument);
  world.until([&] { return world.opener.alive() == 1; });

  socket.close();
  world.until([&] { return world.server.sessions() == 0 && world.opener.alive() == 0; });
}

// While what `is_slow` names is opened for one tenant, the memory file of another one is
// registered.
void check_only_red_waits(bool red_has_file,
                          const std::function<bool(const control::RegionRequest&)>& is_slow) {
  World world;
  std::promise<void> found;
  std::shared_future<void> waits = found.get_future().share();
  world.opener.before_open = [waits, is_slow](const control::RegionRequest& request) {
    if (is_slow(request)) waits.wait();
  };
  ipc::FdSocket red = world.attach(0);
  ipc::FdSocket blue = world.attach(1);
  const auto file = ipc::MemoryFile::create({"r", 4096, false, false});
  REQUIRE(file.has_value());
  const std::array<int, 1> fds = {file->fd()};
  ipc::RegisterRegion wanted;
  wanted.length = 4096;
  wanted.name = "red";
  wanted.has_fd = red_has_file;
  World::send(red, wanted, red_has_file ? std::span<const int>(fds) : std::span<const int>());
  world.settle();
  wanted.name = "blue";
  wanted.has_fd = true;
  World::send(blue, wanted, fds);
  std::array<std::byte, 4096> answer;
  ipc::SocketResult result = ipc::SocketResult::would_block;
  world.until([&] {
    result = blue.try_receive(answer).result;
    return result != ipc::SocketResult::would_block;
  });
  CHECK(result == ipc::SocketResult::done);
  found.set_value();
  CHECK(std::get<ipc::RegionReply>(world.receive(red).message).status == Status::ok);
}

TEST_CASE("memory that came as a file does not wait for a slow search of the helper") {
  check_only_red_waits(false,
                       [](const control::RegionRequest& request) { return !request.fd.valid(); });
}

TEST_CASE("a file that its owner keeps busy makes no other tenant's registration wait") {
  check_only_red_waits(
      true, [](const control::RegionRequest& request) { return request.wanted.name == "red"; });
}

TEST_CASE("staged and refused regions have no handle and cost nothing") {
  World world;
  ipc::FdSocket socket = world.attach();
  ipc::RegisterRegion wanted;
  wanted.length = 4096;
  world.opener.kind = ipc::RegionRequestKind::staged;
  World::send(socket, wanted);
  World::Answer answer = world.receive(socket);
  CHECK(std::get<ipc::RegionReply>(answer.message).kind == ipc::RegionRequestKind::staged);
  CHECK(std::get<ipc::RegionReply>(answer.message).handle == ipc::kNoRegion);
  world.opener.status = Status::out_of_memory;
  World::send(socket, wanted);
  answer = world.receive(socket);
  CHECK(std::get<ipc::RegionReply>(answer.message).status == Status::out_of_memory);
  CHECK(world.counters.value("limit.region_pin_bytes.reached") == 1);
  CHECK(world.plane.regions.empty());
}

TEST_CASE("a client that vanishes in the middle of a registration leaves nothing behind") {
  World world;
  for (int round = 0; round < 20; ++round) {
    ipc::FdSocket socket = world.attach();
    ipc::RegisterRegion wanted;
    wanted.length = 4096;
    World::send(socket, wanted);
    // One poll: the job is queued, its answer comes after the end of the session.
    world.io.restart();
    world.io.poll();
    for (const control::Attachment* attachment : world.server.attachments()) {
      const_cast<control::Attachment*>(attachment)->close("test");
    }
    world.until([&] { return world.server.sessions() == 0 && world.opener.alive() == 0; });
  }
}

TEST_CASE("a full data agent refuses the session in words") {
  World world;
  world.plane.open_status = Status::out_of_memory;
  ipc::FdSocket socket = world.connect();
  World::send(socket, ipc::Hello{});
  (void)world.receive(socket);
  World::send(socket, ipc::Mapped{});
  const World::Answer answer = world.receive(socket);
  CHECK(std::get<ipc::Refused>(answer.message).status == Status::out_of_memory);
  CHECK(world.hung_up(socket));
  CHECK(world.server.sessions() == 0);
  CHECK(world.plane.closed.size() == 1);  // the agent hands back what it refused
}

TEST_CASE("draining accepts nobody, closes all sessions and says when they are gone") {
  World world;
  ipc::FdSocket one = world.attach();
  ipc::FdSocket half = world.connect();
  world.settle();
  world.plane.holding = true;
  int empty = 0;
  world.server.drain([&] { ++empty; });
  CHECK(world.plane.waits == std::vector<bool>{true});  // it has drain_ms for what is in flight
  CHECK(world.hung_up(half));
  world.settle();
  CHECK(empty == 0);
  world.plane.holding = false;
  world.until([&] { return empty == 1; });
  CHECK(world.hung_up(one));
}

}  // namespace attach_server_test
