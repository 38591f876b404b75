// How queue pairs end: one that is slow to end, or never ends, costs its own peer and nothing else.
#include "daemon/transport/rdma/device/queue_pair_reaper.h"

#include <doctest/doctest.h>

#include <cerrno>
#include <condition_variable>
#include <map>
#include <memory>
#include <vector>

#include "daemon/base/counters.h"

namespace queue_pair_reaper_test {

using namespace simm;
using namespace simm::transport;

// A device that destroys when the test lets it.
struct Device {
  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::uint64_t, bool> is_shut;  // by peer
  int inside = 0;                         // calls that wait for a peer
  std::vector<int> failed;
  std::vector<int> destroyed;

  void let(std::uint64_t peer, bool is_open) {
    const std::scoped_lock lock(mutex);
    is_shut[peer] = !is_open;
    changed.notify_all();
  }
  template <typename Condition>
  void wait(Condition&& condition) {
    std::unique_lock lock(mutex);
    changed.wait(lock, condition);
  }
};

struct QueuePairOf {
  QueuePairOf(Device& of, int its_number, std::uint64_t its_peer)
      : device(of), number(its_number), peer(its_peer) {
    queue_pair.qp_context = this;
    job->queue_pair = &queue_pair;
    job->peer = its_peer;
  }
  Device& device;
  const int number;
  const std::uint64_t peer;
  int refusals = 0;  // before it is destroyed
  int why = EBUSY;
  ibv_qp queue_pair{};
  std::unique_ptr<QueuePairReaper::Job> job = std::make_unique<QueuePairReaper::Job>();
};

int fail(ibv_qp* queue_pair) noexcept {
  QueuePairOf& its = *static_cast<QueuePairOf*>(queue_pair->qp_context);
  const std::scoped_lock lock(its.device.mutex);
  its.device.failed.push_back(its.number);
  its.device.changed.notify_all();
  return 0;
}

int destroy(ibv_qp* queue_pair) noexcept {
  QueuePairOf& its = *static_cast<QueuePairOf*>(queue_pair->qp_context);
  std::unique_lock lock(its.device.mutex);
  ++its.device.inside;
  its.device.changed.notify_all();
  its.device.changed.wait(lock, [&] { return !its.device.is_shut[its.peer]; });
  --its.device.inside;
  if (its.refusals-- > 0) return its.why;
  its.device.destroyed.push_back(its.number);
  its.device.changed.notify_all();
  return 0;
}

constexpr std::chrono::minutes kLong{5};

struct Scene {
  explicit Scene(std::chrono::milliseconds wait = kLong) : reaper({fail, destroy}, wait) {
    REQUIRE(reaper.start("sim0", {nullptr, counters.counter("refused"), counters.counter("lost")}));
  }
  QueuePairOf& make(std::uint64_t peer) {
    const int number = static_cast<int>(made.size());
    made.push_back(std::make_unique<QueuePairOf>(device, number, peer));
    return *made.back();
  }
  QueuePairOf& end(std::uint64_t peer) {
    QueuePairOf& its = make(peer);
    reaper.submit(*its.job);
    reaper.want(*its.job);
    return its;
  }
  Device device;
  base::CounterSet counters;
  std::vector<std::unique_ptr<QueuePairOf>> made;
  QueuePairReaper reaper;
};

TEST_CASE("queue pair reaper: a peer whose queue pairs do not end leaves a thread to the others") {
  Scene scene;
  scene.device.let(1, false);
  for (int i = 0; i < 8; ++i) scene.end(1);
  scene.device.wait([&] { return scene.device.inside == int{kEnderThreads} - 1; });
  for (int i = 0; i < 3; ++i) CHECK(scene.reaper.wait_for(scene.end(2).job));
  // To break the connection is not held up either.
  scene.reaper.submit(*scene.make(3).job);
  scene.device.wait([&] { return scene.device.failed.size() == 12; });
  scene.reaper.want(*scene.made.back()->job);
  CHECK(scene.reaper.wait_for(scene.made.back()->job));
  CHECK_FALSE(scene.made.front()->job->is_done.load());
  scene.device.let(1, true);
  for (int i = 0; i < 8; ++i) {
    CHECK(scene.reaper.wait_for(scene.made[static_cast<std::size_t>(i)]->job));
  }
}

TEST_CASE(
    "queue pair reaper: the oldest ends first, and a peer with many takes turns with the others") {
  Scene scene;
  scene.device.let(1, false);
  for (int i = 0; i < 3; ++i) scene.end(1);
  scene.device.wait([&] { return scene.device.inside == int{kEnderThreads} - 1; });
  scene.device.let(2, false);
  scene.end(2);
  scene.device.wait([&] { return scene.device.inside == int{kEnderThreads}; });
  for (std::uint64_t peer = 3; peer <= 6; ++peer) scene.end(peer);
  scene.device.let(2, true);
  for (std::size_t i = 3; i < 8; ++i) CHECK(scene.reaper.wait_for(scene.made[i]->job));
  CHECK(scene.device.destroyed == std::vector<int>{3, 4, 5, 6, 7});
  scene.device.let(1, true);
  for (std::size_t i = 0; i < 3; ++i) CHECK(scene.reaper.wait_for(scene.made[i]->job));
}

TEST_CASE(
    "queue pair reaper: a refused destroy is tried again, and is no fence before it went well") {
  Scene scene;
  QueuePairOf& its = scene.make(1);
  its.refusals = 3;
  scene.reaper.submit(*its.job);
  scene.reaper.want(*its.job);
  CHECK(scene.reaper.wait_for(its.job));
  CHECK(scene.device.destroyed == std::vector<int>{0});
  CHECK(scene.counters.value("refused") == 3);
  CHECK(scene.counters.value("lost") == 0);
}

TEST_CASE("queue pair reaper: a device that the kernel has taken away has ended its queue pairs") {
  Scene scene;
  QueuePairOf& busy = scene.make(1);
  QueuePairOf& gone = scene.make(2);
  busy.refusals = gone.refusals = 1 << 30;
  gone.why = EIO;
  for (QueuePairOf* const its : {&busy, &gone}) {
    scene.reaper.submit(*its->job);
    scene.reaper.want(*its->job);
  }
  // EIO alone may come from a device that still writes.
  while (scene.counters.value("refused") < 4) std::this_thread::yield();
  CHECK_FALSE(gone.job->is_done);
  scene.reaper.on_device_gone();
  while (!gone.job->is_done) std::this_thread::yield();
  CHECK_FALSE(busy.job->is_done);
  {
    const std::scoped_lock lock(scene.device.mutex);
    busy.refusals = 0;
  }
  CHECK(scene.reaper.wait_for(busy.job));
}

TEST_CASE("queue pair reaper: who stops waits for so long, and is told that there is no fence") {
  Scene scene{std::chrono::milliseconds(0)};
  scene.device.let(1, false);
  QueuePairOf& late = scene.end(1);
  CHECK_FALSE(scene.reaper.wait_for(late.job));
  CHECK(late.job == nullptr);  // the reaper's
  QueuePairOf& never = scene.make(2);
  never.refusals = 1'000'000;
  scene.reaper.submit(*never.job);
  scene.reaper.want(*never.job);
  CHECK_FALSE(scene.reaper.wait_for(never.job));
  CHECK(scene.counters.value("lost") == 2);
  // What is destroyed later has nobody to tell.
  scene.device.let(1, true);
  scene.device.wait([&] { return !scene.device.destroyed.empty(); });
}

TEST_CASE("queue pair reaper: one that works on goes on when others end") {
  Scene scene;
  QueuePairOf& failed = scene.make(1);
  scene.reaper.submit(*failed.job);
  scene.device.wait([&] { return scene.device.failed.size() == 1; });
  CHECK(scene.reaper.wait_for(scene.end(2).job));
  CHECK_FALSE(failed.job->is_done.load());  // nobody wanted that yet
  scene.reaper.want(*failed.job);
  CHECK(scene.reaper.wait_for(failed.job));
}

}  // namespace queue_pair_reaper_test
