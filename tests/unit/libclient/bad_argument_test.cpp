// Arguments that the daemon takes for a breach end nobody's session: the library refuses each of
// them by its field, and the session stays.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "fault_world.h"
#include "simm/simm.h"

namespace fault_test {

struct BadArgument {
  std::string what;
  std::function<Status()> call;
  const char* field;  // with which the text begins
};

TEST_CASE("each field that the daemon checks is checked here: a table of bad ones") {
  World world;
  Client& client = *world.client;
  Region region = client.allocate_region(8192).value();
  const View view(region, 0, 100);
  REQUIRE(client.put("k", view).ok());
  simm_client_options options = SIMM_CLIENT_OPTIONS_INIT;
  options.socket_path = world.options.socket_path.c_str();
  simm_client* c_client = nullptr;
  REQUIRE(simm_connect(&options, &c_client) == SIMM_OK);
  const auto get = [&](const Item& item) {
    PageResult result;
    REQUIRE(client.get({&item, 1}, {&result, 1}) == Status::ok);
    return result.status;
  };
  const auto put_mode = [&](int mode) {
    CallOptions with;
    with.mode = static_cast<simm::PutMode>(mode);
    return client.put("k", view, with).status;
  };
  const auto c_flags = [&](std::uint32_t flags) {
    simm_call_options with = SIMM_CALL_OPTIONS_INIT;
    with.flags = flags;
    simm_item item{};
    item.key = "k";
    item.key_bytes = 1;
    simm_result result{};
    return static_cast<Status>(simm_exists(c_client, &item, 1, &result, &with));
  };
  const auto c_name_space = [&](std::uint32_t flags) {
    simm_namespace* opened = nullptr;
    return static_cast<Status>(simm_namespace_open(c_client, "n", flags, &opened));
  };
  const auto named = [&](const std::string& name) {
    simm::AllocateOptions with;
    with.name = name;
    return client.allocate_region(4096, with).status();
  };
  const std::string long_key(1025, 'k');
  const std::vector<BadArgument> table = {
      {"no key", [&] { return client.exists("").status; }, "items[0].key"},
      {"key", [&] { return client.exists(long_key).status; }, "items[0].key"},
      {"remove", [&] { return client.remove(long_key); }, "items[0].key"},
      {"pin", [&] { return client.pin(""); }, "items[0].key"},
      {"empty view", [&] { return client.put("k", View(region, 0, 0)).status; }, "items[0].view"},
      {"long view", [&] { return client.put("k", View(region, 0, 1ull << 31)).status; },
       "items[0].view"},
      {"view behind", [&] { return client.get("k", View(region, 8192, 1)).status; },
       "items[0].view"},
      {"view around", [&] { return client.get("k", View(region, UINT64_MAX, 2)).status; },
       "items[0].view"},
      {"offset",
       [&] {
         return get({"k", view, (1ull << 30) + 1, 0});
       },
       "items[0].object_offset"},
      {"offset",
       [&] {
         return get({"k", view, UINT64_MAX, 0});
       },
       "items[0].object_offset"},
      {"mode", [&] { return put_mode(2); }, "mode"},
      {"mode", [&] { return put_mode(255); }, "mode"},
      {"C flags", [&] { return c_flags(8); }, "flags"},
      {"C flags", [&] { return c_flags(0x8000'0001u); }, "flags"},
      {"C namespace", [&] { return c_name_space(SIMM_RANGED); }, "flags"},
      {"C namespace", [&] { return c_name_space(1u << 31); }, "flags"},
      {"region name", [&] { return named("x\n"); }, "name"},
      {"region name", [&] { return named(std::string(250, 'r')); }, "name"},
      {"namespace", [&] { return client.open_namespace(std::string(256, 'n')).status(); }, "name"},
      {"namespace", [&] { return client.open_namespace("\x7f").status(); }, "name"},
  };
  for (const BadArgument& bad : table) {
    CAPTURE(bad.what);
    CHECK(bad.call() == Status::invalid_argument);
    const std::string text = simm::last_error();
    CAPTURE(text);
    CHECK(text.find(bad.field) == 0);
    CHECK(client.get("k", view).ok());
  }
  CHECK(client.stats().attaches == 1);
  simm_close(c_client);
}

TEST_CASE("a region whose file was cut short fails its own pages only") {
  World world;
  constexpr std::size_t kPage = 4096;
  const int fd = ::memfd_create("mine", MFD_CLOEXEC);
  REQUIRE(::ftruncate(fd, 4 * kPage) == 0);
  Region cut = world.client->register_fd(fd, kPage, 3 * kPage).value();
  REQUIRE(cut.kind() == RegionKind::shared);
  Region whole = world.client->allocate_region(kPage).value();
  const auto pages = [&](bool is_put) {
    const std::vector<Item> items = {{"a", View(cut, 0, kPage), 0, 0},
                                     {"b", View(whole, 0, kPage), 0, 0},
                                     {"c", View(cut, 2 * kPage, kPage), 0, 0},
                                     {"d", View(cut, kPage - 1, 2), 0, 0},
                                     {"e", View(whole, 0, 100), 0, 0}};
    std::vector<PageResult> results(items.size());
    CHECK((is_put ? world.client->put(items, results) : world.client->get(items, results)) ==
          Status::ok);
    std::vector<bool> good;
    for (const PageResult& result : results) good.push_back(result.ok());
    return good;
  };
  REQUIRE(pages(true) == std::vector<bool>{true, true, true, true, true});
  REQUIRE(::ftruncate(fd, kPage + 10) == 0);
  for (const bool is_put : {false, true}) {
    CAPTURE(is_put);
    CHECK(pages(is_put) == std::vector<bool>{true, true, false, false, true});
    CHECK(std::string(simm::last_error()).find("cut to 4096 of its 12288") != std::string::npos);
  }
  REQUIRE(::ftruncate(fd, 4 * kPage) == 0);
  CHECK(pages(false) == std::vector<bool>{true, true, true, true, true});
  CHECK(world.client->stats().attaches == 1);
  ::close(fd);
}

}  // namespace fault_test
