// A world for engine tests: a manual clock, a placement over several owners, and a Requester that
// does exactly what the test says. Nothing happens by itself.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/manual_clock.h"
#include "daemon/engine/engine.h"

namespace engine_world {

using namespace simm;
using engine::Operation;
using transport::FenceCause;
using transport::PageReply;
using transport::RequestToken;
using transport::Route;

// Slot s belongs to shard s % shards of peer (s / shards) % peers.
struct TestPlacement final : engine::Placement {
  base::Epoch epoch_now = 7;
  std::uint32_t peers = 1;
  std::uint16_t shards = 1;
  base::Epoch epoch() const noexcept override { return epoch_now; }
  Route route(base::Slot slot) const noexcept override {
    return {base::PeerId{(slot / shards) % peers}, static_cast<std::uint16_t>(slot % shards)};
  }
};

struct ScriptedRequester final : transport::Requester {
  void connect(transport::RequesterEvents&, transport::RegionFaults*) noexcept override {}
  struct Post {
    Route route;
    RequestToken token = 0;
    transport::Request request;
    bool open = true;
    int cancels = 0;
    int abandons = 0;
    int resets = 0;
  };
  struct Event {
    std::size_t post = 0;
    bool is_reply = true;
    FenceCause cause = FenceCause::reset;
    std::vector<PageReply> replies;
  };

  transport::RequesterEvents* events = nullptr;
  std::deque<Post> posts;  // all that were ever accepted
  std::deque<Event> due;   // delivered by the next do_work()
  std::uint32_t credits = ~0u;
  bool leaves_credits = false;  // to others: Request::credits_keep
  std::vector<Route> unreachable;
  bool upcall_running = false;
  std::uint64_t moved_count = 0;  // on the ways to all shards

  std::size_t open_posts() const {
    return static_cast<std::size_t>(
        std::count_if(posts.begin(), posts.end(), [](const Post& post) { return post.open; }));
  }

  Status post(Route route, RequestToken token,
              const transport::Request& request) noexcept override {
    if (std::find(unreachable.begin(), unreachable.end(), route) != unreachable.end()) {
      return Status::unreachable;
    }
    const std::uint32_t keep = leaves_credits ? request.credits_keep : 0;
    if (open_posts() + keep >= credits) return Status::no_space;
    Post added;
    added.route = route;
    added.token = token;
    added.request = request;
    posts.push_back(added);
    return Status::ok;
  }
  void cancel(Route route, RequestToken token) noexcept override { ++at(route, token).cancels; }
  void abandon(Route route, RequestToken token) noexcept override { ++at(route, token).abandons; }
  void reset(Route route, RequestToken token) noexcept override { ++at(route, token).resets; }
  std::uint64_t moved(Route) const noexcept override { return moved_count; }
  int do_work() noexcept override {
    int work = 0;
    for (; !due.empty(); ++work) {
      const Event event = due.front();
      due.pop_front();
      Post& post = posts[event.post];
      post.open = false;
      if (event.is_reply) {
        events->on_reply(post.token, event.replies);
      } else {
        events->on_fenced(post.token, event.cause);
      }
    }
    return work;
  }

  Post& at(Route route, RequestToken token) {
    for (Post& post : posts) {
      if (post.open && post.token == token) {
        CHECK(post.route == route);
        return post;
      }
    }
    FAIL("cancel, abandon or reset of a request that is not open");
    return posts.front();
  }
  void reply(std::size_t post, std::vector<PageReply> replies) {
    due.push_back({post, true, {}, std::move(replies)});
  }
  void reply_all_pages(std::size_t post, Status status, std::uint64_t bytes = 0) {
    reply(post, std::vector<PageReply>(posts[post].request.pages.size(), {status, bytes}));
  }
  void fence(std::size_t post, FenceCause cause) { due.push_back({post, false, cause, {}}); }
};

// What became of an operation, copied at its completion.
struct Completed {
  std::uint64_t client_token = 0;
  Status status = Status::ok;
  std::uint64_t bytes_moved = 0;
  std::vector<PageReply> pages;  // by the client's index
  base::TimeNs at_ns = 0;
};

struct World : engine::OperationEvents {
  explicit World(engine::EngineConfig config = {}, std::uint16_t shards = 1,
                 std::uint32_t peers = 1)
      : table(requester), placement(make_placement(shards, peers)) {
    engine = std::make_unique<engine::Engine>(config, clock, engine::PageHasher(42), placement,
                                              table, engine::EngineCounters(counters, "engine"));
    requester.events = engine.get();
  }
  static TestPlacement make_placement(std::uint16_t shards, std::uint32_t peers) {
    TestPlacement made;
    made.shards = shards;
    made.peers = peers;
    return made;
  }

  // A batch of `pages` keys "<name>/<i>", with slices of `slice_bytes` where the opcode has one.
  Operation& make(ipc::Opcode opcode, std::uint32_t pages, base::TimeNs timeout_ns,
                  const std::string& name = "key", std::uint64_t slice_bytes = 4096) {
    Operation* operation = engine->allocate();
    REQUIRE(operation != nullptr);
    operation->header.opcode = opcode;
    operation->header.tenant = {1};
    operation->header.name_space = {2};
    operation->header.deadline_ns = clock.now_ns() + timeout_ns;
    operation->owner = this;
    operation->client_token = ++last_token;
    operation->page_count = pages;
    std::size_t used = 0;
    for (std::uint32_t i = 0; i < pages; ++i) {
      const std::string key = name + "/" + std::to_string(i);
      char* at = operation->key_bytes.data() + used;
      std::copy(key.begin(), key.end(), at);
      used += key.size();
      transport::PageRequest& page = operation->pages[i];
      page = {};
      page.key = at;
      page.key_bytes = static_cast<std::uint32_t>(key.size());
      page.index = static_cast<std::uint16_t>(i);
      if (opcode == ipc::Opcode::get || opcode == ipc::Opcode::put) {
        page.slice = {&region, i * slice_bytes, slice_bytes};
      }
    }
    return *operation;
  }
  std::uint64_t submit(ipc::Opcode opcode, std::uint32_t pages,
                       base::TimeNs timeout_ns = base::kNsPerSecond) {
    Operation& operation = make(opcode, pages, timeout_ns);
    const std::uint64_t token = operation.client_token;
    engine->submit(operation);
    return token;
  }
  void on_progress(Operation& operation) noexcept override {
    told.push_back({operation.client_token, clock.now_ns()});
  }
  void on_overdue(Operation&) noexcept override { ++overdue_told; }
  void on_complete(Operation& operation) noexcept override {
    Completed outcome;
    outcome.client_token = operation.client_token;
    outcome.status = operation.status;
    outcome.bytes_moved = operation.bytes_moved;
    outcome.pages.assign(operation.replies.begin(),
                         operation.replies.begin() + operation.page_count);
    outcome.at_ns = clock.now_ns();
    outcomes.push_back(outcome);
  }
  // Lets `by_ns` pass in steps of 1 ms, with a turn at each.
  void pass(base::TimeNs by_ns) {
    for (base::TimeNs passed = 0; passed < by_ns; passed += base::kNsPerMs) {
      clock.advance_ns(base::kNsPerMs);
      engine->do_work();
    }
  }
  std::uint64_t count(const std::string& name) const { return counters.value("engine." + name); }

  base::ManualClock clock;
  base::CounterSet counters;
  memory::Region region;
  ScriptedRequester requester;
  engine::SoleRequester table;
  TestPlacement placement;
  std::unique_ptr<engine::Engine> engine;
  std::vector<Completed> outcomes;
  std::vector<std::pair<std::uint64_t, base::TimeNs>> told;  // of progress: of whom, when
  std::uint64_t overdue_told = 0;
  std::uint64_t last_token = 0;
};

}  // namespace engine_world
