// Random scenes on every transport: puts, gets, cancels, resets, held answers, turns in any order.
// Repeat one with SIMM_SEED=<seed> SIMM_ROUNDS=1; a larger SIMM_ROUNDS runs longer.
#include <doctest/doctest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <set>

#include "tests/conformance/transport_actors.h"
#include "tests/support/number_from.h"

namespace transport_random_test {

using namespace conformance;
using simm::base::SeededRandom;
using simm::ipc::Opcode;

using simm::test_support::number_from;
using simm::test_support::rounds_from;

// The only bytes that the object of that name may have in that version.
std::uint64_t seed_of(const std::string& name, std::uint64_t version) {
  std::uint64_t seed = version;
  for (const char c : name) seed = seed * 131 + static_cast<unsigned char>(c);
  return seed;
}
std::uint64_t length_of(const std::string& name, std::uint64_t version) {
  const std::uint64_t seed = seed_of(name, version);
  return 1 + seed % 9000 + (seed % 7 == 0 ? 600'000 : 0);
}
// Few objects, asked for again and again.
const std::vector<std::byte>& bytes_of(const std::string& name, std::uint64_t version) {
  static std::map<std::uint64_t, std::vector<std::byte>> all;
  const std::uint64_t seed = seed_of(name, version);
  const auto made = all.find(seed);
  if (made != all.end()) return made->second;
  return all.emplace(seed, pattern(seed, length_of(name, version))).first->second;
}

struct Scene {
  Scene(const TransportFactory& factory, std::uint64_t seed) : random(seed), stage(factory) {}

  std::uint64_t take_slice(std::uint64_t length) {
    if (TransportWorld::kRegionBytes - used < length) {
      stage.server.release();
      stage.requester.settle();
      check_answers();
      stage.requester.forget();
      tokens.clear();
      used = 0;
    }
    const std::uint64_t offset = used;
    used += length;
    return offset;
  }

  void post() {
    const bool is_put = random.one_in(2);
    std::vector<Wish> wishes;
    const std::uint64_t pages = 1 + random.below(random.one_in(10) ? 60 : 4);
    std::vector<std::vector<std::byte>> contents;
    for (std::uint64_t i = 0; i < pages; ++i) {
      const std::string name = "k" + std::to_string(random.below(12));
      const auto& bytes = bytes_of(name, random.below(3));
      wishes.push_back({name, 0, is_put ? bytes.size() : 700'000});
      contents.push_back(bytes);
    }
    for (Wish& wish : wishes) wish.offset = take_slice(0);
    std::uint64_t total = 0;
    for (const Wish& wish : wishes) total += wish.length;
    if (total > TransportWorld::kRegionBytes) return;
    std::uint64_t offset = take_slice(total);
    for (std::size_t i = 0; i < wishes.size(); ++i) {
      wishes[i].offset = offset;
      offset += wishes[i].length;
      if (is_put) fill(*stage.world, wishes[i], contents[i]);
    }
    RequestToken token = 0;
    const Status status = stage.requester.post(is_put ? Opcode::put : Opcode::get, wishes, token);
    if (status == Status::ok) {
      tokens.push_back(token);
    } else {
      // A shared path that was reset is away for a while.
      const bool may_be_away = stage.world->path_is_shared() && status == Status::unreachable;
      CHECK((status == Status::no_space || may_be_away));
    }
  }

  void check_answers() {
    for (const RequestToken token : tokens) {
      const auto& asked = stage.requester.at(token);
      if (!asked.was_replied || asked.request.header.opcode != Opcode::get) continue;
      for (std::size_t i = 0; i < asked.wishes.size(); ++i) {
        if (asked.replies[i].status != Status::ok) continue;
        const auto& slice = asked.slices[i];
        bool known = false;
        for (std::uint64_t version = 0; version < 3; ++version) {
          if (length_of(asked.wishes[i].key, version) != asked.replies[i].bytes) continue;
          const auto& bytes = bytes_of(asked.wishes[i].key, version);
          known |= std::memcmp(bytes.data(), slice.data(), bytes.size()) == 0;
        }
        CHECK_MESSAGE(known, "bytes that were never put under this key");
      }
    }
  }

  void step() {
    switch (random.below(12)) {
      case 0:
      case 1:
        return post();
      case 2:
        if (!tokens.empty()) stage.requester.cancel(tokens[random.below(tokens.size())]);
        return;
      case 3:
        if (!tokens.empty() && random.one_in(3)) {
          stage.requester.reset(tokens[random.below(tokens.size())]);
        }
        return;
      case 4:
        if (random.one_in(4)) stage.server.hold_requests = true;
        if (random.one_in(4)) stage.server.hold_replies = true;
        return;
      case 5:
        return stage.server.release();
      case 6:
      case 7:
        stage.world->network_turn();
        return;
      case 8:
      case 9:
        stage.world->requester_turn();
        return;
      default:
        stage.world->responder_turn();
    }
  }

  void go() {
    for (int i = 0; i < 500; ++i) step();
    stage.server.release();
    stage.requester.settle();
    check_answers();
    stage.check_server_lets_go();
  }

  SeededRandom random;
  Stage stage;
  std::vector<RequestToken> tokens;
  std::uint64_t used = 0;
};

TEST_CASE("transport: random scenes keep every rule") {
  const std::uint64_t seed = number_from("SIMM_SEED", std::random_device{}());
  const std::uint64_t rounds = rounds_from("SIMM_ROUNDS", 6);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    for (const TransportFactory& factory : chosen_transports()) {
      INFO("transport: " << factory.name);
      INFO("repeat: SIMM_SEED=" << seed + round << " SIMM_ROUNDS=1 conformance -tc='*random*'");
      Scene scene(factory, seed + round);
      scene.go();
    }
  }
}

}  // namespace transport_random_test
