// What C programs can ask and say as C++ programs do: counters, the longest value, the socket,
// names, kinds and states of regions, whether a batch has completed.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "fault_world.h"
#include "simm/simm.h"

namespace fault_test {

bool is_mapped_as(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("memfd:" + name + " ") != std::string::npos) return true;
  }
  return false;
}

TEST_CASE("C: counters, the longest value and names of regions") {
  World world;
  simm_client_options options = SIMM_CLIENT_OPTIONS_INIT;
  options.socket_path = world.options.socket_path.c_str();
  simm_client* client = nullptr;
  REQUIRE(simm_connect(&options, &client) == SIMM_OK);
  CHECK(simm_max_value_bytes(client) == world.client->max_value_bytes());
  CHECK(simm_max_value_bytes(client) == 1ull << 30);
  CHECK(simm_max_value_bytes(nullptr) == 0);

  simm_region_options named = SIMM_REGION_OPTIONS_INIT;
  named.name = "layer-7";
  simm_region* region = nullptr;
  REQUIRE(simm_region_allocate(client, 4096, &named, &region) == SIMM_OK);
  CHECK(is_mapped_as("layer-7"));
  CHECK(simm_region_valid(region) == 1);
  CHECK(simm_region_huge_pages(region) == 0);
  CHECK(simm_region_kind_of(region) == SIMM_REGION_SHARED);
  CHECK(std::string(simm_region_kind_name(SIMM_REGION_SHARED)) == "shared");
  CHECK(simm_region_valid(nullptr) == 0);
  CHECK(simm_region_huge_pages(nullptr) == 0);
  named.name = "two\nlines";
  simm_region* refused = nullptr;
  CHECK(simm_region_allocate(client, 4096, &named, &refused) == SIMM_INVALID_ARGUMENT);
  CHECK(refused == nullptr);

  simm_item item{};
  item.key = "k";
  item.key_bytes = 1;
  item.region = region;
  item.length = 100;
  simm_result result{};
  REQUIRE(simm_put(client, &item, 1, &result, nullptr) == SIMM_OK);
  simm_client_stats stats = SIMM_CLIENT_STATS_INIT;
  CHECK(simm_stats(client, &stats) == SIMM_OK);
  const simm::ClientStats same = world.client->stats();
  CHECK(stats.struct_size == sizeof stats);
  CHECK(stats.submissions == same.submissions);
  CHECK(stats.pages == 1);
  CHECK(stats.pages_ok == 1);
  CHECK(stats.bytes_moved == 100);
  CHECK(stats.attaches == 1);

  // An older program's struct is filled as far as it goes, a newer one's rest stays.
  simm_client_stats older;
  std::memset(&older, 0x55, sizeof older);
  older.struct_size = 2 * sizeof(std::uint64_t);
  CHECK(simm_stats(client, &older) == SIMM_OK);
  CHECK(older.submissions == same.submissions);
  CHECK(older.pages == 0x5555555555555555u);
  older.struct_size = 0;
  CHECK(simm_stats(client, &older) == SIMM_INVALID_ARGUMENT);
  CHECK(std::string(simm_last_error()).find("struct_size = 0") == 0);
  CHECK(simm_stats(nullptr, &stats) == SIMM_INVALID_ARGUMENT);
  CHECK(simm_region_deregister(region) == SIMM_OK);
  CHECK(simm_region_valid(region) == 0);
  simm_region_free(region);

  CHECK(simm_socket_path(client) == world.options.socket_path);
  CHECK(std::string(simm_socket_path(nullptr)).empty());
  item.region = nullptr;  // it is gone
  item.length = 0;
  std::uint64_t ticket = 0;
  world.daemon->stop();
  REQUIRE(simm_exists_async(client, &item, 1, &result, nullptr, nullptr, nullptr, &ticket) ==
          SIMM_OK);
  CHECK(simm_has_completed(client, ticket) == 0);
  world.daemon->go_on();
  while (simm_has_completed(client, ticket) == 0) std::this_thread::yield();
  CHECK(simm_has_completed(client, ticket + 1) == 0);
  CHECK(simm_has_completed(nullptr, ticket) == 0);
  simm_completed out{};
  CHECK(simm_drain(client, &out, 1) == 1);
  CHECK(simm_has_completed(client, ticket) == 0);
  simm_close(client);
}

}  // namespace fault_test
