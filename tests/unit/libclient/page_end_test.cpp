// CallReport::on_page: each page of an asynchronous batch is told once, as it ends, before the
// batch. A page that the library refuses ends at once, and those of a stopped daemon when the test
// says so.
#include <doctest/doctest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "fault_world.h"
#include "simm/simm.h"

namespace fault_test {

using simm::CallReport;
using simm::Completed;
using simm::PageEnd;

// Keys to ask for, of which the one in the middle is refused by the library.
struct Asked {
  explicit Asked(std::size_t count) : names(count), results(count), user_data(count) {
    for (std::size_t i = 0; i < count; ++i) {
      texts.push_back("key" + std::to_string(i));
      user_data[i] = 1000 + i;
    }
    for (std::size_t i = 0; i < count; ++i)
      names[i] = i == count / 2 ? std::string_view() : std::string_view(texts[i]);
  }
  [[nodiscard]] CallReport report() {
    CallReport report;
    report.on_page = [this](const PageEnd& page) { told.push_back(page); };
    report.user_data = user_data;
    return report;
  }
  std::vector<std::string> texts;
  std::vector<std::string_view> names;
  std::vector<PageResult> results;
  std::vector<std::uint64_t> user_data;
  std::vector<PageEnd> told;
};

bool is_readable(int fd) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, 0) == 1;
}

TEST_CASE("on_page: a page that has ended is told before the others have") {
  World world;
  Client& client = *world.client;
  Asked asked(3);
  std::size_t told_at_end = 0;
  bool calls_back = false;
  SUBCASE("with a callback of the batch") {
    calls_back = true;
  }
  SUBCASE("drained") {}
  Client::Callback callback;
  if (calls_back) callback = [&](const Completed&) { told_at_end = asked.told.size(); };
  const int fd = client.completion_fd();
  world.daemon->stop();
  const std::uint64_t ticket =
      client.exists_async(asked.names, asked.results, within(2 * kLongMs), callback, asked.report())
          .value();
  REQUIRE(world.daemon->wait_until_holding(2));
  CHECK(asked.told.empty());  // not in the call that starts it
  CHECK(is_readable(fd));
  CHECK(client.poll() == 0);
  REQUIRE(asked.told.size() == 1);
  CHECK(asked.told[0].ticket == ticket);
  CHECK(asked.told[0].index == 1);
  CHECK(asked.told[0].user_data == 1001);
  CHECK(asked.told[0].result.status == Status::invalid_argument);
  CHECK_FALSE(is_readable(fd));
  CHECK_FALSE(client.has_completed(ticket));
  CHECK(client.pending() == 1);
  world.daemon->go_on();
  std::array<Completed, 2> out;
  std::size_t ended = 0;
  while (ended == 0) {
    client.wait(kLongMs);
    ended = calls_back ? 1 - client.pending() : client.drain(out);
  }
  REQUIRE(asked.told.size() == 3);
  if (calls_back) CHECK(told_at_end == 3);
  CHECK(asked.told[1].index + asked.told[2].index == 2);
  CHECK(asked.told[1].result.status == Status::not_found);
  CHECK(world.daemon->counts().pages_most == 1);
  CHECK(client.pending() == 0);
  CHECK(client.poll() == 0);
  CHECK_FALSE(is_readable(fd));
}

TEST_CASE("on_page: wait_at_least() tells pages, counts batches, and wakes for both") {
  World world;
  Client& client = *world.client;
  Asked asked(3);
  world.daemon->stop();
  REQUIRE(client.exists_async(asked.names, asked.results, within(2 * kLongMs), {}, asked.report()));
  REQUIRE(world.daemon->wait_until_holding(2));
  CHECK(client.wait_at_least(1, 1) == 0);
  CHECK(asked.told.size() == 1);
  std::thread waiter([&] { CHECK(client.wait_at_least(1, kLongMs) == 1); });
  world.daemon->go_on();
  waiter.join();
  CHECK(asked.told.size() == 3);
  std::array<Completed, 2> out;
  CHECK(client.drain(out) == 1);
}

TEST_CASE("on_page: a batch that ends while others' pages are told comes after its own") {
  World world;
  Client& client = *world.client;
  world.daemon->stop();
  Asked second(3);
  const std::uint64_t later =
      client.exists_async(second.names, second.results, within(2 * kLongMs), {}, second.report())
          .value();
  Asked refused(1);  // ends at once
  CallReport report;
  report.on_page = [&](const PageEnd&) { REQUIRE(client.cancel(later) == Status::ok); };
  const std::uint64_t first =
      client.exists_async(refused.names, refused.results, {}, {}, report).value();
  std::array<Completed, 2> out;
  CHECK(client.drain(out) == 1);
  CHECK(out[0].ticket == first);
  CHECK(client.drain(out) == 1);
  CHECK(out[0].ticket == later);
  CHECK(second.told.size() == 3);
  world.daemon->go_on();
}

TEST_CASE("on_page: a callback may poll, start a batch, throw, and close the Client") {
  World world;
  Asked asked(5);
  Asked second(1);
  CallReport report;
  int calls = 0;
  SUBCASE("poll and start") {
    report.on_page = [&](const PageEnd&) {
      if (++calls != 1) return;
      second.names[0] = "k";
      REQUIRE(world.client->exists_async(second.names, second.results, {}, {}, second.report()));
      (void)world.client->poll();
      CHECK(calls == 1);  // of a batch whose pages are being told only the others tell theirs
    };
    REQUIRE(world.client->exists_async(asked.names, asked.results, {}, {}, report));
    CHECK(world.client->wait_at_least(2, kLongMs) == 2);
    CHECK(calls == 5);
    CHECK(second.told.size() == 1);
  }
  SUBCASE("throw") {
    report.on_page = [&](const PageEnd& page) {
      ++calls;
      if (page.index % 2 == 0) throw std::runtime_error("page");
    };
    REQUIRE(world.client->exists_async(asked.names, asked.results, {}, {}, report));
    int thrown = 0;
    std::array<Completed, 1> out;
    for (bool is_over = false; !is_over;) {
      try {
        world.client->wait(kLongMs);
        is_over = world.client->drain(out) == 1;
      } catch (const std::runtime_error&) {
        ++thrown;
      }
    }
    CHECK(calls == 5);
    CHECK(thrown == 3);
  }
  SUBCASE("close") {
    const auto alive = std::make_shared<int>(1);
    report.on_page = [&, alive](const PageEnd&) {
      ++calls;
      world.client.reset();
      CHECK(*alive == 1);  // the callback outlives its batch
    };
    REQUIRE(world.client->exists_async(asked.names, asked.results, {}, {}, report));
    report = {};
    while (world.client) world.client->wait(kLongMs);
    CHECK(calls == 1);
    CHECK(alive.use_count() == 1);
  }
}

TEST_CASE("on_page: a retried page is told once, and user_data has one entry for each or none") {
  World world;
  Client& client = *world.client;
  Asked asked(3);
  CHECK(client
            .exists_async(asked.names, asked.results, {}, {},
                          {.user_data = std::span(asked.user_data).first(2)})
            .status() == Status::invalid_argument);
  CHECK(std::string(simm::last_error()).find("report.user_data: 2 entries") == 0);
  CallReport report = asked.report();
  report.user_data = {};
  REQUIRE(client.exists_async(asked.names, asked.results, {}, {}, report));
  CHECK(client.wait_at_least(1, kLongMs) == 1);
  for (const PageEnd& page : asked.told) CHECK(page.user_data == 0);
  // Of a synchronous call nothing is told.
  asked.told.clear();
  CHECK(client.exists(asked.names, asked.results, {}, report) == Status::ok);
  CHECK(asked.told.empty());
}

// One batch of a storm, and what its threads were told.
struct StormBatch : Asked {
  explicit StormBatch(std::size_t count) : Asked(count), times(count) {}
  std::vector<std::atomic<int>> times;
  std::atomic<std::size_t> told_pages{0};
  std::atomic<bool> is_over{false};
};

TEST_CASE("on_page: four threads, cancelled batches and a daemon that dies: each page once") {
  const char* const given = std::getenv("SIMM_SEED");
  const auto seed = static_cast<std::uint32_t>(given != nullptr ? std::strtoul(given, nullptr, 10)
                                                                : std::random_device{}());
  CAPTURE(seed);
  std::mt19937 random(seed);
  World world;
  Client& client = *world.client;
  constexpr std::size_t kBatches = 200;
  std::vector<std::unique_ptr<StormBatch>> batches;
  std::atomic<std::size_t> over{0};
  std::atomic<std::size_t> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      while (over != kBatches) {
        if (i == 0) (void)client.poll();
        if (i == 1) client.wait(1);
        if (i == 2) (void)client.wait_at_least(3, 1);
      }
    });
  }
  for (std::size_t i = 0; i < kBatches; ++i) {
    batches.push_back(std::make_unique<StormBatch>(1 + random() % 150));
    StormBatch& batch = *batches.back();
    CallReport report;
    report.user_data = batch.user_data;
    report.on_page = [&](const PageEnd& page) {
      const bool right = page.user_data == 1000 + page.index && !batch.is_over &&
                         page.result.status == batch.results[page.index].status;
      if (!right || ++batch.times[page.index] != 1) ++wrong;
      ++batch.told_pages;
    };
    const auto ticket = client.exists_async(
        batch.names, batch.results, {},
        [&](const Completed&) {
          if (batch.told_pages != batch.names.size()) ++wrong;
          batch.is_over = true;
          ++over;
        },
        report);
    REQUIRE(ticket);
    if (random() % 4 == 0) (void)client.cancel(*ticket);
    if (i == kBatches / 2) {
      world.die();
      world.come_back();
    }
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  for (const auto& batch : batches) CHECK(batch->told_pages == batch->names.size());
}

TEST_CASE("C: page_callback") {
  World world;
  simm_client_options client_options = SIMM_CLIENT_OPTIONS_INIT;
  client_options.socket_path = world.options.socket_path.c_str();
  simm_client* client = nullptr;
  REQUIRE(simm_connect(&client_options, &client) == SIMM_OK);
  simm_item items[2] = {};
  items[0].key = items[1].key = "key";
  items[0].key_bytes = 3;
  simm_result results[2] = {};
  const std::uint64_t user_data[2] = {7, 8};
  simm_call_options options = SIMM_CALL_OPTIONS_INIT;
  std::vector<simm_page_end> told;
  options.page_context = &told;
  options.page_callback = [](void* context, const simm_page_end* page) {
    static_cast<std::vector<simm_page_end>*>(context)->push_back(*page);
  };
  options.user_data = user_data;
  std::uint64_t ticket = 0;
  REQUIRE(simm_exists_async(client, items, 2, results, &options, nullptr, nullptr, &ticket) ==
          SIMM_OK);
  simm_completed done{};
  while (simm_drain(client, &done, 1) == 0) simm_wait(client, kLongMs);
  REQUIRE(told.size() == 2);
  std::sort(told.begin(), told.end(),
            [](const auto& a, const auto& b) { return a.index < b.index; });
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(told[i].ticket == ticket);
    CHECK(told[i].index == i);
    CHECK(told[i].user_data == user_data[i]);
    CHECK(told[i].status == results[i].status);
  }
  CHECK(told[0].status == SIMM_NOT_FOUND);
  CHECK(told[1].status == SIMM_INVALID_ARGUMENT);
  simm_close(client);
}

}  // namespace fault_test
