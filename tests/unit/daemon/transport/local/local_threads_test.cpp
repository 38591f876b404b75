// The local transport across two threads: each runs an engine's end and a server, asks the other,
// and cancels and resets at random. Built with TSan this is the proof of the hand-over of slots.
// Repeat with SIMM_SEED=<seed>; SIMM_ROUNDS=<n> runs longer.
#include <atomic>
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "daemon/base/manual_clock.h"
#include "daemon/base/random.h"
#include "daemon/memory/fault_guard.h"
#include "tests/support/number_from.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace local_threads_test {

using namespace local_world;
using ipc::Opcode;

constexpr std::uint64_t kSlice = 4096;
constexpr std::uint64_t kLong = 200'000;

// One thread: an agent with both ends. Asks for puts and gets; a get must bring the peer server's
// byte, everywhere, and a slice must not change after its answer.
struct Side final : RequesterEvents {
  Side(LocalMesh& mesh_in, std::uint32_t agent_in, std::uint64_t seed)
      : mesh(mesh_in), agent(agent_in), random(seed), memory(32 * kLong), server(kLong) {
    std::fill(server.extent.begin(), server.extent.end(), static_cast<std::byte>('A' + agent));
    mesh.requester(agent).connect(*this, nullptr);
    mesh.responder(agent).connect(server);
  }

  struct Open {
    std::unique_ptr<Ask> ask;
    bool was_reset = false;
    bool is_put = false;
    std::uint16_t shard = 0;
    std::byte own{};
  };

  void on_reply(RequestToken token, std::span<const PageReply> pages) noexcept override {
    Open& at = open.at(token);
    if (at.was_reset) ++wrong;
    const memory::Slice slice = at.ask->list[0].slice;
    const std::byte* bytes = memory.region.base + slice.offset;
    const bool ok = pages[0].status == Status::ok;
    const std::byte wanted = at.is_put ? at.own : static_cast<std::byte>('A' + at.shard);
    for (std::uint64_t i = 0; ok && i < slice.length; ++i) wrong += bytes[i] != wanted;
    end(token);
  }
  void on_fenced(RequestToken token, FenceCause) noexcept override {
    if (!open.at(token).was_reset) ++wrong;
    end(token);
  }
  // The memory is ours again at once, and TSan sees it when anybody else still touches it.
  void end(RequestToken token) {
    Open& at = open.at(token);
    const memory::Slice slice = at.ask->list[0].slice;
    std::memset(memory.region.base + slice.offset, 0, slice.length);
    free_slices.push_back(slice.offset);
    std::fill(at.ask->list.begin(), at.ask->list.end(), PageRequest{});
    open.erase(token);
    ++answered;
  }

  void ask_one() {
    if (free_slices.empty()) return;
    Open made;
    const std::uint64_t offset = free_slices.back();
    const std::uint64_t length = random.one_in(8) ? kLong : kSlice;
    made.is_put = random.one_in(2);
    made.shard = static_cast<std::uint16_t>(random.below(2));
    made.own = static_cast<std::byte>(random.next());
    std::memset(memory.region.base + offset, static_cast<int>(made.own), length);
    made.ask = std::make_unique<Ask>(memory.region, made.is_put ? Opcode::put : Opcode::get, 1,
                                     length, offset);
    const RequestToken token = next_token++;
    const Route route{base::kSelf, made.shard};
    const Status status = mesh.requester(agent).post(route, token, made.ask->request);
    if (status != Status::ok) return;
    free_slices.pop_back();
    open.emplace(token, std::move(made));
  }

  void turn() {
    if (random.one_in(2)) ask_one();
    if (!open.empty() && random.one_in(6)) {
      auto& [token, at] = *open.begin();
      if (random.one_in(2)) {
        mesh.requester(agent).cancel({base::kSelf, at.shard}, token);
      } else {
        at.was_reset = true;
        mesh.requester(agent).reset({base::kSelf, at.shard}, token);
      }
    }
    work();
  }
  void work() {
    mesh.responder(agent).do_work();
    mesh.requester(agent).do_work();
  }

  LocalMesh& mesh;
  std::uint32_t agent;
  base::SeededRandom random;
  TestRegion memory;
  MovingServer server;
  std::map<RequestToken, Open> open;
  std::vector<std::uint64_t> free_slices;
  RequestToken next_token = 1;
  std::uint64_t wrong = 0;
  std::uint64_t answered = 0;
};

TEST_CASE("two threads ask each other, cancel and reset, and no slice is touched too late") {
  const char* text = std::getenv("SIMM_SEED");
  const std::uint64_t seed = text ? std::strtoull(text, nullptr, 10) : std::random_device{}();
  // A round is a hundredth of a run.
  const std::uint64_t asks = 30 * simm::test_support::rounds_from("SIMM_ROUNDS", 100);
  INFO("repeat: SIMM_SEED=" << seed << " unit_transport -tc='two threads*'");
  memory::FaultGuard::install();
  RegionMover movers[2];
  LocalMeshConfig config;
  config.credits = 16;
  const base::ManualClock clock;
  LocalMesh mesh(config, clock, {{nullptr, &movers[0]}, {nullptr, &movers[1]}});
  Side sides[2] = {{mesh, 0, seed}, {mesh, 1, seed + 1}};
  for (Side& side : sides) {
    for (std::uint64_t i = 0; i < 32; ++i) side.free_slices.push_back(i * kLong);
  }
  std::atomic<int> settled{0};
  const auto run = [&](Side& side) {
    while (side.answered < asks) {
      side.turn();
      if (side.random.one_in(16)) std::this_thread::yield();
    }
    while (!side.open.empty()) side.work();
    settled.fetch_add(1);
    while (settled.load() < 2) side.work();  // the other one still needs our server
  };
  std::thread other([&] { run(sides[1]); });
  run(sides[0]);
  other.join();
  for (Side& side : sides) {
    CHECK(side.wrong == 0);
    CHECK(side.open.empty());
    CHECK(side.answered >= asks);
  }
}

}  // namespace local_threads_test
