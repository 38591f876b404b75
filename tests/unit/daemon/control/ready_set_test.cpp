#include "daemon/control/ready_set.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>

namespace ready_set_test {

using namespace simm;
using control::ReadySet;

// One end reads, as much at once as the test says; the test has the other one.
struct End final : control::SocketReader {
  End(ReadySet& of, std::size_t at_once) : set(of), buffer(at_once, '\0') {
    int both[2] = {-1, -1};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both) == 0);
    mine = ipc::UniqueFd(both[0]);
    other = ipc::UniqueFd(both[1]);
    REQUIRE(set.add(mine.get(), *this));
  }
  ~End() override { leave(); }
  void leave() {
    if (std::exchange(is_in, false)) set.remove(mine.get(), *this);
  }
  void say(const std::string& words) const {
    REQUIRE(::write(other.get(), words.data(), words.size()) == static_cast<ssize_t>(words.size()));
  }
  bool on_readable() override {
    ++calls;
    const ssize_t got = ::read(mine.get(), buffer.data(), buffer.size());
    has_ended = got == 0;
    if (got > 0) heard.append(buffer.data(), static_cast<std::size_t>(got));
    if (has_ended) leave();
    if (then) then();
    return got == static_cast<ssize_t>(buffer.size());
  }

  ReadySet& set;
  std::string buffer;
  ipc::UniqueFd mine, other;
  bool is_in = true;
  std::string heard;
  bool has_ended = false;
  int calls = 0;
  std::function<void()> then;
};

struct Scene {
  End& add(std::size_t at_once = 100) {
    return *ends.emplace_back(std::make_unique<End>(set, at_once));
  }
  template <typename Done>
  void until(Done done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!done()) {
      REQUIRE(std::chrono::steady_clock::now() < end);
      io.restart();
      io.run_for(std::chrono::milliseconds(1));
    }
  }
  void run_for(std::chrono::milliseconds time) {
    io.restart();
    io.run_for(time);
  }

  boost::asio::io_context io{1};
  int rounds = 0;
  ReadySet set{io, [this] { ++rounds; }};
  std::vector<std::unique_ptr<End>> ends;  // before the set, which they leave
};

TEST_CASE("what comes is read, now and later, and a socket without anything is left alone") {
  Scene scene;
  End& a = scene.add();
  End& b = scene.add();
  End& silent = scene.add();
  a.say("one");
  scene.until([&] { return a.heard == "one"; });
  a.say("two");
  b.say("three");
  scene.until([&] { return a.heard == "onetwo" && b.heard == "three"; });
  CHECK(silent.calls == 0);
  CHECK(scene.set.size() == 3);
  const int calls = a.calls;
  scene.run_for(std::chrono::milliseconds(20));
  CHECK(a.calls == calls);
}

TEST_CASE("what was there before the socket was added is read") {
  Scene scene;
  End& end = scene.add();
  end.leave();
  end.say("early");
  end.is_in = scene.set.add(end.mine.get(), end);
  scene.until([&] { return end.heard == "early"; });
}

TEST_CASE("who has not read all is called again, though nothing comes") {
  Scene scene;
  End& end = scene.add(4);
  end.say("12345678901234567890");
  scene.until([&] { return end.heard.size() == 20; });
  CHECK(end.calls >= 5);
}

TEST_CASE("the end of a stream is heard behind its last bytes") {
  Scene scene;
  End& end = scene.add();
  end.say("last");
  end.other.reset();
  scene.until([&] { return end.has_ended; });
  CHECK(end.heard == "last");
  CHECK(scene.set.size() == 0);
}

TEST_CASE("a reader may go in the call of another one, also when it has something to read") {
  Scene scene;
  End& a = scene.add();
  End& b = scene.add();
  a.then = [&] { b.leave(); };
  b.then = [&] { a.leave(); };
  a.say("a");
  b.say("b");
  scene.until([&] { return a.calls + b.calls > 0; });
  scene.run_for(std::chrono::milliseconds(20));
  CHECK(a.calls + b.calls == 1);
}

// A wake-up of the thread and a turn of its owner for each message would be most of what it costs.
TEST_CASE("messages of many sockets that come one by one are read in few rounds") {
  Scene scene;
  for (std::size_t i = 0; i < ReadySet::kMany; ++i) scene.add();
  scene.ends[0]->say("begin");
  scene.until([&] { return scene.rounds == 1; });
  int said = 1;
  const auto began = std::chrono::steady_clock::now();
  scene.io.restart();
  for (std::size_t i = 1; i < ReadySet::kMany; ++i, ++said) {
    scene.ends[i]->say("x");
    scene.io.poll();
  }
  scene.until([&] {
    int calls = 0;
    for (const auto& end : scene.ends) calls += end->calls;
    return calls == said;
  });
  // However slow the machine is, rounds have their pause.
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - began;
  const auto pauses = took / std::chrono::nanoseconds(ReadySet::kRoundNs);
  MESSAGE(said << " messages, " << scene.rounds << " rounds, " << pauses << " pauses");
  // Where all of a round's events were taken the next one follows at once.
  const auto full = ReadySet::kMany / ReadySet::kRoundEvents;
  CHECK(scene.rounds <= static_cast<int>(pauses) + 2 + static_cast<int>(full));
  // After a rest it sleeps, and still hears.
  scene.run_for(std::chrono::milliseconds(3 * ReadySet::kIdleRounds));
  scene.ends[5]->say("again");
  scene.until([&] { return scene.ends[5]->heard == "xagain"; });
}

}  // namespace ready_set_test
