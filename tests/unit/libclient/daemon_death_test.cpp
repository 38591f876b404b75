// When a daemon that has devices dies, its socket hangs up before the devices are done.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "fault_world.h"

namespace fault_test {

// A daemon with a NIC: `late` writes what a queue pair still brings while the kernel ends the
// process, which `process` stands for.
struct NicWorld {
  explicit NicWorld() {
    REQUIRE(::pipe2(process, O_CLOEXEC) == 0);
    fd = ::memfd_create("pages", MFD_CLOEXEC);
    REQUIRE(::ftruncate(fd, kBytes) == 0);
    pages = map();
    late = map();
    world.daemon.reset();
    world.client.reset();
    world.fake.process_fd = process[0];
    world.daemon = std::make_unique<FakeDaemon>(world.fake, world.store);
    world.client.emplace(Client::connect(world.options).value());
    region = world.client->register_fd(fd, 0, kBytes, pages).value();
    REQUIRE(region.kind() == RegionKind::shared);
  }
  NicWorld(const NicWorld&) = delete;
  NicWorld& operator=(const NicWorld&) = delete;
  ~NicWorld() {
    world.client.reset();
    ::munmap(pages, kBytes);
    ::munmap(late, kBytes);
    end_process();
    ::close(process[0]);
    ::close(fd);
  }
  std::byte* map() const {
    void* const at = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    REQUIRE(at != MAP_FAILED);
    return static_cast<std::byte*>(at);
  }
  void end_process() {
    if (process[1] >= 0) ::close(process[1]);
    process[1] = -1;
  }
  // Whether a byte that comes now shows in the caller's page.
  bool is_reached(std::size_t at) const {
    late[at] = std::byte{0xee};
    return pages[at] == std::byte{0xee};
  }

  static constexpr std::size_t kBytes = 16 * 4096;
  World world;
  int process[2] = {-1, -1};
  int fd = -1;
  std::byte* pages = nullptr;
  std::byte* late = nullptr;
  Region region;
};

TEST_CASE("daemon killed while its NIC writes: no byte comes after the call has returned") {
  NicWorld nic;
  REQUIRE(nic.world.client->put("k", View(nic.region, 0, 4096)).ok());
  nic.world.daemon->stop();
  SUBCASE("a call") {
    std::thread caller([&] {
      const View view(nic.region, 8 * 4096, 4096);
      CHECK(nic.world.client->get("k", view, within(20'000)).status == Status::unreachable);
    });
    REQUIRE(nic.world.daemon->wait_until_holding(1));
    nic.world.die();
    caller.join();
  }
  SUBCASE("an asynchronous batch") {
    const Item item{"k", View(nic.region, 8 * 4096, 4096), 0, 0};
    PageResult result;
    std::vector<simm::Completed> out(1);
    REQUIRE(nic.world.client->get_async({&item, 1}, {&result, 1}, within(20'000)).has_value());
    REQUIRE(nic.world.daemon->wait_until_holding(1));
    nic.world.die();
    while (nic.world.client->drain(out) == 0) {
      pollfd entry{nic.world.client->completion_fd(), POLLIN, 0};
      REQUIRE(::poll(&entry, 1, 5000) == 1);
    }
    CHECK(result.status == Status::unreachable);
  }
  CHECK_FALSE(nic.is_reached(8 * 4096));
  CHECK(nic.is_reached(0));  // what was in no call stays shared
}

TEST_CASE("daemon dead to its last descriptor: the call returns at once, and memory stays shared") {
  NicWorld nic;
  REQUIRE(nic.world.client->put("k", View(nic.region, 0, 4096)).ok());
  nic.world.daemon->stop();
  std::thread caller([&] {
    const View view(nic.region, 8 * 4096, 4096);
    CHECK(nic.world.client->get("k", view, within(20'000)).status == Status::unreachable);
  });
  REQUIRE(nic.world.daemon->wait_until_holding(1));
  nic.end_process();
  nic.world.die();
  caller.join();
  CHECK(nic.world.client->stats().taken_back == 0);
  CHECK(nic.is_reached(8 * 4096));
}

TEST_CASE("a session that a living daemon ends is over with its last operation") {
  NicWorld nic;
  REQUIRE(nic.world.client->put("k", View(nic.region, 0, 4096)).ok());
  nic.world.daemon->stop();
  std::thread caller([&] {
    const View view(nic.region, 8 * 4096, 4096);
    const Status status = nic.world.client->get("k", view, within(20'000)).status;
    CHECK((status == Status::poisoned || status == Status::unreachable));
  });
  REQUIRE(nic.world.daemon->wait_until_holding(1));
  nic.world.daemon->poison();
  caller.join();
  CHECK(nic.world.client->stats().taken_back == 0);
}

}  // namespace fault_test
