#include "daemon/cluster/membership.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/unit/daemon/cluster/membership_fixture.h"

TEST_CASE("who is found to be silent is away first, also while the clock goes on") {
  using namespace membership_test;
  const RunningClock clock{};
  Membership membership{{}, clock};
  CHECK(membership.join(1, storage("a", 1), join_of()).kind == Kind::accepted);
  CHECK(membership.join(2, storage("b", 2), join_of()).kind == Kind::accepted);
  clock.now += MembershipConfig{}.member_timeout_ns;
  CHECK(membership.heard(2, {}));
  CHECK(membership.tick(nullptr) == 1);
  CHECK(membership.members().at("storage/a").state == MemberState::away);
  CHECK(membership.owners().size() == 2);
}

TEST_CASE("a silent member is away, keeps its place for the grace, and no longer") {
  using namespace membership_test;
  Fixture f;
  CHECK(f.join(1, storage("a", 1)) == Kind::accepted);
  CHECK(f.join(2, storage("b", 2)) == Kind::accepted);
  const auto b_lives = [&](base::TimeNs ns) {
    for (base::TimeNs left = ns; left > 0; left -= 100 * kNsPerMs) {
      CHECK(f.membership.heard(2, {}));
      f.pass(100 * kNsPerMs);
    }
  };
  b_lives(900 * kNsPerMs);
  CHECK(f.state("a") == "live");
  b_lives(100 * kNsPerMs);
  CHECK(f.state("a") == "away");
  b_lives(29'900 * kNsPerMs);
  CHECK(f.owners() == 2);
  SUBCASE("it is heard again in time") {
    f.membership.heard(1, {});
    b_lives(5 * kNsPerSecond);
    CHECK(f.owners() == 2);
  }
  SUBCASE("it is not heard again") {
    b_lives(100 * kNsPerMs);
    CHECK(f.state("a") == "gone");
    CHECK(f.owners() == 1);
    // Heard after all, on its old connection: it is one who comes anew.
    f.membership.heard(1, {});
    CHECK(f.owners() == 2);
  }
}

TEST_CASE("a member whose connection ends is away at once; subscribers are forgotten") {
  using namespace membership_test;
  Fixture f;
  f.join(1, storage("a", 1));
  f.join(2, {incarnation(2), ClusterRole::node, "n"}, join_of(0));
  CHECK(f.owners() == 1);
  CHECK(f.membership.members().size() == 2);
  f.membership.disconnected(1);
  f.membership.disconnected(2);
  CHECK(f.state("a") == "away");
  CHECK(f.owners() == 1);
  CHECK(f.membership.members().size() == 1);
}

TEST_CASE("where owners are listed, nobody else owns slots, and none of them more than it may") {
  using namespace membership_test;
  const base::ManualClock clock;
  MembershipConfig config;
  config.owners = {{"a", kGiB, 2}, {"b", 4 * kGiB, 8}};
  Membership membership{config, clock};
  const auto refused = [&](const std::string& name, const Join& join, const std::string& words) {
    const JoinVerdict verdict = membership.join(9, storage(name, 9), join);
    CHECK(verdict.kind == Kind::refused);
    CHECK(verdict.reason.find("storage/" + name) != std::string::npos);
    CHECK(verdict.reason.find(words) != std::string::npos);
  };
  refused("stranger", join_of(), "not among the owners");
  refused("a", join_of(kGiB + 1), "1073741825 bytes");
  Join wide = join_of();
  wide.shards = 3;
  refused("a", wide, "3 shards");
  CHECK(membership.owners().empty());
  CHECK(membership.join(1, storage("a", 1), join_of()).kind == Kind::accepted);
  CHECK(membership.join(2, storage("b", 2), join_of(4 * kGiB)).kind == Kind::accepted);
  CHECK(membership.owners().size() == 2);
  // Who asks only may be anybody.
  const DaemonIdentity node{incarnation(3), ClusterRole::node, "n"};
  CHECK(membership.join(3, node, join_of(0)).kind == Kind::accepted);
}

TEST_CASE("who drains owns nothing, at once") {
  using namespace membership_test;
  Fixture f;
  f.join(1, storage("a", 1));
  f.join(2, storage("b", 2));
  const SlotMapPtr map = slot_map_of(1, f.membership.owners(), nullptr, nullptr);
  f.membership.drain(1);
  CHECK(f.owners() == 1);
  CHECK(f.membership.someone_drains(*map));
  f.membership.heard(1, {});
  CHECK(f.state("a") == "draining");
  f.membership.disconnected(1);
  CHECK(f.state("a") == "");
  Join draining = join_of();
  draining.draining = true;
  CHECK(f.join(3, storage("c", 3), draining) == Kind::accepted);
  CHECK(f.owners() == 1);
}

TEST_CASE("one that dies in silence while it drains does not keep its name") {
  using namespace membership_test;
  Fixture f;
  f.join(1, storage("a", 1));
  f.membership.drain(1);
  f.pass(900 * kNsPerMs);
  CHECK(f.join(2, storage("a", 2)) == Kind::refused);
  f.pass(100 * kNsPerMs);
  const JoinVerdict successor = f.membership.join(3, storage("a", 2), join_of());
  CHECK(successor.kind == Kind::accepted);
  CHECK(successor.superseded == 1);
  CHECK(f.state("a") == "live");
  CHECK(f.owners() == 1);
}

TEST_CASE("nobody is declared gone while no owner of slots can be heard") {
  using namespace membership_test;
  Fixture f;
  f.join(1, storage("a", 1));
  f.join(2, storage("b", 2));
  f.join(3, {incarnation(3), ClusterRole::node, "n"}, join_of(0));
  for (int i = 0; i < 1000; ++i) {
    f.membership.heard(3, {});  // a subscriber is no proof of a way to the owners
    f.pass(100 * kNsPerMs);
  }
  CHECK(f.owners() == 2);
  // One is back: the other has the whole grace from then on.
  for (int i = 0; i < 299; ++i) {
    f.membership.heard(1, {});
    f.membership.heard(3, {});
    f.pass(100 * kNsPerMs);
  }
  CHECK(f.owners() == 2);
  for (int i = 0; i < 2; ++i) {
    f.membership.heard(1, {});
    f.membership.heard(3, {});
    f.pass(100 * kNsPerMs);
  }
  CHECK(f.owners() == 1);
}

TEST_CASE("a manager that is cut off with a few daemons declares nobody gone") {
  using namespace membership_test;
  Fixture f;
  const auto node = [](std::uint64_t number) {
    return DaemonIdentity{incarnation(number), ClusterRole::node, "n" + std::to_string(number)};
  };
  const auto live_with = [&](std::vector<ConnectionId> heard, base::TimeNs ns) {
    for (base::TimeNs left = ns; left > 0; left -= 100 * kNsPerMs) {
      for (const ConnectionId id : heard) CHECK(f.membership.heard(id, {}));
      f.pass(100 * kNsPerMs);
    }
  };
  for (std::uint64_t i = 1; i <= 4; ++i) f.join(i, storage("s" + std::to_string(i), i));
  std::size_t left = 4;
  SUBCASE("one owner of four") {
    live_with({1}, 600 * kNsPerSecond);
  }
  SUBCASE("as many daemons as those that it does not hear, counting itself") {
    f.join(11, node(11), join_of(0));
    live_with({1, 11}, 600 * kNsPerSecond);
  }
  SUBCASE("nodes that it has lost are daemons too") {
    for (std::uint64_t i = 11; i <= 16; ++i) f.join(i, node(i), join_of(0));
    for (std::uint64_t i = 12; i <= 16; ++i) f.membership.disconnected(i);
    live_with({1, 2, 11}, 60 * kNsPerSecond);
    CHECK(f.membership.is_cut_off());
    CHECK(f.owners() == 4);
    // But not for ever, and not those that have said that they stop.
    live_with({1, 2, 11}, kLostGraces * f.config.rejoin_grace_ns);
    left = 2;
  }
  SUBCASE("nodes that have stopped are no daemons") {
    for (std::uint64_t i = 11; i <= 16; ++i) f.join(i, node(i), join_of(0));
    for (std::uint64_t i = 12; i <= 16; ++i) f.membership.drain(i);
    for (std::uint64_t i = 12; i <= 16; ++i) f.membership.disconnected(i);
    live_with({1, 2, 11}, 40 * kNsPerSecond);
    left = 2;
  }
  SUBCASE("it hears more than half") {
    for (std::uint64_t i = 11; i <= 12; ++i) f.join(i, node(i), join_of(0));
    live_with({1, 11, 12}, 40 * kNsPerSecond);
    left = 1;
  }
  CHECK(f.owners() == left);
  if (left < 4) return;
  CHECK(f.membership.is_cut_off());
  // All are heard again but one: that one has the whole grace from then on.
  live_with({1, 2, 3}, 29'900 * kNsPerMs);
  CHECK(f.owners() == 4);
  live_with({1, 2, 3}, 400 * kNsPerMs);
  CHECK(f.owners() == 3);
}

TEST_CASE("whom half of the daemons reach is not declared gone, heard or not") {
  using namespace membership_test;
  Fixture f;
  for (std::uint64_t i = 1; i <= 3; ++i) f.join(i, storage("s" + std::to_string(i), i));
  for (std::uint64_t i = 11; i <= 13; ++i) {
    f.join(i, {incarnation(i), ClusterRole::node, "n" + std::to_string(i)}, join_of(0));
  }
  const SlotMapPtr map = slot_map_of(5, f.membership.owners(), nullptr, nullptr);
  const MemberIndex silent = *map->find(incarnation(3));
  // `reaching`: so many of the nodes have connections to s3; the others say that they have none.
  const auto live_with = [&](std::size_t reaching, base::Epoch epoch, base::TimeNs ns) {
    for (base::TimeNs left = ns; left > 0; left -= 100 * kNsPerMs) {
      f.membership.heard(1, {});
      f.membership.heard(2, {});
      for (std::uint64_t i = 11; i <= 13; ++i) {
        MemberSet reached;
        reached.set(silent, i - 11 < reaching);
        f.membership.heard(i, {0, epoch, 0, 0, false, reached});
      }
      f.clock.advance_ns(100 * kNsPerMs);
      f.membership.tick(map.get());
    }
  };
  live_with(2, 5, 300 * kNsPerSecond);
  CHECK(f.state("s3") == "away");
  CHECK(f.owners() == 3);
  SUBCASE("most of them have lost it: it has the whole grace from then on") {
    live_with(1, 5, 28 * kNsPerSecond);
    CHECK(f.owners() == 3);
    live_with(1, 5, 3 * kNsPerSecond);
    CHECK(f.owners() == 2);
  }
  SUBCASE("they speak of another map") {
    live_with(3, 4, 31 * kNsPerSecond);
    CHECK(f.owners() == 2);
  }
}

TEST_CASE("a load counts until the next one, also while its member joins again on its connection") {
  using namespace membership_test;
  Fixture f;
  const DaemonIdentity member = storage("a", 1);
  const auto load = [&] { return f.membership.members().at("storage/a").last; };
  f.join(1, member);
  CHECK(load().load_ms == 0);
  Heartbeat full;
  full.load_ms = 7;
  full.load.objects = 5;
  f.membership.heard(1, full);
  Heartbeat brief;
  brief.objects = 6;
  f.membership.heard(1, brief);
  CHECK(load().objects == 6);
  CHECK(load().load_ms == 7);
  CHECK(load().load.objects == 5);
  f.join(1, member);
  CHECK(load().load_ms == 7);
  // On a new one it says the whole again.
  f.membership.disconnected(1);
  CHECK(f.join(2, member) == Kind::accepted);
  CHECK(load().load_ms == 0);
}

TEST_CASE("a manager that was stopped for long blames nobody") {
  using namespace membership_test;
  Fixture f;
  f.join(1, storage("a", 1));
  f.join(2, storage("b", 2));
  f.stop_for(100 * kNsPerSecond);
  f.membership.heard(1, {});
  f.pass(50 * kNsPerMs);
  CHECK(f.owners() == 2);
  f.membership.heard(2, {});
  CHECK(f.state("a") == "live");
  CHECK(f.state("b") == "live");
}

TEST_CASE("restored members have the grace to come back, as they are or restarted") {
  using namespace membership_test;
  Fixture before;
  before.join(1, storage("a", 1));
  before.join(2, storage("b", 2));
  before.join(3, storage("c", 3));
  const SlotMapPtr map = slot_map_of(5, before.membership.owners(), nullptr, nullptr);

  Fixture f;
  f.membership.restore(*map);
  f.membership.restore({storage("a", 77)});
  CHECK(f.membership.owners() == map->members());
  CHECK(f.join(2, storage("b", 22)) == Kind::refused);
  f.pass(60 * kNsPerSecond);
  CHECK(f.owners() == 3);
  CHECK(f.join(1, storage("a", 1)) == Kind::accepted);
  CHECK(f.join(2, storage("b", 22)) == Kind::accepted);
  CHECK(f.join(9, storage("a", 77)) == Kind::refused_for_ever);
  for (int i = 0; i < 310; ++i) {
    f.membership.heard(1, {});
    f.membership.heard(2, {});
    f.pass(100 * kNsPerMs);
  }
  CHECK(f.owners() == 2);
  CHECK(f.state("c") == "");
}

TEST_CASE("a member that recovers keeps its slots for however long it is heard") {
  using namespace membership_test;
  Fixture f;
  f.join(1, storage("a", 1));
  f.join(2, storage("b", 2));
  const std::vector<MapMember> owners = f.membership.owners();
  const SlotMapPtr map = slot_map_of(5, owners, nullptr, nullptr);
  Fixture restarted;
  Fixture* manager = &f;
  SUBCASE("the manager lives") {
    f.membership.disconnected(1);
  }
  SUBCASE("the manager is restarted meanwhile") {
    restarted.membership.restore(*map);
    CHECK(restarted.join(2, storage("b", 2)) == Kind::accepted);
    manager = &restarted;
  }
  Join recovering = join_of();
  recovering.recovering = true;
  CHECK(manager->join(3, storage("a", 1), recovering) == Kind::accepted);
  Heartbeat news;
  news.recovering = true;
  for (int i = 0; i < 1000; ++i) {
    CHECK(manager->membership.heard(3, news));
    CHECK(manager->membership.heard(2, {}));
    manager->pass(100 * kNsPerMs);
  }
  CHECK(manager->membership.owners() == owners);
}

TEST_CASE("a member without slots gets some when it has recovered, and not before") {
  using namespace membership_test;
  Fixture f;
  f.join(1, storage("a", 1));
  Join recovering = join_of();
  recovering.recovering = true;
  CHECK(f.join(2, storage("b", 2), recovering) == Kind::accepted);
  Heartbeat news;
  news.recovering = true;
  f.membership.heard(2, news);
  CHECK(f.owners() == 1);
  SUBCASE("it has recovered") {
    f.membership.heard(2, {});
  }
  SUBCASE("a map that the manager did not know has slots of it") {
    Fixture before;
    before.join(1, storage("b", 2));
    f.membership.restore(*slot_map_of(5, before.membership.owners(), nullptr, nullptr));
  }
  CHECK(f.owners() == 2);
}

TEST_CASE("a member may ask for more than the grace, and every manager keeps to it") {
  using namespace membership_test;
  Fixture f;
  Join large = join_of();
  std::uint64_t kept_ms = 0;
  SUBCASE("for some minutes") {
    kept_ms = large.grace_ms = 120'000;
  }
  SUBCASE("for less than the manager gives anyway") {
    large.grace_ms = 1;
    kept_ms = 30'000;
  }
  SUBCASE("for ever") {
    large.grace_ms = ~std::uint32_t{0};
    kept_ms = kMemberGraceMsMax;
  }
  f.join(1, storage("a", 1), large);
  f.join(2, storage("b", 2));
  // Another manager takes over, and knows the map alone.
  Fixture next;
  next.membership.restore(*slot_map_of(5, f.membership.owners(), nullptr, nullptr));
  CHECK(next.join(2, storage("b", 2)) == Kind::accepted);
  next.pass(0);
  const auto b_lives_ms = [&](std::uint64_t ms) {
    for (; ms > 0; ms -= 100) {
      CHECK(next.membership.heard(2, {}));
      next.pass(100 * kNsPerMs);
    }
  };
  b_lives_ms(kept_ms - 100);
  CHECK(next.owners() == 2);
  b_lives_ms(200);
  CHECK(next.owners() == 1);
}

TEST_CASE("what a member says about itself is checked, and the tables have an end") {
  using namespace membership_test;
  Fixture f;
  f.config.daemons_max = 3;
  Membership small(f.config, f.clock);
  const auto verdict = [&](const Join& join) { return small.join(1, storage("a", 1), join).kind; };
  Join bad = join_of();
  bad.port = 0;
  CHECK(verdict(bad) == Kind::refused_for_ever);
  bad = join_of(kWeightBytesMax + 1);
  CHECK(verdict(bad) == Kind::refused_for_ever);
  CHECK(small.join(1, {incarnation(1), ClusterRole::manager, "m"}, join_of()).kind ==
        Kind::refused_for_ever);
  CHECK(small.join(1, {{}, ClusterRole::storage, "m"}, join_of()).kind == Kind::refused_for_ever);
  for (std::uint64_t i = 1; i <= 3; ++i) {
    CHECK(small.join(i, storage("s" + std::to_string(i), i), join_of()).kind == Kind::accepted);
  }
  CHECK(small.join(4, storage("s4", 4), join_of()).kind == Kind::refused);
  // The limit of incarnations that are remembered.
  for (std::uint64_t i = 0; i <= kRetiredMax + 10; ++i) {
    small.disconnected(i == 0 ? 1 : 100 + i - 1);
    for (int turn = 0; turn < 4; ++turn) {
      f.clock.advance_ns(f.config.member_timeout_ns / 4);
      small.tick(nullptr);
    }
    REQUIRE(small.join(100 + i, storage("s1", 100 + i), join_of()).kind == Kind::accepted);
  }
  CHECK(small.retired().size() == kRetiredMax);
  CHECK(small.retired().back() == storage("s1", 100 + kRetiredMax + 9));
}

TEST_CASE("nodes that start anew push no storage daemon out of those that are remembered") {
  using namespace membership_test;
  Fixture f;
  std::vector<DaemonIdentity> retired = {storage("s1", 1)};
  for (std::uint64_t i = 0; i < 2 * kRetiredMax; ++i) {
    retired.push_back({incarnation(100 + i), ClusterRole::node, "n" + std::to_string(i)});
  }
  f.membership.restore(retired);
  CHECK(f.membership.retired().size() == kRetiredMax);
  CHECK(f.membership.retired().front() == storage("s1", 1));
  CHECK(f.membership.retired().back() == retired.back());
  // Its place was another one's before all these nodes came.
  CHECK(f.join(1, storage("s1", 1)) == Kind::refused_for_ever);
}

TEST_CASE("there are never more owners than a map holds, whichever way they come") {
  using namespace membership_test;
  Fixture f;
  CHECK(f.join(1, storage("x", 5000)) == Kind::accepted);
  CHECK(f.join(2, storage("y", 5001)) == Kind::accepted);
  CHECK(f.join(3, storage("z", 5002)) == Kind::accepted);
  CHECK(f.join(4, storage("w", 5003), join_of(0)) == Kind::accepted);
  f.membership.drain(2);
  // The others are heard, z is not.
  for (const base::TimeNs silence_ns : {f.config.member_timeout_ns, f.config.rejoin_grace_ns}) {
    f.clock.advance_ns(silence_ns);
    for (const ConnectionId id : {1u, 2u, 4u}) CHECK(f.membership.heard(id, {}));
    f.membership.tick(nullptr);
  }
  CHECK(f.state("z") == "gone");
  f.membership.restore(*slot_map_of(7, members(kMembersMax), nullptr, nullptr));
  CHECK(f.owners() == kMembersMax);
  // One that drained, one that was gone, one that had no slots, a new one.
  CHECK(f.join(2, storage("y", 5001)) == Kind::refused);
  CHECK(f.membership.heard(3, {}));
  CHECK(f.state("z") == "gone");
  CHECK(f.join(4, storage("w", 5003)) == Kind::refused);
  CHECK(f.join(5, storage("v", 5004)) == Kind::refused);
  CHECK(f.owners() == kMembersMax);
  CHECK(build_slot_map(8, f.membership.owners(), nullptr, nullptr).has_value());
  // Those who are there go on.
  CHECK(f.join(6, storage("x", 5000), join_of(2 * kGiB)) == Kind::accepted);
  CHECK(f.owners() == kMembersMax);
}

TEST_CASE("random membership histories against a model") {
  using namespace membership_test;
  const std::uint64_t seed = seed_of_run();
  INFO("repeat with: SIMM_SEED=" << seed << " unit_cluster -tc='random membership*'");
  std::mt19937_64 random(seed);
  // The model: of each name, who holds it, over which connection, when it was heard, since when it
  // is away. More owners than names are heard all the time, so the manager is never cut off.
  struct Holder {
    std::uint64_t number = 0;
    ConnectionId connection = 0;
    base::TimeNs heard_ns = 0;
    base::TimeNs away_ns = 0;  // 0: live
    bool draining = false;
    bool gone = false;
    base::TimeNs broken_ns = 0;
  };
  for (int run = 0; run < 50; ++run) {
    Fixture f;
    std::map<std::string, Holder> model;
    std::set<std::pair<std::uint64_t, std::string>> retired;
    std::uint64_t next_connection = 1;
    std::uint64_t next_number = 1;
    std::map<std::string, std::uint64_t> always;
    for (std::uint64_t number = 999'990; number < 999'995; ++number) {
      always["always" + std::to_string(number)] = number;
    }
    for (const auto& [name, number] : always) f.join(next_connection++, storage(name, number));
    const auto hear_them = [&] {
      for (ConnectionId id = 1; id <= always.size(); ++id) f.membership.heard(id, {});
    };
    const auto expire = [&] {
      const base::TimeNs now = f.clock.now_ns();
      for (auto at = model.begin(); at != model.end();) {
        Holder& h = at->second;
        const bool live = h.away_ns == 0 && !h.draining && !h.gone;
        if (live && now - h.heard_ns >= f.config.member_timeout_ns) h.away_ns = now;
        if (h.away_ns != 0 && now - h.away_ns >= f.config.rejoin_grace_ns) {
          h.gone = true;
          h.away_ns = 0;
        }
        at = h.gone && h.connection == 0 ? model.erase(at) : std::next(at);
      }
    };
    for (int step = 0; step < 400; ++step) {
      hear_them();
      const std::string name = "m" + std::to_string(random() % 4);
      const auto held = model.find(name);
      const auto action = random() % 7;
      if (action <= 1) {  // somebody joins: a new one, the holder again, or a retired one
        std::uint64_t number = next_number++;
        if (held != model.end() && random() % 3 == 0) number = held->second.number;
        if (!retired.empty() && random() % 5 == 0) number = retired.begin()->first;
        const bool is_retired = retired.count({number, name}) > 0;
        const bool has_namesake = std::any_of(model.begin(), model.end(), [&](const auto& other) {
          return other.first != name && other.second.number == number;
        });
        const bool is_held = held != model.end() && held->second.number != number &&
                             held->second.connection != 0 && held->second.away_ns == 0 &&
                             !held->second.gone &&
                             f.clock.now_ns() - held->second.heard_ns < f.config.member_timeout_ns;
        const bool was_cut = held != model.end() && held->second.number != number &&
                             held->second.connection == 0 && !held->second.gone &&
                             f.clock.now_ns() - held->second.broken_ns < f.config.member_timeout_ns;
        const bool blocked = has_namesake || is_held || was_cut;
        const Kind kind = f.join(next_connection, storage(name, number));
        REQUIRE(kind ==
                (is_retired ? Kind::refused_for_ever : (blocked ? Kind::refused : Kind::accepted)));
        if (kind == Kind::accepted) {
          if (held != model.end() && held->second.number != number) {
            retired.emplace(held->second.number, name);
          }
          model[name] = {number, next_connection, f.clock.now_ns(), 0, false, false};
        }
        ++next_connection;
      } else if (held != model.end() && held->second.connection != 0) {
        Holder& h = held->second;
        if (action <= 3) {
          REQUIRE(f.membership.heard(h.connection, {}));
          h.heard_ns = f.clock.now_ns();
          h.away_ns = 0;
          h.gone = false;
        } else if (action == 4) {
          f.membership.disconnected(h.connection);
          h.connection = 0;
          h.broken_ns = f.clock.now_ns();
          if (h.draining || h.gone) {
            model.erase(held);
          } else if (h.away_ns == 0) {
            h.away_ns = f.clock.now_ns();
          }
        } else if (action == 5) {
          f.membership.drain(h.connection);
          h = {h.number, h.connection, f.clock.now_ns(), 0, true, false};
        }
      }
      base::TimeNs left = random() % (random() % 4 == 0 ? 9'000 * kNsPerMs : 300 * kNsPerMs);
      do {
        const base::TimeNs step_ns = std::min<base::TimeNs>(left, 400 * kNsPerMs);
        left -= step_ns;
        f.clock.advance_ns(step_ns);
        hear_them();
        f.membership.tick(nullptr);
        expire();
      } while (left > 0);
      std::map<std::string, std::uint64_t> expected = always;
      for (const auto& [key, h] : model) {
        if (!h.draining && !h.gone) expected[key] = h.number;
      }
      std::map<std::string, std::uint64_t> owners;
      for (const MapMember& owner : f.membership.owners()) {
        owners[owner.identity.name] = owner.identity.incarnation.high;
      }
      REQUIRE(owners == expected);
    }
  }
}
