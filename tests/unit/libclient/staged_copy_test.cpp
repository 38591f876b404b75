// The bytes of staged batches are copied in steps, and while one thread copies nobody else waits.
#include <doctest/doctest.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <future>
#include <string>
#include <vector>

#include "fault_world.h"
#include "libclient/async_engine.h"

namespace fault_test {

using simm::detail::AsyncEngine;

constexpr std::chrono::seconds kFarOff(60);

// Memory whose first touch stands still until the test lets it go on: a copy that takes for ever.
class StandingMemory {
public:
  StandingMemory() {
    ::sem_init(&reached_, 0, 0);
    ::sem_init(&released_, 0, 0);
    REQUIRE(page_ != MAP_FAILED);
    place_ = page_;
    struct sigaction action {};
    action.sa_handler = &StandingMemory::on_fault;
    REQUIRE(::sigaction(SIGSEGV, &action, &before_) == 0);
  }
  ~StandingMemory() {
    REQUIRE(::sigaction(SIGSEGV, &before_, nullptr) == 0);
    ::munmap(page_, kBytes);
  }
  StandingMemory(const StandingMemory&) = delete;
  StandingMemory& operator=(const StandingMemory&) = delete;

  static constexpr std::size_t kBytes = 4096;
  [[nodiscard]] void* data() const { return page_; }
  void close() { REQUIRE(::mprotect(page_, kBytes, PROT_NONE) == 0); }
  void wait_until_touched() { wait(reached_); }
  void let_go_on() { ::sem_post(&released_); }

private:
  static void wait(sem_t& event) {
    while (::sem_wait(&event) != 0) {
    }
  }
  static void on_fault(int) {
    ::sem_post(&reached_);
    wait(released_);
    if (::mprotect(place_, kBytes, PROT_READ | PROT_WRITE) != 0) std::abort();
  }

  static inline sem_t reached_;
  static inline sem_t released_;
  static inline void* place_ = nullptr;
  void* page_ = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct sigaction before_ {};
};

TEST_CASE("while one thread copies staged bytes, no other Client and no fork() waits for it") {
  World world;
  world.client.reset();
  // With one lane the thread that copies carries the other Client's batch out afterwards.
  SUBCASE("one lane for both") {
    world.options.async_lanes = 1;
  }
  SUBCASE("a lane for each") {
    world.options.async_lanes = 2;
  }
  const bool is_alone = world.options.async_lanes == 2;
  world.client.emplace(Client::connect(world.options).value());
  Region shared = world.client->allocate_region(4096).value();
  REQUIRE(world.client->put("k", View(shared, 0, 3000)).ok());
  StandingMemory memory;
  Region staged = world.client->register_region(memory.data(), StandingMemory::kBytes).value();
  REQUIRE(staged.kind() == RegionKind::staged);
  Client other = Client::connect(world.options).value();
  const Item item{"k", View(staged, 0, 3000), 0, 0};
  PageResult result;
  REQUIRE(world.client->get_async({&item, 1}, {&result, 1}, within(60'000)).has_value());
  memory.close();
  std::thread copier([&] {
    std::vector<simm::Completed> out(1);
    while (world.client->drain(out) == 0) world.client->wait(1000);
  });
  memory.wait_until_touched();

  const std::string_view key = "k";
  PageResult found;
  auto others = std::async(std::launch::async, [&] {
    CHECK(other.poll() == 0);
    CHECK(other.exists_async({&key, 1}, {&found, 1}, within(60'000)).has_value());
    std::vector<simm::Completed> out(1);
    if (is_alone) {
      CHECK(other.wait_at_least(1, kLongMs) == 1);
    } else {
      CHECK(other.drain(out) == 0);
    }
    CHECK(other.completion_fd() >= 0);
    const pid_t child = ::fork();
    if (child == 0) ::_exit(0);
    CHECK(::waitpid(child, nullptr, 0) == child);
  });
  CHECK(others.wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  // Its batch is sent by the thread that copies, which then goes: somebody has to watch.
  std::thread sleeper([&] {
    if (!is_alone) CHECK(other.wait_at_least(1, kLongMs) == 1);
  });
  for (int i = 0; i < 100; ++i) std::this_thread::yield();
  world.daemon->stop();
  memory.let_go_on();
  others.get();
  copier.join();
  world.daemon->go_on();
  sleeper.join();
  CHECK(result.ok());
  // What came while the other one copied is not forgotten.
  pollfd entry{other.completion_fd(), POLLIN, 0};
  std::vector<simm::Completed> out(1);
  while (other.drain(out) == 0) REQUIRE(::poll(&entry, 1, 20'000) == 1);
  CHECK(found.ok());
}

TEST_CASE("a step copies so much and no more, and the descriptor asks for the next one") {
  World world;
  constexpr std::size_t kPages = 48;
  constexpr std::uint64_t kPageBytes = 1 << 20;
  std::vector<std::byte> memory(kPages * kPageBytes, std::byte{'s'});
  Region staged = world.client->register_region(memory.data(), memory.size()).value();
  REQUIRE(staged.kind() == RegionKind::staged);
  std::vector<std::string> keys;
  std::vector<Item> items;
  for (std::size_t i = 0; i < kPages; ++i) keys.push_back("page " + std::to_string(i));
  for (std::size_t i = 0; i < kPages; ++i) {
    items.push_back({keys[i], View(staged, i * kPageBytes, kPageBytes), 0, 0});
  }
  // A submission has a quarter of a lane's staging memory, and is not divided.
  const std::uint64_t step_max = AsyncEngine::kCopyBytesMax + world.options.staging_bytes / 4;
  Client other = Client::connect(world.options).value();
  const int fd = world.client->completion_fd();
  std::uint64_t copied = world.client->stats().bytes_staged;
  const auto check_step = [&] {
    const std::uint64_t before = copied;
    copied = world.client->stats().bytes_staged;
    CHECK(copied - before <= step_max);
  };
  for (const bool is_put : {true, false}) {
    CAPTURE(is_put);
    std::vector<PageResult> results(kPages);
    if (!is_put) std::fill(memory.begin(), memory.end(), std::byte{'-'});
    const auto start = Clock::now();
    REQUIRE((is_put ? world.client->put_async(items, results, within(60'000))
                    : world.client->get_async(items, results, within(60'000)))
                .has_value());
    check_step();
    std::vector<simm::Completed> out(1);
    for (;;) {
      (void)world.daemon->wait_until_idle();  // as much as possible is done
      (void)other.poll();
      check_step();
      const std::size_t drained = world.client->drain(out);
      check_step();
      if (drained == 1) break;
      pollfd entry{fd, POLLIN, 0};
      REQUIRE(::poll(&entry, 1, 20'000) == 1);
    }
    CHECK(Clock::now() - start < kFarOff);
    for (const PageResult& result : results) CHECK(result.ok());
  }
  CHECK(copied == 2 * kPages * kPageBytes);
  CHECK(memory == std::vector<std::byte>(memory.size(), std::byte{'s'}));
}

}  // namespace fault_test
