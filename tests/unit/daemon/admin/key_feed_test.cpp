#include "daemon/admin/key_feed.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/base/hash.h"
#include "daemon/base/manual_clock.h"
#include "daemon/control/asio.h"

namespace key_feed_test {

using namespace simm;
using nlohmann::json;

struct Page {
  json head;
  std::vector<std::string> lines;

  // The lines' words of that number, counted from 0.
  [[nodiscard]] std::vector<std::string> words(int number) const {
    std::vector<std::string> all;
    for (const std::string& line : lines) {
      std::istringstream text(line);
      std::string word;
      for (int i = 0; i <= number; ++i) text >> word;
      all.push_back(word);
    }
    return all;
  }
};

struct World {
  explicit World(base::KeyEventsMode mode = base::KeyEventsMode::hashes, std::size_t shards = 1)
      : taps(shards), limits(counters) {
    config.tenants.emplace_back().name = "blue";
    tenants.emplace(config, base::KeyHasher(7));
    control::KeyFeed::Setup setup{io, clock, random, counters, limits, *tenants, mode, {}};
    for (base::KeyEventTap& tap : taps) setup.shards.push_back({&tap, nullptr});
    feed.emplace(std::move(setup));
  }

  Expected<std::string> ask(const json& question) { return feed->answer(question.dump()); }
  Page page(const json& question) {
    const auto text = ask(question);
    REQUIRE_MESSAGE(text.has_value(), (text ? "" : text.error().context));
    std::istringstream lines(*text);
    std::string line;
    REQUIRE(std::getline(lines, line));
    Page page{json::parse(line), {}};
    while (std::getline(lines, line)) page.lines.push_back(line);
    return page;
  }
  Page read_on(const Page& last) {
    return page({{"subscriber", last.head["subscriber"]},
                 {"since", last.head["next"]},
                 {"presents", last.head["presents"]}});
  }
  [[nodiscard]] const control::Tenant& tenant_of(const std::string& name) const {
    const auto& all = tenants->tenants();
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
    REQUIRE(found != all.end());
    return *found;
  }
  [[nodiscard]] base::KeyEvent event_of(std::uint64_t key, const std::string& tenant = "default",
                                        const std::string& name_space = "") const {
    base::KeyEvent event{0,
                         {key, 0},
                         tenant_of(tenant).id,
                         tenants->namespace_id(name_space),
                         key * 10,
                         base::KeyEventKind::stored};
    event.token = {key, 7};
    return event;
  }
  void tell(std::uint64_t key, std::size_t shard = 0, const std::string& tenant = "default",
            const std::string& name_space = "") {
    taps[shard].tell(event_of(key, tenant, name_space));
  }
  // As a shard does: these keys, then where its walk stopped.
  void walk(std::size_t shard, const std::vector<base::KeyEvent>& found, std::uint32_t next = 0) {
    const base::KeyWalk* const walk = taps[shard].walk();
    REQUIRE(walk != nullptr);
    for (base::KeyEvent event : found) {
      event.kind = base::KeyEventKind::present;
      event.walk = walk->number;
      REQUIRE(taps[shard].tell_if_room(event));
    }
    REQUIRE(taps[shard].end_walk(next));
  }
  ipc::KeyEventsReply follow(const ipc::FollowKeys& question, std::uint64_t session = 1,
                             const std::string& tenant = "default") {
    return feed->follow(session, tenant_of(tenant), question);
  }
  // Lets the timer come, which is of real time.
  void let_look() { io.run_one(); }

  boost::asio::io_context io;
  base::ManualClock clock;
  base::SeededRandom random{1};
  base::Config config = base::default_config();
  base::CounterSet counters;
  std::vector<base::KeyEventTap> taps;
  base::LimitCounters limits;
  std::optional<control::TenantRules> tenants;
  std::optional<control::KeyFeed> feed;
};

TEST_CASE("events of all shards are told once to each follower, and those of a key in order") {
  World world(base::KeyEventsMode::hashes, 2);
  Page a = world.page(json::object());
  world.tell(1, 0);
  Page b = world.page(json::object());  // from here on
  world.tell(2, 1);
  world.tell(3, 0);
  a = world.read_on(a);
  CHECK(a.words(4) == std::vector<std::string>{"10", "30", "20"});
  CHECK(a.words(2) == std::vector<std::string>{"stored", "stored", "stored"});
  CHECK(a.words(3).front() == "00000000000000000000000000000001");
  CHECK(a.head["is_last"] == true);
  b = world.read_on(b);
  CHECK(b.lines.size() == 2);
  CHECK(world.read_on(a).lines.empty());
  CHECK(a.head["life"] == b.head["life"]);
  CHECK(world.counters.value("key_events.published") == 3);
  CHECK(world.counters.value("key_events.subscribers") == 2);
}

TEST_CASE("nobody follows: no shard tells, and a later follower hears nothing of before") {
  World world;
  CHECK_FALSE(world.taps[0].on());
  const Page page = world.page(json::object());
  CHECK(world.taps[0].on());
  world.tell(1);
  CHECK(world.ask({{"subscriber", page.head["subscriber"]}, {"end", true}}).has_value());
  CHECK_FALSE(world.taps[0].on());
  world.tell(2);
  Page next = world.page(json::object());
  CHECK(next.lines.empty());
  next = world.read_on(next);
  CHECK(next.lines.empty());
  CHECK(next.head["missed"] == 0);
}

TEST_CASE("a follower of one tenant or namespace gets no line of another") {
  World world;
  Page blue = world.page({{"tenant", "blue"}});
  Page space = world.page({{"tenant", "blue"}, {"namespace", "space"}});
  Page usual = world.page({{"namespace", ""}});
  world.tell(1);
  world.tell(2, 0, "blue");
  world.tell(3, 0, "blue", "space");
  world.tell(4, 0, "default", "space");
  CHECK((blue = world.read_on(blue)).words(4) == std::vector<std::string>{"20", "30"});
  CHECK(blue.head["tenants"].size() == 1);
  CHECK(world.read_on(space).words(4) == std::vector<std::string>{"30"});
  CHECK(world.read_on(usual).words(4) == std::vector<std::string>{"10", "20"});
}

TEST_CASE("what a shard could not tell, and what a follower came too late for, are gaps") {
  World world;
  Page fast = world.page(json::object());
  const Page slow = fast;
  const std::uint64_t fits = base::KeyEventTap::kKeyEventsAhead;
  for (std::uint64_t key = 1; key <= fits + 5; ++key) world.tell(key);
  std::uint64_t events = 0;
  std::uint64_t lost = 0;
  do {
    fast = world.read_on(fast);
    CHECK(fast.lines.size() <= control::KeyFeed::kKeyEventsPageMax);
    const std::vector<std::string> kinds = fast.words(2);
    const std::vector<std::string> counts = fast.words(4);
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      if (kinds[i] != "gap") {
        ++events;
      } else {
        lost += std::stoull(counts[i]);
      }
    }
  } while (fast.head["is_last"] == false);
  CHECK(events == fits);
  CHECK(lost == 5);
  CHECK(world.counters.value("key_events.lost") == 5);
  CHECK(world.counters.value("key_events.gaps") == 1);
  for (std::uint64_t key = 0; key < control::KeyFeed::kKeyEventsKept; ++key) {
    world.tell(key);
    if (key % 1000 == 0) (void)world.read_on(fast);
  }
  const Page late = world.read_on(slow);
  CHECK(late.head["missed"] == fits + 1);
  CHECK(world.counters.value("key_events.overruns") == 1);
  CHECK(late.lines.size() == control::KeyFeed::kKeyEventsPageMax);
}

TEST_CASE("there are so many followers; who does not read is forgotten, and told so") {
  World world;
  std::vector<Page> pages;
  for (std::uint32_t i = 0; i < base::kKeySubscribersMax; ++i) {
    pages.push_back(world.page(json::object()));
  }
  auto refused = world.ask(json::object());
  CHECK(refused.status() == Status::out_of_memory);
  CHECK(world.counters.value("limit.key_subscribers.reached") == 1);
  world.clock.advance_ns(control::KeyFeed::kKeyPatienceNs - 1);
  (void)world.read_on(pages[0]);
  world.clock.advance_ns(1);
  world.let_look();
  CHECK(world.counters.value("key_events.subscribers") == 1);
  CHECK(world.taps[0].on());
  const auto forgotten = world.ask({{"subscriber", pages[1].head["subscriber"]}, {"since", 0}});
  CHECK(forgotten.status() == Status::not_found);
  CHECK(world.ask(json::object()).has_value());
  world.clock.advance_ns(control::KeyFeed::kKeyPatienceNs);
  world.let_look();
  CHECK_FALSE(world.taps[0].on());
  CHECK(world.counters.value("key_events.subscribers") == 0);
}

TEST_CASE("off, and questions that make no sense") {
  World off(base::KeyEventsMode::off);
  const auto refused = off.ask(json::object());
  CHECK(refused.status() == Status::invalid_state);
  CHECK(refused.error().context.find("events.keys") != std::string::npos);
  CHECK_FALSE(off.taps[0].on());
  World world;
  for (const char* wrong : {"", "x", "[]", "3", "null", "{", R"({"subscriber": -1})",
                            R"({"subscriber": "1"})", R"({"since": 1.5})", R"({"tenant": 7})",
                            R"({"namespace": null})", R"({"end": 1})", "\xff\xfe"}) {
    CAPTURE(wrong);
    CHECK(world.feed->answer(wrong).status() == Status::invalid_argument);
  }
  const auto unknown = world.ask({{"tenant", "nobody"}});
  CHECK(unknown.status() == Status::invalid_argument);
  CHECK(unknown.error().context.find("\"nobody\"") != std::string::npos);
  CHECK(world.ask({{"subscriber", 5}}).status() == Status::not_found);
  Page page = world.page(json::object());
  // A number that was never reached.
  page = world.page({{"subscriber", page.head["subscriber"]}, {"since", ~std::uint64_t{0}}});
  CHECK(page.head["missed"] == 0);
}

// What a session has heard of: low halves of tokens.
std::vector<std::uint64_t> tokens_of(const ipc::KeyEventsReply& reply) {
  std::vector<std::uint64_t> all;
  for (const ipc::KeyNews& news : reply.news) all.push_back(news.token.low);
  return all;
}

TEST_CASE(
    "present keys come between the events, page by page from each shard, then they are whole") {
  World world(base::KeyEventsMode::hashes, 2);
  Page page = world.page({{"begin", true}, {"tenant", "blue"}});
  CHECK(page.head["is_complete"] == false);
  world.let_look();
  CHECK(world.taps[0].walk()->has_tenant);
  CHECK(world.taps[0].walk()->tenant == world.tenant_of("blue").id);
  CHECK_FALSE(world.taps[0].walk()->has_name_space);
  CHECK(world.taps[0].walk()->next == 0);
  world.tell(1, 0, "blue");
  // One of another tenant goes to nobody, even if a shard would tell it.
  world.walk(0, {world.event_of(2, "blue"), world.event_of(99)}, 40);
  world.tell(3, 0, "blue");
  page = world.read_on(page);
  CHECK(page.words(4) == std::vector<std::string>{"10", "20", "30"});
  CHECK(page.words(2) == std::vector<std::string>{"stored", "present", "stored"});
  CHECK(page.head["is_complete"] == false);
  // Whoever has not said that it has read them gets them again, and no walk goes on.
  world.let_look();
  CHECK(world.taps[0].walk() == nullptr);
  CHECK(world.page({{"subscriber", page.head["subscriber"]}, {"since", page.head["next"]}})
            .words(4) == std::vector<std::string>{"20"});
  page = world.read_on(page);
  CHECK(page.lines.empty());
  world.let_look();
  CHECK(world.taps[0].walk()->next == 40);
  world.walk(0, {world.event_of(4, "blue")});
  page = world.read_on(page);
  page = world.read_on(page);
  world.let_look();
  CHECK(world.taps[0].walk() == nullptr);
  CHECK(world.taps[1].walk()->next == 0);
  world.walk(1, {world.event_of(5, "blue")});
  page = world.read_on(page);
  CHECK(page.words(4) == std::vector<std::string>{"50"});
  CHECK(page.head["is_complete"] == true);
  CHECK(world.read_on(page).head["is_complete"] == true);
  world.let_look();
  CHECK(world.taps[0].walk() == nullptr);
}

TEST_CASE("present keys of a follower that left, began anew or missed events go to nobody") {
  World world;
  Page page = world.page({{"begin", true}});
  world.let_look();
  const json id = page.head["subscriber"];
  page = world.page({{"subscriber", id}, {"since", page.head["next"]}, {"begin", true}});
  world.walk(0, {world.event_of(1)});
  page = world.read_on(page);
  CHECK(page.lines.empty());
  CHECK(page.head["is_complete"] == false);
  world.let_look();
  world.walk(0, {world.event_of(2)});
  const Page kept = page;
  for (std::uint64_t key = 0; key < control::KeyFeed::kKeyEventsKept + 10; ++key) {
    world.tell(key);
    if (key % 1000 == 0) (void)world.page({{"subscriber", id}, {"since", page.head["next"]}});
  }
  page = world.read_on(kept);
  CHECK(page.head["missed"] != 0);
  const std::vector<std::string> kinds = page.words(2);
  CHECK(std::count(kinds.begin(), kinds.end(), "present") == 0);
  CHECK(page.head["is_complete"] == false);
}

TEST_CASE("walks of several followers come in turn, one page in each look") {
  World world;
  std::vector<Page> pages;
  for (int i = 0; i < 3; ++i) pages.push_back(world.page({{"begin", true}}));
  std::vector<std::size_t> reads(3, 0);
  for (std::uint64_t round = 0; round < 9; ++round) {
    world.let_look();
    world.walk(0, {world.event_of(round)}, 7);
    for (std::size_t i = 0; i < pages.size(); ++i) {
      pages[i] = world.read_on(pages[i]);
      reads[i] += pages[i].lines.size();
      pages[i] = world.read_on(pages[i]);
    }
  }
  CHECK(reads == std::vector<std::size_t>{3, 3, 3});
}

TEST_CASE("a session follows one namespace of its own tenant, by tokens") {
  World world;
  ipc::KeyEventsReply reply = world.follow({1, 0, "space"}, 5, "blue");
  REQUIRE(reply.status == Status::ok);
  CHECK(reply.request_id == 1);
  CHECK(reply.salt != 0);
  world.tell(1);
  world.tell(2, 0, "blue");
  world.tell(3, 0, "default", "space");
  world.tell(4, 0, "blue", "space");
  ipc::FollowKeys next{2, reply.follower, "", reply.next, reply.presents, true};
  const ipc::KeyEventsReply news = world.follow(next, 5, "blue");
  CHECK(tokens_of(news) == std::vector<std::uint64_t>{4});
  CHECK(news.salt == reply.salt);
  world.let_look();
  CHECK(world.taps[0].walk()->name_space == world.tenants->namespace_id("space"));
  CHECK(world.taps[0].walk()->tenant == world.tenant_of("blue").id);
  world.walk(0, {world.event_of(6, "blue", "space"), world.event_of(7, "default", "space"),
                 world.event_of(8, "blue")});
  next = {3, reply.follower, "", news.next, news.presents};
  const ipc::KeyEventsReply present = world.follow(next, 5, "blue");
  CHECK(tokens_of(present) == std::vector<std::uint64_t>{6});
  CHECK(present.is_complete);
  // A follower is its session's alone.
  CHECK(world.follow(next, 6, "blue").status == Status::not_found);
  CHECK(world.ask({{"subscriber", reply.follower}}).status() == Status::not_found);
  next.ends = true;
  CHECK(world.follow(next, 5, "blue").status == Status::ok);
  CHECK_FALSE(world.taps[0].on());
}

TEST_CASE("a session's end ends what it followed, and a tenant's followers leave room for others") {
  World world;
  for (std::uint32_t i = 0; i < base::kKeyFollowersMax; ++i) {
    REQUIRE(world.follow({1, 0, ""}, 1 + i % 2, "blue").status == Status::ok);
  }
  const ipc::KeyEventsReply refused = world.follow({9, 0, ""}, 3, "blue");
  CHECK(refused.status == Status::out_of_memory);
  CHECK(refused.request_id == 9);
  CHECK(world.counters.value("limit.key_subscribers.reached") == 1);
  CHECK(world.follow({1, 0, ""}, 4).status == Status::ok);
  CHECK(world.ask(json::object()).has_value());
  world.feed->leave_all(1);
  CHECK(world.counters.value("key_events.subscribers") == base::kKeyFollowersMax / 2 + 2);
  CHECK(world.follow({1, 0, ""}, 3, "blue").status == Status::ok);
  World off(base::KeyEventsMode::off);
  CHECK(off.follow({1, 0, ""}).status == Status::invalid_state);
  CHECK(off.follow({1, 0, ""}).reason.find("events.keys") != std::string::npos);
}

TEST_CASE("a session that reads too slowly is told how many it missed") {
  World world;
  const ipc::KeyEventsReply first = world.follow({1, 0, ""});
  const ipc::FollowKeys fast{2, world.follow({1, 0, ""}).follower, ""};
  const std::uint64_t told = control::KeyFeed::kKeyEventsKept + 10;
  for (std::uint64_t key = 0; key < told; ++key) {
    world.tell(key);
    if (key % 1000 == 0) (void)world.follow(fast);
  }
  const ipc::KeyEventsReply late = world.follow({2, first.follower, "", first.next});
  CHECK(late.missed == 10);
  CHECK(late.news.size() == ipc::kKeyNewsMax);
  CHECK_FALSE(late.is_last);
}

}  // namespace key_feed_test
