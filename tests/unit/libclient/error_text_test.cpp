// CallReport::error_text and simm_call_options.error_text: the words of a failure in the caller's
// own room, for each call its own, whichever thread has ended it.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <thread>

#include "fault_world.h"
#include "simm/error_code.h"
#include "simm/simm.h"

namespace fault_test {

using simm::CallReport;
using simm::Completed;

using Room = std::array<char, 256>;

// Room that holds something of before.
Room used_room() {
  Room room;
  room.fill('x');
  return room;
}

TEST_CASE("error_text: has what last_error() has of the call, or nothing") {
  World world;
  Client& client = *world.client;
  Region region = client.allocate_region(8192).value();
  const Item good{"k", View(region, 0, 100), 0, 0};
  const Item bad{"k", View(region, 8000, 1000), 0, 0};
  PageResult result;
  Room room = used_room();
  CHECK(client.put({&bad, 1}, {&result, 1}, {}, {.error_text = room}) == Status::ok);
  CHECK(result.status == Status::invalid_argument);
  CHECK(std::string(room.data()) == simm::last_error());
  CHECK(std::string(room.data()).find("items[0].view: [8000, +1000) is not inside") == 0);
  room = used_room();
  CHECK(client.put({&good, 1}, {&result, 1}, {}, {.error_text = room}) == Status::ok);
  CHECK(std::string(room.data()) == "");
  // Arguments.
  CHECK(client.put({&good, 1}, {}, {}, {.error_text = room}) == Status::invalid_argument);
  CHECK(std::string(room.data()) == "results: 0 entries for a list of 1: one for each page");
  CHECK(client.exists(std::span<const std::string_view>(), {}, {}, {.error_text = room}) ==
        Status::ok);
  CHECK(std::string(room.data()) == "");
  // The thread's text is that of the last call; the room is the other call's.
  const std::string_view empty_key;
  CHECK(client.exists({&empty_key, 1}, {&result, 1}, {}, {.error_text = room}) == Status::ok);
  CHECK(client.ping() == Status::ok);
  CHECK(std::string(simm::last_error()) == "");
  CHECK(std::string(room.data()).find("items[0].key: 0 bytes") == 0);
}

TEST_CASE("error_text: is cut between two characters, and always ends") {
  World here;
  World other;
  // Each character takes two, three or four bytes.
  const auto foreign = other.client->open_namespace("\u00e9\u20ac\U0001f600\u00e9\u20ac").value();
  CallOptions options;
  options.name_space = foreign;
  const std::string_view key = "k";
  PageResult result;
  CHECK(here.client->exists({&key, 1}, {&result, 1}, options) == Status::invalid_argument);
  const std::string whole = simm::last_error();
  REQUIRE(whole.find("\u00e9\u20ac\U0001f600") != std::string::npos);
  for (std::size_t bytes = 0; bytes <= whole.size() + 2; ++bytes) {
    CAPTURE(bytes);
    Room room = used_room();
    REQUIRE(bytes < room.size());
    CHECK(here.client->exists({&key, 1}, {&result, 1}, options,
                              {.error_text = std::span(room).first(bytes)}) ==
          Status::invalid_argument);
    for (std::size_t i = bytes; i < room.size(); ++i) CHECK(room[i] == 'x');
    if (bytes == 0) continue;
    const std::string text = room.data();
    CHECK(text == whole.substr(0, text.size()));
    // No character is cut, and fewer bytes than a character are wasted.
    CHECK((static_cast<unsigned char>(whole[text.size()]) & 0xc0) != 0x80);
    CHECK(text.size() + 4 >= std::min(bytes - 1, whole.size()));
  }
}

TEST_CASE("error_text: each of several asynchronous batches has its own") {
  World world;
  Client& client = *world.client;
  Region region = client.allocate_region(8192).value();
  REQUIRE(client.put("long", View(region, 0, 4096)).ok());
  const Item items[4] = {{"long", View(region, 0, 10), 0, 0},
                         {"long", View(region, 0, 20), 0, 0},
                         {"long", View(region, 0, 4096), 0, 0},
                         {"long", View(region, 9000, 1), 0, 0}};
  std::array<Room, 4> rooms{used_room(), used_room(), used_room(), used_room()};
  std::array<PageResult, 4> results;
  world.daemon->stop();
  for (std::size_t i = 0; i < 4; ++i) {
    REQUIRE(client.get_async({&items[i], 1}, {&results[i], 1}, {}, {}, {.error_text = rooms[i]}));
  }
  world.daemon->go_on();
  // Another thread ends them, one behind the other.
  std::thread([&] { CHECK(client.wait_at_least(4, 120'000) == 4); }).join();
  std::array<Completed, 4> done;
  CHECK(client.drain(done) == 4);
  CHECK(std::string(rooms[0].data()).find("items[0]: invalid_argument: ") == 0);
  CHECK(std::string(rooms[1].data()).find("items[0]: invalid_argument: ") == 0);
  CHECK(std::string(rooms[2].data()) == "");
  CHECK(std::string(rooms[3].data()).find("items[0].view: [9000, +1) is not inside") == 0);
}

TEST_CASE("error_text: a batch that ends without any page's fault has words") {
  World world;
  const std::string_view key = "k";
  PageResult result;
  Room room = used_room();
  Completed done;
  world.daemon->stop();
  const auto ticket =
      world.client->exists_async({&key, 1}, {&result, 1}, within(240'000), {}, {.error_text = room})
          .value();
  CHECK(std::string(room.data()) == "");
  SUBCASE("cancelled") {
    REQUIRE(world.client->cancel(ticket) == Status::ok);
    CHECK(std::string(room.data()) == simm::status_text(Status::cancelled));
    world.daemon->go_on();
  }
  SUBCASE("the daemon dies") {
    world.die();
    while (world.client->drain({&done, 1}) == 0) world.client->wait(120'000);
    CHECK(std::string(room.data()).find("unreachable") != std::string::npos);
    // And while it is away.
    REQUIRE(world.client->exists_async({&key, 1}, {&result, 1}, {}, {}, {.error_text = room}));
    while (world.client->drain({&done, 1}) == 0) world.client->wait(120'000);
    CHECK(done.status == Status::unreachable);
    CHECK(std::string(room.data()) != "");
  }
}

struct NewerReport {
  CallReport known;
  std::uint64_t newer = 0;
};

TEST_CASE("error_text: a report of a newer header is taken while its new fields are empty") {
  World world;
  const std::string_view key = "k";
  PageResult result;
  NewerReport report;
  report.known.struct_size = sizeof report;
  CHECK(world.client->exists({&key, 1}, {&result, 1}, {}, report.known) == Status::ok);
  report.newer = 1;
  CHECK(world.client->exists({&key, 1}, {&result, 1}, {}, report.known) == Status::incompatible);
  CHECK(result.status == Status::incompatible);
  CHECK(std::string(simm::last_error()).find("report.struct_size = ") == 0);
  for (const std::size_t bad : {std::size_t{0}, std::size_t{8}, SIZE_MAX}) {
    report.known.struct_size = bad;
    CHECK(world.client->exists_async({&key, 1}, {&result, 1}, {}, {}, report.known).status() ==
          Status::incompatible);
  }
}

TEST_CASE("C: error_text") {
  World world;
  simm_client_options client_options = SIMM_CLIENT_OPTIONS_INIT;
  client_options.socket_path = world.options.socket_path.c_str();
  simm_client* client = nullptr;
  REQUIRE(simm_connect(&client_options, &client) == SIMM_OK);
  simm_item item{};
  item.key = "k";
  simm_result result{};
  simm_call_options options = SIMM_CALL_OPTIONS_INIT;
  Room room = used_room();
  options.error_text = room.data();
  options.error_text_bytes = room.size();
  CHECK(simm_exists(client, &item, 1, &result, &options) == SIMM_OK);
  CHECK(std::string(room.data()).find("items[0].key: 0 bytes") == 0);
  CHECK(simm_exists(nullptr, &item, 1, &result, &options) == SIMM_INVALID_ARGUMENT);
  CHECK(std::string(room.data()) == "client: NULL");
  item.key_bytes = 1;
  CHECK(simm_exists(client, &item, 1, &result, &options) == SIMM_OK);
  CHECK(std::string(room.data()) == "");
  item.key_bytes = 0;
  simm_completed done{};
  CHECK(simm_exists_async(client, &item, 1, &result, &options, nullptr, nullptr, nullptr) ==
        SIMM_OK);
  while (simm_drain(client, &done, 1) == 0) simm_wait(client, 120'000);
  CHECK(std::string(room.data()).find("items[0].key: 0 bytes") == 0);
  // No room is none, and no reason to touch anything.
  options.error_text_bytes = 0;
  room = used_room();
  CHECK(simm_exists(client, &item, 1, &result, &options) == SIMM_OK);
  CHECK(room[0] == 'x');
  // The options of a program that was compiled before there was room for words.
  options.struct_size = offsetof(simm_call_options, error_text);
  options.error_text_bytes = room.size();
  CHECK(simm_exists(client, &item, 1, &result, &options) == SIMM_OK);
  CHECK(room[0] == 'x');
  simm_close(client);
}

}  // namespace fault_test
