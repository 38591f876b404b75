// Simulated sockets keep what TCP promises, and are as unkind as TCP may be.
#include <doctest/doctest.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "tests/sim/sim_socket_io.h"

namespace socket_network_test {

using namespace simm;
using namespace simm::sim;
using transport::IoReadyList;
using transport::IoSocket;

// A process with one socket.
struct End {
  End(SocketNetwork& network, bool is_asynchronous) : io(network, is_asynchronous) {}
  void open(int descriptor) {
    socket.descriptor = descriptor;
    socket.ready = &ready;
    REQUIRE(io.open(socket));
  }
  void ask(std::size_t bytes) {
    memory.assign(bytes, '.');
    socket.receive_parts[0] = {memory.data(), bytes};
    socket.receive_count = 1;
    io.receive(socket);
  }
  void send(std::string& text) {
    socket.send_parts[0] = {text.data(), text.size()};
    socket.send_count = 1;
    io.send(socket);
  }
  // What has been received: "" for the end of the stream.
  std::string take() {
    io.poll();
    while (ready.pop_front() != nullptr) {
    }
    REQUIRE(socket.received);
    socket.received = false;
    result = socket.receive_result;
    return result > 0 ? memory.substr(0, static_cast<std::size_t>(result)) : "";
  }
  bool has_received() {
    io.poll();
    while (ready.pop_front() != nullptr) {
    }
    return socket.received;
  }
  void close() {
    io.shut_down(socket);
    io.cancel(socket);
    REQUIRE(!socket.busy());
    io.close(socket);
  }
  IoReadyList ready;
  IoSocket socket;
  SimSocketIo io;
  std::string memory;
  std::int32_t result = 0;
};

struct Scene {
  explicit Scene(std::uint64_t seed = 1, bool is_asynchronous = false)
      : network(loop, Dice(seed, 1), conditions),
        node(network, is_asynchronous),
        server(network, is_asynchronous) {
    connection = network.connect(5, node.io, 6, server.io);
    node.open(connection->ends[SimConnection::kNode].descriptor);
    server.open(connection->ends[SimConnection::kServer].descriptor);
  }
  void pass(base::TimeNs for_ns = 10 * kMs) { loop.run_until(loop.now_ns() + for_ns); }
  // One send, all that is taken of it.
  std::size_t send(End& from, std::string text) {
    from.send(text);
    from.io.poll();
    if (from.socket.sending) return 0;
    from.socket.sent = false;
    return from.socket.send_result > 0 ? static_cast<std::size_t>(from.socket.send_result) : 0;
  }

  EventLoop loop;
  Conditions conditions;
  SocketNetwork network;
  End node;
  End server;
  ConnectionPtr connection;
};

TEST_CASE("bytes arrive later than they were sent, in order") {
  for (const bool is_asynchronous : {false, true}) {
    Scene scene(1, is_asynchronous);
    scene.server.ask(100);
    CHECK(scene.send(scene.node, "first ") == 6);
    CHECK_FALSE(scene.server.has_received());
    CHECK(scene.send(scene.node, "second") == 6);
    scene.pass();
    std::string got = scene.server.take();
    while (got.size() < 12) {
      scene.server.ask(100);
      scene.pass();
      got += scene.server.take();
    }
    CHECK(got == "first second");
  }
}

TEST_CASE("an asynchronous kernel writes while its process does nothing, the other one does not") {
  for (const bool is_asynchronous : {false, true}) {
    Scene scene(1, is_asynchronous);
    scene.server.ask(4);
    scene.server.io.poll();
    CHECK(scene.send(scene.node, "late") == 4);
    scene.pass();
    CHECK(scene.server.memory == (is_asynchronous ? "late" : "...."));
    CHECK(scene.server.take() == "late");
  }
}

TEST_CASE("a sender waits for a receiver that does not read") {
  Scene scene;
  scene.network.send_buffer_bytes = 10;
  scene.network.receive_buffer_bytes = 5;
  CHECK(scene.send(scene.node, "0123456789abcdef") == 10);
  scene.pass();
  CHECK(scene.node.io.unacknowledged_bytes(scene.node.socket) == 5);
  CHECK(scene.send(scene.node, "abcdef") == 5);  // as much as was acknowledged
  std::string more = "f";
  scene.node.send(more);
  scene.node.io.poll();
  CHECK(scene.node.socket.sending);
  std::string got;
  while (got.size() < 15) {
    scene.server.ask(3);
    got += scene.server.take();
    scene.pass();
  }
  CHECK(got == "0123456789abcde");
  scene.node.io.poll();
  CHECK(scene.node.socket.sent);
}

TEST_CASE(
    "what was sent before a process died arrives, or the first part of it, and then its end") {
  bool was_whole = false;
  bool was_cut_short = false;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Scene scene(seed);
    CHECK(scene.send(scene.node, "one") == 3);
    CHECK(scene.send(scene.node, "two") == 3);
    scene.node.io.die(false);
    scene.pass(kSecond);
    std::string got;
    for (;;) {
      scene.server.ask(10);
      const std::string part = scene.server.take();
      got += part;
      if (part.empty()) break;
    }
    CHECK((scene.server.result == 0 || scene.server.result == -ECONNRESET));
    CHECK(std::string("onetwo").substr(0, got.size()) == got);
    was_whole = was_whole || got == "onetwo";
    was_cut_short = was_cut_short || got != "onetwo";
  }
  CHECK(was_whole);
  CHECK(was_cut_short);
}

TEST_CASE("a machine that dies says nothing; its peer hears of it much later") {
  Scene scene;
  scene.server.ask(10);
  scene.node.io.die(true);
  scene.pass(kSecond);
  CHECK_FALSE(scene.server.has_received());
  scene.pass(3 * kSecond);
  CHECK(scene.server.take() == "");
  CHECK(scene.server.result == -ECONNRESET);
}

TEST_CASE("nothing passes a cut, and all of it does when that heals") {
  Scene scene;
  scene.network.cut(5, 6, true, false);
  CHECK(scene.send(scene.node, "held") == 4);
  scene.server.ask(10);
  scene.pass(kSecond);
  CHECK_FALSE(scene.server.has_received());
  CHECK(scene.node.io.unacknowledged_bytes(scene.node.socket) == 4);
  scene.network.cut(5, 6, false, false);
  scene.pass();
  CHECK(scene.server.take() == "held");
  CHECK(scene.node.io.unacknowledged_bytes(scene.node.socket) == 0);
}

TEST_CASE("acknowledgements are held by a cut of their own direction") {
  Scene scene;
  scene.network.cut(5, 6, false, true);
  CHECK(scene.send(scene.node, "comes") == 5);
  scene.server.ask(10);
  scene.pass();
  CHECK(scene.server.take() == "comes");
  CHECK(scene.node.io.unacknowledged_bytes(scene.node.socket) == 5);
  scene.network.cut(5, 6, false, false);
  CHECK(scene.node.io.unacknowledged_bytes(scene.node.socket) == 0);
}

TEST_CASE("a cancel of an asynchronous kernel ends later, and its memory is not free before") {
  bool was_written = false;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Scene scene(seed, true);
    scene.server.ask(4);
    scene.server.io.poll();
    CHECK(scene.send(scene.node, "late") == 4);
    scene.server.io.shut_down(scene.server.socket);
    scene.server.io.cancel(scene.server.socket);
    CHECK(scene.server.socket.busy());
    scene.pass();
    CHECK(scene.server.has_received());
    CHECK_FALSE(scene.server.socket.busy());
  }
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Scene scene(seed, true);
    CHECK(scene.send(scene.node, "late") == 4);
    scene.pass();  // it is there, and waits
    scene.server.ask(4);
    scene.server.io.shut_down(scene.server.socket);
    scene.server.io.cancel(scene.server.socket);
    scene.server.io.poll();
    scene.pass();
    scene.server.io.poll();
    was_written = was_written || scene.server.memory == "late";
  }
  CHECK(was_written);
}

TEST_CASE("who writes to a process that has closed is reset, at once or by the answer") {
  bool was_taken = false;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Scene scene(seed);
    scene.server.close();
    scene.pass();
    was_taken = scene.send(scene.node, "nobody reads this") > 0 || was_taken;
    scene.pass(100 * kMs);
    std::string more = "nor this";
    scene.node.send(more);
    scene.node.io.poll();
    CHECK(scene.node.socket.sent);
    CHECK(scene.node.socket.send_result == -ECONNRESET);
  }
  CHECK(was_taken);
}

TEST_CASE("connections overtake each other") {
  bool has_overtaken = false;
  for (std::uint64_t seed = 1; seed <= 40 && !has_overtaken; ++seed) {
    Scene scene(seed);
    End second_node(scene.network, false);
    End second_server(scene.network, false);
    const auto other = scene.network.connect(5, second_node.io, 6, second_server.io);
    second_node.open(other->ends[SimConnection::kNode].descriptor);
    second_server.open(other->ends[SimConnection::kServer].descriptor);
    scene.server.ask(10);
    second_server.ask(10);
    CHECK(scene.send(scene.node, "a") == 1);
    CHECK(scene.send(second_node, "b") == 1);
    for (int step = 0; step < 100'000 && !scene.server.has_received(); ++step) {
      has_overtaken = has_overtaken || second_server.has_received();
      scene.pass(kUs / 10);
    }
  }
  CHECK(has_overtaken);
}

}  // namespace socket_network_test
