#include "libclient/batch_starter.h"

#include <doctest/doctest.h>

#include <memory>
#include <thread>

using simm::detail::BatchStarter;

namespace {

// What a thread that ends calls last.
struct AtEnd {
  std::uint64_t queue = 0;
  bool* has_starter = nullptr;
  ~AtEnd() { *has_starter = BatchStarter::begin(queue) || BatchStarter::find(queue) != nullptr; }
};

TEST_CASE("batch starter: a thread in each of its queues, with news of its own") {
  const std::uint64_t first = BatchStarter::number_queue();
  const std::uint64_t second = BatchStarter::number_queue();
  CHECK(second == first + 1);
  CHECK(BatchStarter::find(first) == nullptr);
  const std::shared_ptr<BatchStarter> mine = BatchStarter::begin(first);
  CHECK(BatchStarter::find(first) == mine.get());
  CHECK(BatchStarter::find(second) == nullptr);
  CHECK_FALSE(mine->has_news());
  std::thread([&] {
    CHECK(BatchStarter::find(first) == nullptr);
    CHECK(BatchStarter::begin(first) != mine);
    mine->handed_back();
    mine->handed_back();
  }).join();
  CHECK(mine->has_news());
  CHECK(mine->take_news() == 2);
  CHECK_FALSE(mine->has_news());
  mine->handed_back();
  CHECK(BatchStarter::begin(first) == mine);
  CHECK_FALSE(mine->has_news());  // who starts again has looked
}

TEST_CASE("batch starter: the place of a queue is given to another one, and goes with its thread") {
  const std::uint64_t first = BatchStarter::number_queue();
  std::weak_ptr<BatchStarter> left = BatchStarter::begin(first);
  const std::uint64_t later = first + BatchStarter::kQueuesMax;
  CHECK(BatchStarter::begin(later) != nullptr);
  CHECK(left.expired());
  CHECK(BatchStarter::find(first) == nullptr);
  bool has_starter = true;
  std::thread([&] {
    thread_local AtEnd end;
    end.queue = first;
    end.has_starter = &has_starter;  // made before the thread's starters, so it goes after them
    left = BatchStarter::begin(first);
    CHECK_FALSE(left.expired());
  }).join();
  CHECK_FALSE(has_starter);
  CHECK(left.expired());
}

}  // namespace
