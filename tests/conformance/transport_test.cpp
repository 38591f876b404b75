// What every Transport promises (daemon/transport/transport.h), in fixed scenes. Random ones are in
// transport_random_test.cpp.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>

#include "tests/conformance/transport_actors.h"

namespace transport_test {

using namespace conformance;
using simm::ipc::Opcode;

// Runs a scene on every registered transport.
template <typename Scene>
void on_each_transport(Scene&& scene) {
  REQUIRE_FALSE(chosen_transports().empty());
  for (const TransportFactory& factory : chosen_transports()) {
    INFO("transport: " << factory.name);
    Stage stage(factory);
    scene(stage);
  }
}

std::string key(int i) {
  return "key-" + std::to_string(i);
}

// Stores `bytes` through the transport, from the end of the region.
void store(Stage& stage, const std::string& name, const std::vector<std::byte>& bytes) {
  const Wish wish{name, TransportWorld::kRegionBytes - bytes.size(), bytes.size()};
  fill(*stage.world, wish, bytes);
  const RequestToken token = stage.requester.must_post(Opcode::put, {wish});
  stage.requester.settle();
  REQUIRE(stage.requester.at(token).was_replied);
  CHECK(stage.requester.at(token).replies[0].status == Status::ok);
  stage.requester.forget();
}

TEST_CASE("transport: bytes of every length go in and come back") {
  on_each_transport([](Stage& stage) {
    constexpr std::uint64_t kMiB = 1024 * 1024;
    constexpr std::uint64_t kLengths[] = {
        1, 7, 4095, 4096, 4097, kMiB / 8, kMiB / 4 - 1, kMiB / 4 + 1, kMiB + 13, 5 * kMiB + 1};
    for (const std::uint64_t length : kLengths) {
      CAPTURE(length);
      const auto bytes = pattern(length, length);
      store(stage, "object", bytes);
      REQUIRE(stage.server.objects.at("object") == bytes);
      const RequestToken token = stage.requester.must_post(Opcode::get, {{"object", 64, length}});
      stage.requester.settle();
      const auto& asked = stage.requester.at(token);
      CHECK(asked.replies[0].status == Status::ok);
      CHECK(asked.replies[0].bytes == length);
      CHECK(asked.slices[0] == bytes);  // the data was there before the reply
      stage.requester.forget();
    }
  });
}

TEST_CASE("transport: a shorter object leaves the rest of the slice alone") {
  on_each_transport([](Stage& stage) {
    const auto bytes = pattern(1, 1000);
    store(stage, "short", bytes);
    const Wish wish{"short", 4096, 3000};
    const auto before = pattern(2, 3000);
    fill(*stage.world, wish, before);
    const RequestToken token = stage.requester.must_post(Opcode::get, {wish});
    stage.requester.settle();
    const auto& got = stage.requester.at(token).slices[0];
    CHECK(std::equal(bytes.begin(), bytes.end(), got.begin()));
    CHECK(std::equal(before.begin() + 1000, before.end(), got.begin() + 1000));
  });
}

TEST_CASE("transport: what a request says arrives unchanged") {
  on_each_transport([](Stage& stage) {
    auto& header = stage.requester.header;
    header.put_mode = simm::ipc::PutMode::replace;
    header.exact_size = true;
    header.shared_read = true;
    header.tenant = {11};
    header.name_space = {12};
    header.epoch = 13;
    header.deadline_ns = ~std::uint64_t{0} / 2;
    header.ttl_ms = 15;
    header.lease_ms = 16;
    const RequestToken token =
        stage.requester.must_post(Opcode::exists, {{"one", 0, 0}, {std::string("t\0o", 3), 0, 0}});
    stage.server.hold_requests = true;
    while (stage.server.requests == 0) stage.turn();
    const auto& seen = stage.server.headers[0];
    CHECK(seen.opcode == Opcode::exists);
    CHECK(seen.put_mode == simm::ipc::PutMode::replace);
    CHECK(seen.exact_size);
    CHECK(seen.shared_read);
    CHECK(seen.tenant.value == 11);
    CHECK(seen.name_space.value == 12);
    CHECK(seen.epoch == 13);
    CHECK(seen.ttl_ms == 15);
    CHECK(seen.lease_ms == 16);
    REQUIRE(stage.server.pages_seen[0].size() == 2);
    const PageRequest& page = stage.server.pages_seen[0][1];
    CHECK(page.hash == simm::base::KeyHash{token + 1, ~token});
    CHECK(page.group == 77);
    CHECK(page.depth == 1);
    CHECK(page.object_offset == 3);
    CHECK(std::string(page.key, page.key_bytes) == std::string("t\0o", 3));
    stage.server.release();
    stage.requester.settle();
  });
}

TEST_CASE("transport: a request of 1,024 pages with keys of 1,024 bytes") {
  on_each_transport([](Stage& stage) {
    std::vector<Wish> wishes;
    for (int i = 0; i < 1024; ++i) {
      std::string name = key(i);
      name.resize(1024, 'x');
      const Wish wish{name, static_cast<std::uint64_t>(i) * 5000, 4999};
      fill(*stage.world, wish, pattern(static_cast<std::uint64_t>(i), 4999));
      wishes.push_back(wish);
    }
    RequestToken token = stage.requester.must_post(Opcode::put, wishes);
    stage.requester.settle();
    CHECK(stage.requester.at(token).replies.size() == 1024);
    CHECK(stage.server.objects.size() == 1024);
    stage.requester.forget();
    token = stage.requester.must_post(Opcode::get, wishes);
    stage.requester.settle();
    for (std::size_t i = 0; i < 1024; ++i) {
      CHECK(stage.requester.at(token).replies[i].bytes == 4999);
      CHECK(stage.requester.at(token).slices[i] == pattern(i, 4999));
    }
    stage.requester.forget();
    token = stage.requester.must_post(Opcode::remove, wishes);
    stage.requester.settle();
    CHECK(stage.server.objects.empty());
  });
}

TEST_CASE("transport: credits run out, come back, and lose nothing") {
  on_each_transport([](Stage& stage) {
    stage.server.hold_requests = true;
    const std::uint32_t credits = stage.world->credits();
    std::vector<RequestToken> tokens;
    for (std::uint32_t i = 0; i < credits; ++i) {
      tokens.push_back(stage.requester.must_post(Opcode::exists, {{key(1), 0, 0}}));
    }
    RequestToken refused = 0;
    Status status = stage.requester.post(Opcode::exists, {{key(1), 0, 0}}, refused);
    CHECK(status == Status::no_space);
    for (int i = 0; i < 100; ++i) stage.turn();
    status = stage.requester.post(Opcode::exists, {{key(1), 0, 0}}, refused);
    CHECK(status == Status::no_space);
    stage.server.release();
    stage.requester.settle();
    for (const RequestToken token : tokens) CHECK(stage.requester.at(token).was_replied);
    stage.requester.must_post(Opcode::exists, {{key(1), 0, 0}});
    stage.requester.settle();
  });
}

TEST_CASE("transport: credits that are kept for others stay, and others have them") {
  on_each_transport([](Stage& stage) {
    stage.server.hold_requests = true;
    const std::uint32_t kept = stage.world->credits() / 4 + 1;
    std::uint32_t posted = 0;
    RequestToken token = 0;
    while (stage.requester.post(Opcode::exists, {{key(1), 0, 0}}, token, kept) == Status::ok)
      ++posted;
    CHECK(posted == stage.world->credits() - kept);
    for (std::uint32_t i = 0; i < kept; ++i)
      stage.requester.must_post(Opcode::exists, {{key(1), 0, 0}});
    CHECK(stage.requester.post(Opcode::exists, {{key(1), 0, 0}}, token) == Status::no_space);
    stage.server.release();
    stage.requester.settle();
  });
}

TEST_CASE("transport: nobody there is said at once") {
  on_each_transport([](Stage& stage) {
    const PageRequest page;
    simm::transport::Request request;
    request.header.opcode = Opcode::exists;
    request.pages = {&page, 1};
    const Status status =
        stage.world->requester().post(stage.world->unreachable_route(), 1, request);
    CHECK(status == Status::unreachable);
    for (int i = 0; i < 10; ++i) stage.turn();
    CHECK(stage.server.requests == 0);
  });
}

// ---- cancel and reset, in every state of a request ----

enum class When {
  just_posted,
  held_by_server,
  moving,
  answer_ready,  // the server has the answer and holds it back
  answered,      // the reply is on its way
  over,
};
constexpr When kMoments[] = {When::just_posted,  When::held_by_server, When::moving,
                             When::answer_ready, When::answered,       When::over};
constexpr std::uint64_t kLong = 8 * 1024 * 1024;

// A get of a long object, brought to that moment.
RequestToken bring_to(Stage& stage, When when) {
  store(stage, "long", pattern(5, kLong));
  stage.server.hold_requests = when == When::held_by_server;
  stage.server.hold_replies = when == When::answer_ready;
  const int requests = stage.server.requests;
  const int replied = stage.server.replied;
  const RequestToken token = stage.requester.must_post(Opcode::get, {{"long", 0, kLong}});
  if (when == When::just_posted) return token;
  if (when == When::over) {
    stage.requester.settle();
    return token;
  }
  const auto turn_until = [&](auto&& reached) {
    // Turns are many and short, and a kernel of a busy machine needs time, not turns.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    for (int i = 0; !reached() && (i < 20'000 || std::chrono::steady_clock::now() < end); ++i) {
      stage.world->network_turn();
      stage.world->responder_turn();
    }
    REQUIRE(reached());
  };
  turn_until([&] { return stage.server.requests > requests; });
  if (when == When::moving) {
    REQUIRE(stage.server.moving());  // the object is longer than a turn
  } else if (when == When::answer_ready) {
    turn_until([&] { return !stage.server.moving(); });
    CHECK(stage.server.replied == replied);
  } else if (when == When::answered) {
    turn_until([&] { return stage.server.replied > replied; });
  }
  return token;
}

TEST_CASE("transport: cancel in every state brings exactly one answer, and soon") {
  for (const When when : kMoments) {
    CAPTURE(static_cast<int>(when));
    on_each_transport([when](Stage& stage) {
      const RequestToken token = bring_to(stage, when);
      const bool was_over = when == When::over;
      stage.requester.cancel(token);
      stage.requester.cancel(token);  // twice is once
      stage.requester.settle(2000);
      const auto& asked = stage.requester.at(token);
      CHECK(asked.was_replied);
      const bool was_moved = when == When::answer_ready || when == When::answered || was_over;
      if (was_moved) CHECK(asked.replies[0].status == Status::ok);
      if (when == When::held_by_server) CHECK(asked.replies[0].status == Status::cancelled);
      if (when == When::moving) {
        const bool is_either =
            asked.replies[0].status == Status::cancelled || asked.replies[0].status == Status::ok;
        CHECK(is_either);
      }
      CHECK(stage.server.open() == 0);
      CHECK(stage.server.aborted == 0);
    });
  }
}

TEST_CASE("transport: reset in every state brings exactly one fence, and the server lets go") {
  for (const bool cancel_first : {false, true}) {
    for (const When when : kMoments) {
      CAPTURE(static_cast<int>(when));
      CAPTURE(cancel_first);
      on_each_transport([&](Stage& stage) {
        const RequestToken token = bring_to(stage, when);
        if (cancel_first) stage.requester.cancel(token);
        stage.requester.reset(token);
        stage.requester.reset(token);
        stage.requester.settle(2000);
        const auto& asked = stage.requester.at(token);
        CHECK(asked.was_replied == (when == When::over));
        if (when != When::over) CHECK(asked.cause == FenceCause::reset);
        stage.check_server_lets_go();  // answered, or told that it is over, never both
        // The path works again.
        stage.server.release();
        store(stage, "after", pattern(9, 100));
      });
    }
  }
}

TEST_CASE("transport: a put that was reset is stored whole or not at all") {
  on_each_transport([](Stage& stage) {
    const auto bytes = pattern(6, kLong);
    const Wish wish{"put", 0, kLong};
    for (int turns = 0; turns < 24; turns += 2) {
      CAPTURE(turns);
      stage.server.objects.clear();
      fill(*stage.world, wish, bytes);
      const RequestToken token = stage.requester.must_post(Opcode::put, {wish});
      for (int i = 0; i < turns; ++i) {
        stage.world->network_turn();
        stage.world->responder_turn();
      }
      stage.requester.reset(token);
      stage.requester.settle(2000);
      if (!stage.server.objects.empty()) CHECK(stage.server.objects.at("put") == bytes);
      stage.requester.forget();
    }
  });
}

TEST_CASE("transport: a reset ends what shares its path, and nothing else") {
  on_each_transport([](Stage& stage) {
    stage.server.hold_requests = true;
    const bool is_shared = stage.world->path_is_shared() && !stage.world->asks_again();
    const RequestToken first = stage.requester.must_post(Opcode::exists, {{"a", 0, 0}});
    const RequestToken second = stage.requester.must_post(Opcode::exists, {{"b", 0, 0}});
    for (int i = 0; i < 50; ++i) stage.turn();
    stage.requester.reset(first);
    for (int i = 0; i < 200; ++i) stage.turn();
    CHECK(stage.requester.is_over(first));
    CHECK(stage.requester.is_over(second) == is_shared);
    stage.server.release();
    stage.requester.settle();
    CHECK(stage.requester.at(second).was_replied != is_shared);
    if (is_shared) {
      CHECK(stage.requester.at(second).cause == FenceCause::collateral);
    }
  });
}

TEST_CASE("transport: a region that fails spoils its own page only") {
  on_each_transport([](Stage& stage) {
    const std::uint64_t length = std::min<std::uint64_t>(300'000, stage.world->copied_page_bytes());
    const auto bytes = pattern(7, length);
    std::vector<Wish> wishes;
    for (int i = 0; i < 3; ++i) {
      wishes.push_back({key(i), static_cast<std::uint64_t>(i) * 1024 * 1024, length});
      store(stage, key(i), bytes);
    }
    stage.world->break_region(1024 * 1024 + length - length / 10, length / 20);
    for (const Opcode opcode : {Opcode::get, Opcode::put}) {
      for (const Wish& wish : wishes) {
        if (opcode == Opcode::put) fill(*stage.world, wish, bytes);
      }
      const RequestToken token = stage.requester.must_post(opcode, wishes);
      stage.requester.settle();
      const auto& replies = stage.requester.at(token).replies;
      REQUIRE(replies.size() == 3);
      CHECK(replies[0].status == Status::ok);
      CHECK(replies[1].status == Status::transfer_failed);
      CHECK(replies[2].status == Status::ok);
      stage.requester.forget();
    }
  });
}

TEST_CASE("transport: a small request is not held up by a large one") {
  on_each_transport([](Stage& stage) {
    store(stage, "long", pattern(5, 16 * 1024 * 1024));
    store(stage, "small", pattern(6, 4096));
    std::vector<Wish> wishes;
    wishes.push_back({"long", 0, 16 * 1024 * 1024});
    const RequestToken large = stage.requester.must_post(Opcode::get, wishes);
    stage.turn();
    const RequestToken small =
        stage.requester.must_post(Opcode::get, {{"small", 20 * 1024 * 1024, 4096}});
    for (int i = 0; i < 20'000 && !stage.requester.is_over(small); ++i) stage.turn();
    CHECK(stage.requester.is_over(small));
    CHECK_FALSE(stage.requester.is_over(large));
    stage.requester.settle();
  });
}

// ---- turns, sleep, and the end ----

// Whether the end would sleep for longer than it takes to look again. An order must not wait for a
// far deadline: that of a silent peer, for instance.
template <typename End>
bool would_oversleep(Stage& stage, End& end) {
  return end.prepare_sleep() &&
         end.next_deadline_ns() > stage.world->clock().now_ns() + simm::base::kNsPerMs;
}

// The network alone may carry an order out: then the end of that wakes the responder.
bool wakes_for_order(Stage& stage) {
  simm::transport::Responder& serving = stage.world->responder();
  for (int i = 0; i < 1000 && would_oversleep(stage, serving); ++i) stage.world->network_turn();
  return !would_oversleep(stage, serving);
}

TEST_CASE("transport: what a server has ordered leaves in run_moves() alone") {
  on_each_transport([](Stage& stage) {
    const auto bytes = pattern(3, 100'000);
    store(stage, "object", bytes);
    stage.server.hold_requests = true;
    const int requests = stage.server.requests;
    const RequestToken token =
        stage.requester.must_post(Opcode::get, {{"object", 0, bytes.size()}});
    for (int i = 0; i < 20'000 && stage.server.requests == requests; ++i) stage.turn();
    stage.server.hold_replies = true;
    stage.server.release_requests();
    REQUIRE(stage.server.moving());
    const auto turn = [&stage] {
      stage.world->responder().run_moves();
      stage.world->network_turn();
      stage.world->requester_turn();
    };
    // How far a move comes without whole turns is the transport's: messages end some of them.
    for (int i = 0; i < 1000 && stage.server.moving(); ++i) turn();
    for (int i = 0; i < 20'000 && stage.server.moving(); ++i) stage.turn();
    REQUIRE_FALSE(stage.server.moving());
    stage.server.release();
    for (int i = 0; i < 1000 && !stage.requester.is_over(token); ++i) turn();
    CHECK(stage.requester.is_over(token));
    stage.requester.settle();
    CHECK(stage.requester.at(token).slices[0] == bytes);
  });
}

TEST_CASE("transport: an end with an order does not oversleep it, an idle one sleeps") {
  on_each_transport([](Stage& stage) {
    const auto bytes = pattern(3, 100'000);
    store(stage, "object", bytes);
    simm::transport::Requester& asking = stage.world->requester();
    simm::transport::Responder& serving = stage.world->responder();
    stage.server.hold_requests = true;
    const int requests = stage.server.requests;
    stage.requester.must_post(Opcode::get, {{"object", 0, bytes.size()}});
    // Without a turn of an end that would sleep, the request comes to the server all the same.
    const bool sleeps = would_oversleep(stage, asking);
    for (int i = 0; i < 20'000 && stage.server.requests == requests; ++i) {
      if (!sleeps) stage.world->requester_turn();
      stage.world->network_turn();
      stage.world->responder_turn();
    }
    REQUIRE(stage.server.requests > requests);
    for (int i = 0; i < 50; ++i) stage.turn();
    stage.server.release();
    REQUIRE(stage.server.moving());
    CHECK(wakes_for_order(stage));
    stage.requester.settle();
    // A life sign now and then is no work.
    const auto may_sleep = [&](const auto& end) {
      return end.next_deadline_ns() >= stage.world->clock().now_ns() + simm::base::kNsPerSecond;
    };
    const auto is_idle = [&] {
      return asking.prepare_sleep() && may_sleep(asking) && serving.prepare_sleep() &&
             may_sleep(serving);
    };
    for (int i = 0; i < 2000 && !is_idle(); ++i) stage.turn();
    CHECK(is_idle());
  });
}

TEST_CASE("transport: a responder that drops all aborts what arrived, and serves new paths") {
  for (const When when : {When::held_by_server, When::moving, When::answer_ready}) {
    CAPTURE(static_cast<int>(when));
    on_each_transport([when](Stage& stage) {
      const RequestToken token = bring_to(stage, when);
      const int aborted = stage.server.aborted;
      stage.drop_all();
      CHECK(wakes_for_order(stage));
      stage.requester.settle(20'000);
      const auto& asked = stage.requester.at(token);
      // Another path may have carried what this one had.
      if (!stage.world->asks_again()) {
        // A server whose last move has ended may answer; else it is told.
        const bool may_answer = when == When::moving;
        if (!may_answer) CHECK_FALSE(asked.was_replied);
        if (!asked.was_replied) CHECK(asked.cause == FenceCause::collateral);
        for (int i = 0; i < 20'000 && stage.server.open() > 0; ++i) stage.turn();
        if (!may_answer) CHECK(stage.server.aborted == aborted + 1);
      }
      stage.server.release();
      stage.check_server_lets_go();
      store(stage, "after", pattern(9, 100));
    });
  }
}

}  // namespace transport_test
