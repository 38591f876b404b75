// What a KeyFollower tells of a daemon's answers: losses, present keys, daemons that know nothing
// of it; and the same in C.
#include "simm/key_follower.h"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

#include "fault_world.h"
#include "ipc/key_news.h"
#include "simm/simm.h"

namespace key_follower_test {

using namespace fault_test;
using simm::KeyChange;
using simm::KeyEvent;
using simm::KeyFollower;
namespace ipc = simm::ipc;

struct KeyWorld : World {
  KeyWorld() {
    fake.tells_keys = true;
    die();
    come_back();
    REQUIRE(wait_until_back());
  }
};

ipc::KeyEventsReply reply_of(std::vector<ipc::KeyNews> news, std::uint64_t next,
                             bool is_complete = false) {
  ipc::KeyEventsReply reply;
  reply.follower = 7;
  reply.salt = 5;
  reply.next = next;
  reply.is_complete = is_complete;
  reply.news = std::move(news);
  return reply;
}

ipc::KeyNews news_of(ipc::KeyNewsKind kind, std::uint64_t key) {
  return {{key, 0}, key * 10, kind};
}

// So many events, with the low halves of their tokens.
std::vector<std::pair<KeyChange, std::uint64_t>> read(KeyFollower& follower, std::size_t count) {
  std::vector<std::pair<KeyChange, std::uint64_t>> told;
  while (told.size() < count) {
    std::array<KeyEvent, 3> events;  // fewer than come at once
    const auto done = follower.read(events, kLongMs);
    REQUIRE(done.has_value());
    REQUIRE(*done > 0);
    for (std::size_t i = 0; i < *done; ++i)
      told.emplace_back(events[i].change, events[i].token.low);
  }
  CHECK(told.size() == count);
  return told;
}

using Told = std::vector<std::pair<KeyChange, std::uint64_t>>;

TEST_CASE("a daemon of a release before is unsupported, with the remedy, and goes on to work") {
  World world;
  auto follower = world.client->follow_keys();
  REQUIRE(follower.has_value());
  std::array<KeyEvent, 4> events;
  const auto read = follower->read(events, kLongMs);
  CHECK(read.status() == Status::unsupported);
  CHECK(read.error().context.find("of a release before") != std::string::npos);
  CHECK(world.store->asked().empty());
  CHECK(world.client->ping() == Status::ok);
}

TEST_CASE(
    "events come in their order, however few are taken at a time, and tokens are those of keys") {
  KeyWorld world;
  world.store->key_replies = {
      reply_of({}, 10),
      reply_of({news_of(ipc::KeyNewsKind::stored, 1), news_of(ipc::KeyNewsKind::evicted, 2),
                news_of(ipc::KeyNewsKind::removed, 3), news_of(ipc::KeyNewsKind::expired, 4),
                news_of(ipc::KeyNewsKind::moved, 5), news_of(ipc::KeyNewsKind::damaged, 6)},
               16)};
  auto follower = world.client->follow_keys();
  simm::KeyToken token;
  CHECK_FALSE(follower->token("key", token));
  CHECK(read(*follower, 7) == Told{{KeyChange::unsure, 0},
                                   {KeyChange::stored, 1},
                                   {KeyChange::evicted, 2},
                                   {KeyChange::removed, 3},
                                   {KeyChange::expired, 4},
                                   {KeyChange::moved, 5},
                                   {KeyChange::damaged, 6}});
  REQUIRE(follower->token("key", token));
  CHECK(token.low == ipc::key_token(5, "key").low);
  CHECK(token.high == ipc::key_token(5, "key").high);
  const auto asked = world.store->asked();
  REQUIRE(asked.size() >= 2);
  CHECK(asked[0].follower == 0);
  CHECK(asked[1].follower == 7);
  CHECK(asked[1].since == 10);
}

TEST_CASE("a loss is unsure, and the present keys are begun anew behind it") {
  KeyWorld world;
  ipc::KeyEventsReply late = reply_of({news_of(ipc::KeyNewsKind::stored, 9)}, 30);
  late.missed = 4;
  world.store->key_replies = {
      reply_of({news_of(ipc::KeyNewsKind::present, 1)}, 10, true),
      reply_of({news_of(ipc::KeyNewsKind::gap, 0), news_of(ipc::KeyNewsKind::stored, 2)}, 20, true),
      reply_of({news_of(ipc::KeyNewsKind::present, 3)}, 20, true),
      late,
      reply_of({}, 30),
      reply_of({news_of(ipc::KeyNewsKind::present, 4)}, 30, true)};
  auto follower = world.client->follow_keys({}, {true});
  CHECK(read(*follower, 11) == Told{{KeyChange::unsure, 0},
                                    {KeyChange::present, 1},
                                    {KeyChange::complete, 0},
                                    {KeyChange::unsure, 0},
                                    {KeyChange::stored, 2},
                                    {KeyChange::present, 3},
                                    {KeyChange::complete, 0},
                                    {KeyChange::unsure, 0},
                                    {KeyChange::stored, 9},
                                    {KeyChange::present, 4},
                                    {KeyChange::complete, 0}});
  std::vector<bool> begins;
  for (const auto& question : world.store->asked()) begins.push_back(question.begins);
  begins.resize(6);
  CHECK(begins == std::vector<bool>{true, false, true, false, true, false});
}

TEST_CASE("a follower that was forgotten subscribes anew, and is unsure") {
  KeyWorld world;
  ipc::KeyEventsReply forgotten;
  forgotten.status = Status::not_found;
  world.store->key_replies = {reply_of({}, 10), forgotten, reply_of({}, 50)};
  auto follower = world.client->follow_keys();
  CHECK(read(*follower, 2) == Told{{KeyChange::unsure, 0}, {KeyChange::unsure, 0}});
  CHECK(world.store->asked()[2].follower == 0);
}

TEST_CASE("a refusal is the daemon's own words, and a later call tries again") {
  KeyWorld world;
  ipc::KeyEventsReply refusal;
  refusal.status = Status::invalid_state;
  refusal.reason = "events.keys is off";
  world.store->key_replies = {refusal, reply_of({}, 10)};
  auto follower = world.client->follow_keys();
  std::array<KeyEvent, 4> events;
  const auto refused = follower->read(events, kLongMs);
  CHECK(refused.status() == Status::invalid_state);
  CHECK(refused.error().context == "events.keys is off");
  CHECK(read(*follower, 1) == Told{{KeyChange::unsure, 0}});
  CHECK(follower->read({}).status() == Status::invalid_argument);
}

TEST_CASE("a daemon that dies is unreachable, and the next one unsure") {
  KeyWorld world;
  auto follower = world.client->follow_keys();
  CHECK(read(*follower, 1) == Told{{KeyChange::unsure, 0}});
  world.die();
  std::array<KeyEvent, 4> events;
  Status status = Status::ok;
  while (status == Status::ok) status = follower->read(events, 10).status();
  CHECK(status == Status::unreachable);
  world.come_back();
  REQUIRE(world.wait_until_back());
  CHECK(read(*follower, 1) == Told{{KeyChange::unsure, 0}});
}

TEST_CASE("the end of a follower is told, and one that was moved from refuses") {
  KeyWorld world;
  {
    auto follower = world.client->follow_keys();
    KeyFollower moved = std::move(*follower);
    CHECK(read(moved, 1) == Told{{KeyChange::unsure, 0}});
    std::array<KeyEvent, 4> events;
    CHECK(follower->read(events).status() == Status::invalid_state);
  }
  const auto is_told = [&] {
    const auto asked = world.store->asked();
    return !asked.empty() && asked.back().ends && asked.back().follower == 7;
  };
  const auto end = Clock::now() + std::chrono::minutes(2);
  while (!is_told() && Clock::now() < end) std::this_thread::yield();
  CHECK(is_told());
}

TEST_CASE("C: events of keys, tokens, and wrong arguments") {
  KeyWorld world;
  world.store->key_replies = {reply_of({news_of(ipc::KeyNewsKind::evicted, 3)}, 1)};
  simm_client_options options = SIMM_CLIENT_OPTIONS_INIT;
  options.socket_path = world.options.socket_path.c_str();
  simm_client* client = nullptr;
  REQUIRE(simm_connect(&options, &client) == SIMM_OK);
  simm_key_follower* follower = nullptr;
  CHECK(simm_follow_keys(nullptr, nullptr, 0, &follower) == SIMM_INVALID_ARGUMENT);
  CHECK(simm_follow_keys(client, nullptr, 2, &follower) == SIMM_INVALID_ARGUMENT);
  CHECK(std::string(simm_last_error()).find("SIMM_FOLLOW_PRESENT") != std::string::npos);
  REQUIRE(simm_follow_keys(client, nullptr, 0, &follower) == SIMM_OK);
  simm_key_token token;
  CHECK(simm_key_follower_token(follower, "key", 3, &token) == SIMM_INVALID_STATE);
  std::array<simm_key_event, 8> events{};
  std::size_t got = 0;
  CHECK(simm_key_follower_read(follower, nullptr, 8, 0, &got) == SIMM_INVALID_ARGUMENT);
  CHECK(simm_key_follower_read(follower, events.data(), 0, 0, &got) == SIMM_INVALID_ARGUMENT);
  REQUIRE(simm_key_follower_read(follower, events.data(), 8, kLongMs, &got) == SIMM_OK);
  REQUIRE(got == 2);
  CHECK(events[0].change == SIMM_KEY_UNSURE);
  CHECK(events[1].change == SIMM_KEY_EVICTED);
  CHECK(events[1].token.low == 3);
  CHECK(events[1].bytes == 30);
  CHECK(simm_key_follower_token(follower, "key", 3, &token) == SIMM_OK);
  CHECK(token.low == ipc::key_token(5, "key").low);
  simm_key_follower_free(follower);
  simm_key_follower_free(nullptr);
  simm_close(client);
}

}  // namespace key_follower_test
