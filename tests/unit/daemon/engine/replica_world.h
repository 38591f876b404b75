// A world for tests of objects that are kept twice: an engine that keeps namespace 2 twice, and a
// placement whose mirrored slots are at different peers, unless the test says otherwise.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/replica.h"
#include "tests/unit/daemon/engine/engine_world.h"

namespace replica_world {

using namespace engine_world;
using base::kNsPerMs;
using base::kNsPerSecond;
using ipc::Opcode;

inline constexpr base::NamespaceId kTwice{2};

// Slot s and its mirror are at neighbours in the row of peers, or at one peer.
struct MirroredPlacement final : engine::Placement {
  base::Epoch at = 8;
  std::uint32_t peers = 3;
  std::uint32_t lone_one_in = 0;  // of the pairs, so many are at one peer; 0: none, 1: all

  [[nodiscard]] bool is_lone(base::Slot slot) const {
    return lone_one_in != 0 && std::min(slot, base::mirror_of(slot)) % lone_one_in == 0;
  }
  base::Epoch epoch() const noexcept override { return at; }
  Route route(base::Slot slot) const noexcept override {
    const base::Slot lower = std::min(slot, base::mirror_of(slot));
    const std::uint32_t next = slot != lower && !is_lone(slot) ? 1 : 0;
    return {base::PeerId{(lower + next) % peers}, 0};
  }
};

inline engine::EngineConfig config_of_twice(std::uint32_t writers = 16) {
  engine::EngineConfig config;
  config.operations = 2 * writers;
  config.replicas = writers;
  config.requests = 4 * config.operations;
  return config;
}

struct ReplicaWorld : World {
  explicit ReplicaWorld(engine::EngineConfig config = config_of_twice()) : World(config) {
    engine->use_placement(mirrors);
    engine->use_replicas(base::ReplicatedNamespaces({{{1}, kTwice}}));
  }
  // A newer map, of the same owners.
  void use_next_map() {
    MirroredPlacement& next = maps.emplace_back(maps.empty() ? mirrors : maps.back());
    next.at = 8 + maps.size();
    engine->use_placement(next);
  }

  using Post = ScriptedRequester::Post;
  [[nodiscard]] static bool is_of_replicas(const Post& post) {
    return post.request.header.name_space == base::replica_of(kTwice);
  }
  // Its hash and slot are those of the copy that the message's namespace says, and its route goes
  // to that slot's owner.
  void check_names(const Post& post) const {
    const bool of_replicas = is_of_replicas(post);
    CHECK((of_replicas || post.request.header.name_space == kTwice));
    const auto scope = engine::PageHasher(42).scope({1}, kTwice);
    for (const transport::PageRequest& page : post.request.pages) {
      const std::string_view key(page.key, page.key_bytes);
      base::KeyHash hash = engine::PageHasher::key_hash(scope, key);
      std::uint64_t group = engine::PageHasher::group_hash(scope, key);
      if (of_replicas) {
        hash = base::replica_of(hash);
        group = base::mirrored_group(group);
      }
      REQUIRE(page.hash == hash);
      REQUIRE(page.group == group);
      REQUIRE(post.route == mirrors.route(base::slot_of(group)));
    }
  }
  void check_all_names() const {
    for (const Post& post : requester.posts) check_names(post);
  }

  // Answers the open messages, of replicas or of objects, as `what` says of each page.
  using Answers = std::function<PageReply(const transport::PageRequest&)>;
  std::size_t answer_open(bool of_replicas, const Answers& what) {
    std::size_t answered = 0;
    for (std::size_t i = 0; i < requester.posts.size(); ++i) {
      const Post& post = requester.posts[i];
      if (!post.open || is_of_replicas(post) != of_replicas) continue;
      std::vector<PageReply> replies;
      for (const transport::PageRequest& page : post.request.pages) replies.push_back(what(page));
      requester.reply(i, replies);
      ++answered;
    }
    engine->do_work();
    return answered;
  }
  std::size_t answer_open(bool of_replicas, Status status) {
    return answer_open(of_replicas, [status](const transport::PageRequest& page) {
      return PageReply{status, status == Status::ok ? page.index : 0u};
    });
  }
  // Until nothing is open.
  void answer_all(
      const std::function<PageReply(bool of_replica, const transport::PageRequest&)>& what) {
    for (int turns = 0; turns < 10'000 && engine->in_flight() > 0; ++turns) {
      for (const bool of_replicas : {false, true}) {
        answer_open(of_replicas,
                    [&](const transport::PageRequest& page) { return what(of_replicas, page); });
      }
    }
    REQUIRE(engine->in_flight() == 0);
  }
  void fence_open(bool of_replicas, FenceCause cause) {
    for (std::size_t i = 0; i < requester.posts.size(); ++i) {
      const Post& post = requester.posts[i];
      if (post.open && is_of_replicas(post) == of_replicas) requester.fence(i, cause);
    }
    engine->do_work();
  }
  // How often each page was asked for, by its index.
  [[nodiscard]] std::map<std::uint32_t, int> asked(bool of_replicas) const {
    std::map<std::uint32_t, int> times;
    for (const auto& [is_replica, index] : seen) {
      if (is_replica == of_replicas) ++times[index];
    }
    return times;
  }
  // Notes the pages of the messages that were posted since the last call: later a message may
  // name nothing any more.
  void note_posts() {
    for (; noted < requester.posts.size(); ++noted) {
      const Post& post = requester.posts[noted];
      check_names(post);
      for (const auto& page : post.request.pages) {
        seen.emplace_back(is_of_replicas(post), page.index);
      }
    }
  }
  [[nodiscard]] const Completed& only_outcome() const {
    REQUIRE(outcomes.size() == 1);
    return outcomes.front();
  }
  [[nodiscard]] bool all_are(Status status) const {
    const auto& pages = only_outcome().pages;
    return std::all_of(pages.begin(), pages.end(),
                       [status](const PageReply& reply) { return reply.status == status; });
  }
  void cut(std::uint32_t peer) { requester.unreachable.push_back({base::PeerId{peer}, 0}); }
  // One read that begins with the object is behind us each time; the eighth begins with replicas.
  void read_until_replicas_are_next() {
    for (std::uint32_t i = 0; i + 1 < engine::ReplicaRules::kReplicaFirstOneIn; ++i) {
      submit(Opcode::exists, 1);
      answer_open(false, Status::ok);
    }
    requester.posts.clear();
    outcomes.clear();
  }

  MirroredPlacement mirrors;
  std::deque<MirroredPlacement> maps;
  std::vector<std::pair<bool, std::uint32_t>> seen;
  std::size_t noted = 0;
};

}  // namespace replica_world
