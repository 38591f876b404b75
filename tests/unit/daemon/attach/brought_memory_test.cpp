// Session memory that the client makes and passes on: what the daemon takes, and what not.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <variant>

#include "ipc/lane_memory.h"
#include "ipc/layout.h"
#include "ipc/mapping.h"
#include "tests/unit/daemon/attach/attach_world.h"

namespace brought_memory_test {

using namespace control_fixture;

// A file as a client brings it: two lanes.
ipc::UniqueFd brought_file(std::uint64_t bytes = ipc::session_bytes(2)) {
  ipc::UniqueFd fd(::memfd_create("brought", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(fd.get(), static_cast<off_t>(bytes)) == 0);
  auto mapping = ipc::Mapping::map(fd.get(), 0, bytes);
  REQUIRE(mapping.has_value());
  std::memset(mapping->data(), 0xff, bytes);
  return fd;
}

// What the daemon says to it.
ipc::DaemonMessage bring(World& world, ipc::FdSocket& socket, int fd) {
  ipc::Hello hello;
  hello.lane_count = 2;
  hello.extensions = ipc::kClientMemory;
  World::send(socket, hello);
  World::Answer answer = world.receive(socket);
  const auto* welcome = std::get_if<ipc::Welcome>(&answer.message);
  REQUIRE(welcome != nullptr);
  REQUIRE(welcome->extensions == ipc::kClientMemory);
  CHECK(answer.fds.size() == 1);  // the bell
  World::send(socket, ipc::Mapped{}, std::span(&fd, 1));
  return world.receive(socket).message;
}

TEST_CASE("a client brings the session's memory, and the daemon seals it and writes the header") {
  World world;
  const ipc::UniqueFd fd = brought_file();
  auto mapping = ipc::Mapping::map(fd.get(), 0, ipc::session_bytes(2));
  REQUIRE(mapping.has_value());
  ipc::FdSocket socket = world.connect();
  CHECK(std::holds_alternative<ipc::Opened>(bring(world, socket, fd.get())));
  CHECK(world.plane.opened.size() == 1);
  const auto* header = reinterpret_cast<const ipc::SessionHeader*>(mapping->data());
  CHECK(header->magic == ipc::kSessionMagic);
  CHECK(header->layout_version == ipc::kLayoutVersion);
  CHECK(header->lane_count == 2);
  CHECK(header->state.word == 0);
  for (std::uint32_t lane = 0; lane < 2; ++lane) {
    const ipc::LaneMemory memory(ipc::lane_base(mapping->data(), lane));
    CHECK(memory.control()->submission_tail.word == 0);
    CHECK(memory.control()->completion_head.word == 0);
  }
  // Nobody takes a page away, and nobody maps it writable again.
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
  CHECK((::fcntl(fd.get(), F_GET_SEALS) & kSeals) == kSeals);
  // The client pays for it, so nothing of it counts here.
  CHECK(world.session_memory.bytes() == 0);
  socket.close();
  world.until([&] { return world.server.sessions() == 0; });
}

TEST_CASE("memory that a client brings is refused unless it is a whole memfd of the right size") {
  World world;
  constexpr std::uint64_t kPage = 4096;
  const std::uint64_t bytes = ipc::session_bytes(2);
  const auto is_refused = [&](int fd, const char* why) {
    ipc::FdSocket socket = world.connect();
    const ipc::DaemonMessage answer = bring(world, socket, fd);
    const auto* refused = std::get_if<ipc::Refused>(&answer);
    REQUIRE_MESSAGE(refused != nullptr, why);
    CHECK(refused->status == Status::invalid_argument);
    CHECK_MESSAGE(refused->reason.find(why) != std::string::npos, refused->reason);
    CHECK(world.hung_up(socket));
  };
  is_refused(brought_file(bytes - kPage).get(), "bytes, not");
  is_refused(brought_file(bytes + kPage).get(), "bytes, not");
  for (const std::uint64_t page : {std::uint64_t{0}, bytes / 2 / kPage, bytes / kPage - 1}) {
    const ipc::UniqueFd fd = brought_file();
    REQUIRE(::fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(page * kPage), kPage) == 0);
    is_refused(fd.get(), ("byte " + std::to_string(page * kPage) + " is missing").c_str());
  }
  const ipc::UniqueFd sparse(::memfd_create("sparse", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(sparse.get(), static_cast<off_t>(bytes)) == 0);
  is_refused(sparse.get(), "byte 0 is missing");
  const ipc::UniqueFd sealed = brought_file();
  REQUIRE(::fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_SEAL) == 0);
  is_refused(sealed.get(), "seals");
  const ipc::UniqueFd unwritable = brought_file();
  REQUIRE(::fcntl(unwritable.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE) == 0);
  is_refused(unwritable.get(), "mmap");
  const std::string path = "/proc/self/fd/" + std::to_string(unwritable.get());
  const ipc::UniqueFd reading(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  is_refused(reading.get(), "not open for reading and writing");
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const ipc::UniqueFd read_end(ends[0]);
  const ipc::UniqueFd write_end(ends[1]);
  is_refused(read_end.get(), "no memory");
  CHECK(world.plane.opened.empty());
}

TEST_CASE("where pages of clients may go to swap the daemon makes the memory itself") {
  World world({}, false);
  ipc::FdSocket socket = world.connect();
  ipc::Hello hello;
  hello.extensions = ipc::kClientMemory;
  World::send(socket, hello);
  World::Answer answer = world.receive(socket);
  const auto* welcome = std::get_if<ipc::Welcome>(&answer.message);
  REQUIRE(welcome != nullptr);
  CHECK(welcome->extensions == 0);
  CHECK(answer.fds.size() == ipc::kWelcomeFds);
}

TEST_CASE("a client that promised the session's memory and brings none, or too much, is hung up") {
  World world;
  const ipc::UniqueFd fd = brought_file();
  for (const std::size_t count : {0u, 2u}) {
    ipc::FdSocket socket = world.connect();
    ipc::Hello hello;
    hello.extensions = ipc::kClientMemory;
    World::send(socket, hello);
    REQUIRE(std::holds_alternative<ipc::Welcome>(world.receive(socket).message));
    const std::array<int, 2> fds = {fd.get(), fd.get()};
    World::send(socket, ipc::Mapped{}, std::span(fds).first(count));
    CHECK(world.hung_up(socket));
  }
  CHECK(world.plane.opened.empty());
}

std::size_t in_making(const World& world) {
  const auto all = world.server.attachments();
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [](const control::Attachment* one) {
        return one->state() == control::Attachment::State::making;
      }));
}

TEST_CASE("memory for an older client is made by its tenant's sealer, and nobody waits for it") {
  World world;
  ipc::FdSocket first = world.attach();
  const control::Tenant& tenant = world.server.attachments().front()->tenant();
  const std::uint64_t before = world.session_memory.bytes();
  const auto hold_sealer = [&] {
    auto go = std::make_unique<std::promise<void>>();
    world.sealers.submit(tenant, [waits = go->get_future().share()] { waits.wait(); });
    return go;
  };
  auto go = hold_sealer();
  ipc::FdSocket older = world.connect();
  World::send(older, ipc::Hello{});
  world.until([&] { return in_making(world) == 1; });
  // It counts before it is there. Another tenant does not wait.
  CHECK(world.session_memory.bytes() > before);
  ipc::FdSocket other = world.attach(1);
  go->set_value();
  CHECK(std::holds_alternative<ipc::Welcome>(world.receive(older).message));

  // Its handshake ends before its memory is there.
  go = hold_sealer();
  ipc::FdSocket late = world.connect();
  World::send(late, ipc::Hello{});
  world.until([&] { return in_making(world) == 1; });
  world.until([&] { return in_making(world) == 0; });
  go->set_value();
  for (ipc::FdSocket* socket : {&first, &older, &other, &late}) socket->close();
  world.until([&] { return world.server.sessions() == 0 && world.session_memory.bytes() == 0; });
}

}  // namespace brought_memory_test
