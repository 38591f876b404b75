// The text of a failure is that of the thread's last call, in C++ and in C: never an older one.
#include <doctest/doctest.h>

#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "fault_world.h"
#include "simm/simm.h"

namespace fault_test {

struct NamedCall {
  std::string name;
  std::function<void()> call;
};

// Each call must leave no text, although there was one before it.
void check_they_clear(const std::vector<NamedCall>& calls, const std::function<void()>& failing) {
  for (const NamedCall& good : calls) {
    CAPTURE(good.name);
    failing();
    REQUIRE(std::string(simm::last_error()) != "");
    good.call();
    const std::string left = simm::last_error();
    CHECK(left == "");
  }
}

TEST_CASE("a call that does not fail leaves no text of an earlier one") {
  World world;
  Client& client = *world.client;
  Region region = client.allocate_region(4096).value();
  const View view(region, 0, 100);
  const Item item{"k", view, 0, 0};
  PageResult result;
  std::vector<simm::Completed> out(4);
  const std::vector<NamedCall> calls = {
      {"put", [&] { CHECK(client.put("k", view).ok()); }},
      {"get", [&] { CHECK(client.get("k", view).ok()); }},
      {"miss", [&] { CHECK(client.get("none", view).status == Status::not_found); }},
      {"exists", [&] { CHECK(client.exists("none").status == Status::not_found); }},
      {"ping", [&] { CHECK(client.ping() == Status::ok); }},
      {"list",
       [&] {
         CHECK(client.get({&item, 1}, {&result, 1}) == Status::ok);
       }},
      {"empty list", [&] { CHECK(client.get(std::span<const Item>(), {}) == Status::ok); }},
      {"async",
       [&] {
         CHECK(client.get_async({&item, 1}, {&result, 1}).has_value());
       }},
      {"has_completed", [&] { (void)client.has_completed(1); }},
      {"wait", [&] { client.wait(20'000); }},
      {"poll", [&] { (void)client.poll(); }},
      {"drain", [&] { (void)client.drain(out); }},
      {"completion_fd", [&] { CHECK(client.completion_fd() >= 0); }},
      {"connect", [&] { CHECK(Client::connect(world.options).has_value()); }},
      {"allocate", [&] { CHECK(client.allocate_region(4096).has_value()); }},
      {"namespace", [&] { CHECK(client.open_namespace("n").has_value()); }},
      {"deregister", [&] { CHECK(region.deregister().has_value()); }},
      {"remove", [&] { CHECK(client.remove("k") == Status::ok); }},
  };
  check_they_clear(calls, [&] { CHECK(client.exists("").status == Status::invalid_argument); });
  // Each thread has its own.
  CHECK(client.exists("").status == Status::invalid_argument);
  std::thread([] { CHECK(std::string(simm::last_error()) == ""); }).join();
}

TEST_CASE("C: a call that does not fail leaves no text of an earlier one") {
  World world;
  simm_client_options options = SIMM_CLIENT_OPTIONS_INIT;
  options.socket_path = world.options.socket_path.c_str();
  simm_client* client = nullptr;
  REQUIRE(simm_connect(&options, &client) == SIMM_OK);
  simm_item item{};
  item.key = "k";
  item.key_bytes = 1;
  simm_result result{};
  simm_region* region = nullptr;
  simm_namespace* name_space = nullptr;
  simm_completed out{};
  simm_client* second = nullptr;
  const std::vector<NamedCall> calls = {
      {"connect", [&] { CHECK(simm_connect(&options, &second) == SIMM_OK); }},
      {"exists", [&] { CHECK(simm_exists(client, &item, 1, &result, nullptr) == SIMM_OK); }},
      {"ping", [&] { CHECK(simm_ping(client, 0) == SIMM_OK); }},
      {"allocate", [&] { CHECK(simm_region_allocate(client, 4096, nullptr, &region) == SIMM_OK); }},
      {"deregister", [&] { CHECK(simm_region_deregister(region) == SIMM_OK); }},
      {"namespace", [&] { CHECK(simm_namespace_open(client, "n", 0, &name_space) == SIMM_OK); }},
      {"async",
       [&] {
         CHECK(simm_exists_async(client, &item, 1, &result, nullptr, nullptr, nullptr, nullptr) ==
               SIMM_OK);
       }},
      {"wait", [&] { simm_wait(client, 20'000); }},
      {"poll", [&] { (void)simm_poll(client); }},
      {"drain", [&] { CHECK(simm_drain(client, &out, 1) == 1); }},
      {"fd", [&] { CHECK(simm_completion_fd(client) >= 0); }},
  };
  check_they_clear(calls, [] { CHECK(simm_ping(nullptr, 0) == SIMM_INVALID_ARGUMENT); });
  for (const auto& without : std::vector<std::function<void()>>{
           [] { CHECK(simm_poll(nullptr) == 0); },
           [&] { CHECK(simm_drain(nullptr, &out, 1) == 0); },
           [&] { CHECK(simm_drain(client, nullptr, 1) == 0); },
           [] { CHECK(simm_completion_fd(nullptr) == -1); },
           [] { simm_wait(nullptr, 1); },
       }) {
    CHECK(simm_ping(client, 0) == SIMM_OK);
    without();
    CHECK(std::string(simm_last_error()).find("NULL") != std::string::npos);
  }
  simm_region_free(region);
  simm_namespace_free(name_space);
  simm_close(second);
  simm_close(client);
}

TEST_CASE("what the daemon answers for a page has words, too") {
  World world;
  Region region = world.client->allocate_region(8192).value();
  REQUIRE(world.client->put("k", View(region, 0, 4096)).ok());
  CHECK(world.client->get("k", View(region, 0, 100)).status == Status::invalid_argument);
  CHECK(std::string(simm::last_error()).find("items[0]: invalid_argument: ") == 0);
  CHECK(world.client->pin("k") == Status::ok);
  CHECK(std::string(simm::last_error()) == "");
  REQUIRE(world.client->put("l", View(region, 0, 4096)).ok());
  CHECK(world.client->pin("l") == Status::no_space);
  CHECK(std::string(simm::last_error()).find("items[0]: no_space: ") == 0);
}

}  // namespace fault_test
