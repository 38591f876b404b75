// simm::set_log(): what is told, when, in which thread, and what the callback may do.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fault_world.h"
#include "simm/log.h"
#include "simm/simm.h"

namespace fault_test {

using simm::LogLevel;

// Listens for the time of a test.
class Listening {
public:
  Listening() { simm::set_log(&Listening::heard, this); }
  ~Listening() { simm::set_log(nullptr); }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

  [[nodiscard]] std::size_t count(LogLevel level, const std::string& part) {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(
        std::count_if(entries_.begin(), entries_.end(), [&](const auto& entry) {
          return entry.first == level && entry.second.find(part) != std::string::npos;
        }));
  }
  [[nodiscard]] std::size_t size() {
    const std::lock_guard lock(mutex_);
    return entries_.size();
  }
  std::function<void()> in_callback;  // once
  std::thread::id thread;             // of the last entry
  std::atomic<int> overlaps{0};

private:
  static void heard(void* context, LogLevel level, const char* text) noexcept {
    auto& self = *static_cast<Listening*>(context);
    if (self.inside_.exchange(true)) ++self.overlaps;
    std::this_thread::yield();  // to whoever should not come
    {
      const std::lock_guard lock(self.mutex_);
      self.entries_.emplace_back(level, text);
      self.thread = std::this_thread::get_id();
    }
    if (const auto body = std::exchange(self.in_callback, {})) body();
    self.inside_ = false;
  }
  std::mutex mutex_;
  std::vector<std::pair<LogLevel, std::string>> entries_;
  std::atomic<bool> inside_{false};
};

TEST_CASE("log: a session that is lost, why there is none, and another one: once each") {
  World world;
  Listening log;
  CHECK(world.client->ping() == Status::ok);
  CHECK(log.size() == 0);
  world.die();
  CHECK(world.client->ping() == Status::unreachable);
  CHECK(log.count(LogLevel::warning, world.options.socket_path + ": the session with") == 1);
  CHECK(log.thread == std::this_thread::get_id());
  for (int i = 0; i < 20; ++i) {
    (void)world.client->ping();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(log.count(LogLevel::warning, "is lost") == 1);
  CHECK(log.count(LogLevel::warning, "no session: ") == 1);
  world.come_back();
  REQUIRE(world.wait_until_back());
  CHECK(log.count(LogLevel::info, "another session with a daemon is there") == 1);
  CHECK(log.size() == 3);
}

TEST_CASE("log: closing the last Client loses nothing") {
  World world;
  Listening log;
  world.client.reset();
  world.client.emplace(Client::connect(world.options).value());
  CHECK(log.count(LogLevel::warning, "") == 0);
}

TEST_CASE("log: memory that is copied from now on") {
  World world;
  Listening log;
  std::vector<std::byte> memory(8192);
  Region staged = world.client->register_region(memory.data(), memory.size()).value();
  REQUIRE(staged.kind() == RegionKind::staged);
  CHECK(log.count(LogLevel::info,
                  "region 'registered' of 8192 bytes: from now on libsimm copies: ") == 1);
  // As wished is nothing to tell of.
  simm::RegisterOptions wish;
  wish.kind = RegionKind::staged;
  std::vector<std::byte> other(8192);
  CHECK(world.client->register_region(other.data(), other.size(), wish).has_value());
  CHECK(log.size() == 1);
  // Pages that are taken back from a stopped daemon.
  Region shared = world.client->allocate_region(8192).value();
  REQUIRE(shared.kind() == RegionKind::shared);
  world.daemon->stop();
  CHECK(world.client->get("k", View(shared, 0, 4096), within(50)).status == Status::timeout);
  CHECK(log.count(LogLevel::warning, "region 'simm' of 8192 bytes: the daemon did not run") == 1);
  world.daemon->go_on();
}

TEST_CASE("log: the callback may call the library, and the call's words stay") {
  World world;
  Listening log;
  std::vector<std::byte> memory(4096);
  Status inside = Status::ok;
  SUBCASE("a call that fails") {
    log.in_callback = [&] { inside = world.client->exists("other").status; };
    world.die();
    CHECK(world.client->exists("key").status == Status::unreachable);
    const std::string words = simm::last_error();
    CHECK(words.find("has gone in the middle of the call") != std::string::npos);
    CHECK(inside == Status::unreachable);
  }
  SUBCASE("more than there is room for") {
    std::vector<std::byte> other(4096);
    log.in_callback = [&] {
      for (int i = 0; i < 40; ++i) {
        CHECK(world.client->register_region(other.data(), other.size()).has_value());
      }
    };
    CHECK(world.client->register_region(memory.data(), memory.size()).has_value());
    CHECK(log.count(LogLevel::info, "copies") == 1 + 32);
    CHECK(log.count(LogLevel::warning, "8 more messages of libsimm were dropped") == 1);
  }
  SUBCASE("the end of listening") {
    log.in_callback = [] { simm::set_log(nullptr); };
    world.die();
    CHECK(world.client->ping() == Status::unreachable);
    CHECK(log.size() == 1);
  }
}

TEST_CASE("log: what happened before somebody listened is not told") {
  World world;
  world.die();
  CHECK(world.client->ping() == Status::unreachable);
  Listening log;
  (void)world.client->has_completed(1);
  CHECK(log.count(LogLevel::warning, "is lost") == 0);
}

TEST_CASE("log: several threads are told one entry at a time, and set_log() waits for them") {
  World world;
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  std::atomic<int> heard{0};
  {
    Listening log;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        std::vector<std::byte> memory(4096);
        while (!over) {
          (void)world.client->register_region(memory.data(), memory.size());
          (void)world.client->exists("key");
        }
      });
    }
    while (log.size() < 200) std::this_thread::yield();
    world.die();
    world.come_back();
    REQUIRE(world.wait_until_back());
    const std::size_t before = log.size();
    while (log.size() < before + 50) std::this_thread::yield();
    CHECK(log.overlaps == 0);
  }
  // `log` is gone: a late call of its callback would be seen by the sanitizers.
  simm::set_log([](void* context, LogLevel,
                   const char*) noexcept { ++*static_cast<std::atomic<int>*>(context); },
                &heard);
  while (heard == 0) std::this_thread::yield();
  simm::set_log(nullptr);
  const int told = heard;
  over = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(heard == told);
}

TEST_CASE("C: simm_set_log") {
  World world;
  std::vector<std::pair<int, std::string>> heard;
  simm_set_log(
      [](void* context, int level, const char* text) {
        static_cast<std::vector<std::pair<int, std::string>>*>(context)->emplace_back(level, text);
      },
      &heard);
  world.die();
  CHECK(world.client->ping() == Status::unreachable);
  simm_set_log(nullptr, nullptr);
  REQUIRE(heard.size() >= 1);
  CHECK(heard[0].first == SIMM_LOG_WARNING);
  CHECK(heard[0].second.find("is lost") != std::string::npos);
}

}  // namespace fault_test
