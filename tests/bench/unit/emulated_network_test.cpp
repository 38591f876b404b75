// Raw TCP between two hosts of an emulated network. Bounds of time are lower ones only: a busy
// machine is slower.
#include "daemon/tools/simm-bench/emulated_network.h"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

#include "daemon/tools/simm-bench/raw_stream.h"

namespace simm::bench::emulated_network_test {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct Scene {
  Expected<EmulatedNetwork> network = EmulatedNetwork::start(2, 11);
  [[nodiscard]] bool is_possible() const {
    if (network) return true;
    MESSAGE("SKIPPED: " << network.error().context);
    return false;
  }
  [[nodiscard]] Expected<RawStream> stream() const {
    return RawStream::start({network->path(1), EmulatedNetwork::address(1)},
                            {network->path(0), EmulatedNetwork::address(0)}, 2);
  }
};

template <typename Call>
milliseconds time_of(Call&& call) {
  const auto start = steady_clock::now();
  const Outcome done = call();
  INFO((done ? "" : done.error().context));
  REQUIRE(done);
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - start);
}

TEST_CASE("an emulated network: delay and rate hold, each way") {
  Scene scene;
  if (!scene.is_possible()) return;
  EmulatedNetwork& network = *scene.network;
  Expected<RawStream> stream = scene.stream();
  REQUIRE(stream);
  network.shape_all({20 * base::kNsPerMs});
  CHECK(time_of([&] { return stream->get(2); }) >= milliseconds(40));
  network.shape_all({});
  network.shape(0, 1, {0, 2'000'000});
  CHECK(time_of([&] { return stream->put(400'000); }) >= milliseconds(200));
  network.shape_all({});
  network.shape(1, 0, {0, 2'000'000});
  CHECK(time_of([&] { return stream->get(400'000); }) >= milliseconds(200));
  CHECK(network.packets(0, 1, PacketFate::arrives) > 0);
  CHECK(network.packets(0, 1, PacketFate::lost) == 0);
}

TEST_CASE("an emulated network: TCP carries all bytes over what is lost and late") {
  Scene scene;
  if (!scene.is_possible()) return;
  Expected<RawStream> stream = scene.stream();
  REQUIRE(stream);
  LineShape shape{base::kNsPerMs};
  shape.loss_ppm = 20'000;
  shape.reorder_ppm = 20'000;
  scene.network->shape_all(shape);
  CHECK(stream->put(3 << 20));
  CHECK(stream->get(3 << 20));
  CHECK(scene.network->packets(0, 1, PacketFate::lost) > 0);
  CHECK(scene.network->packets(1, 0, PacketFate::lost) > 0);
}

TEST_CASE("an emulated network: a line that swallows long packets lets short ones pass") {
  Scene scene;
  if (!scene.is_possible()) return;
  Expected<RawStream> stream = scene.stream();
  REQUIRE(stream);
  LineShape shape;
  shape.packet_bytes_max = 1'000;
  scene.network->shape_all(shape);
  CHECK(stream->put(200));
  CHECK(stream->get(200));
  CHECK(scene.network->packets(0, 1, PacketFate::too_long) == 0);
  Outcome done = Done{};
  std::thread caller([&] { done = stream->put(100'000); });
  while (scene.network->packets(0, 1, PacketFate::too_long) < 3) std::this_thread::yield();
  scene.network->shape_all({});
  caller.join();
  CHECK(done);
}

TEST_CASE("an emulated network: what can not be made says why") {
  const Expected<EmulatedNetwork> one = EmulatedNetwork::start(1, 1);
  REQUIRE_FALSE(one);
  CHECK(one.status() == Status::invalid_argument);
  CHECK(one.error().context == "hosts 1: from 2 to 8");
}

}  // namespace simm::bench::emulated_network_test
