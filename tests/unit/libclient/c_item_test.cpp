// The size of a simm_item is what its caller says, so that later versions can append to it.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>

#include "fault_world.h"
#include "simm/simm.h"

namespace fault_test {

struct NewerItem {
  simm_item known;
  std::uint64_t newer;
};

struct OlderCallOptions {  // of the first version: without item_bytes
  std::size_t struct_size;
  const simm_namespace* name_space;
  std::uint32_t words[5];
};

TEST_CASE("C: items of a newer header are taken while their new fields are zero") {
  World world;
  simm_client_options options = SIMM_CLIENT_OPTIONS_INIT;
  options.socket_path = world.options.socket_path.c_str();
  simm_client* client = nullptr;
  REQUIRE(simm_connect(&options, &client) == SIMM_OK);
  simm_region* region = nullptr;
  REQUIRE(simm_region_allocate(client, 4096, nullptr, &region) == SIMM_OK);
  NewerItem items[3] = {};
  simm_item plain[3] = {};
  const char* const keys[3] = {"a", "bb", "ccc"};
  for (std::size_t i = 0; i < 3; ++i) {
    simm_item& item = plain[i];
    item.key = keys[i];
    item.key_bytes = i + 1;
    item.region = region;
    item.offset = 100 * i;
    item.length = 10 + i;
    items[i].known = item;
  }
  const auto* const newer = reinterpret_cast<const simm_item*>(items);
  simm_call_options with = SIMM_CALL_OPTIONS_INIT;
  simm_result results[3] = {};
  const auto check_all = [&] {
    for (std::size_t i = 0; i < 3; ++i) {
      CHECK(results[i].status == SIMM_OK);
      CHECK(results[i].bytes == 10 + i);
      results[i] = {};
    }
  };
  with.item_bytes = sizeof(NewerItem);
  CHECK(simm_put(client, newer, 3, results, &with) == SIMM_OK);
  check_all();
  std::uint64_t ticket = 0;
  CHECK(simm_exists_async(client, newer, 3, results, &with, nullptr, nullptr, &ticket) == SIMM_OK);
  simm_completed done{};
  while (simm_drain(client, &done, 1) == 0) simm_wait(client, 20'000);
  check_all();
  items[2].newer = 1;
  CHECK(simm_get(client, newer, 3, results, &with) == SIMM_INCOMPATIBLE);
  CHECK(std::string(simm_last_error()).find("item_bytes = 72: this library knows 64") == 0);
  for (const std::size_t bad : {std::size_t{1}, std::size_t{63}, std::size_t{68}, SIZE_MAX}) {
    with.item_bytes = bad;
    CHECK(simm_get(client, plain, 3, results, &with) == SIMM_INCOMPATIBLE);
  }
  // Those of before.
  OlderCallOptions older = {sizeof(OlderCallOptions), nullptr, {}};
  CHECK(simm_get(client, plain, 3, results, reinterpret_cast<const simm_call_options*>(&older)) ==
        SIMM_OK);
  check_all();
  CHECK(simm_get(client, plain, 3, results, nullptr) == SIMM_OK);
  check_all();
  simm_region_free(region);
  simm_close(client);
}

}  // namespace fault_test
