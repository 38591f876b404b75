// pthread_cancel() of a thread that is in a call: the call ends as it would have, then the thread.
#include <doctest/doctest.h>
#include <pthread.h>

#include <atomic>
#include <functional>

#include "fault_world.h"

namespace fault_test {

// A thread that is cancelled while `call` runs, and what it had done before it ended.
class CancelledThread {
public:
  explicit CancelledThread(std::function<void()> call) : call_(std::move(call)) {
    REQUIRE(::pthread_create(&thread_, nullptr, &CancelledThread::run, this) == 0);
  }
  void cancel() { REQUIRE(::pthread_cancel(thread_) == 0); }
  // True when it ended of the cancellation, behind its call.
  bool join() {
    void* result = nullptr;
    REQUIRE(::pthread_join(thread_, &result) == 0);
    return result == PTHREAD_CANCELED && returned_;
  }

private:
  static void* run(void* self) {
    auto* const thread = static_cast<CancelledThread*>(self);
    thread->call_();
    thread->returned_ = true;
    ::pthread_testcancel();
    return nullptr;
  }
  std::function<void()> call_;
  std::atomic<bool> returned_{false};
  pthread_t thread_{};
};

TEST_CASE("a thread that is cancelled in a call: the call ends first, nothing is lost") {
  World world;
  Region region = world.client->allocate_region(8192).value();
  world.daemon->stop();
  SUBCASE("synchronous") {
    PageResult result;
    CancelledThread thread(
        [&] { result = world.client->put("k", View(region, 0, 100), within(300)); });
    REQUIRE(world.daemon->wait_until_holding(1));
    thread.cancel();
    CHECK(thread.join());
    CHECK(result.status == Status::timeout);
    world.daemon->go_on();
    REQUIRE(world.wait_until_back());
  }
  SUBCASE("asynchronous") {
    const Item item{"k", View(region, 0, 100), 0, 0};
    PageResult result;
    bool called = false;
    CancelledThread thread([&] {
      const auto on_done = [&](const simm::Completed&) { called = true; };
      CHECK(world.client->put_async({&item, 1}, {&result, 1}, within(20'000), on_done).has_value());
      while (!called) world.client->wait(20'000);
    });
    REQUIRE(world.daemon->wait_until_holding(1));
    thread.cancel();
    world.daemon->go_on();
    CHECK(thread.join());
    CHECK(result.ok());
  }
  SUBCASE("set-up") {
    bool registered = false;
    CancelledThread thread([&] { registered = world.client->allocate_region(8192).has_value(); });
    while (world.daemon->counts().unread == 0) std::this_thread::yield();
    thread.cancel();
    world.daemon->go_on();
    CHECK(thread.join());
    CHECK(registered);
  }
  for (int i = 0; i < 8; ++i) {
    std::thread([&] { CHECK(world.client->ping(within(20'000)) == Status::ok); }).join();
  }
}

}  // namespace fault_test
