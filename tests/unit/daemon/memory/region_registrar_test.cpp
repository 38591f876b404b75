#include "daemon/memory/region_registrar.h"

#include <doctest/doctest.h>

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "daemon/memory/copy_untrusted.h"
#include "daemon/memory/helper/adopt_helper.h"
#include "daemon/memory/helper/helper_protocol.h"
#include "tests/unit/daemon/memory/forked_client.h"
#include "tests/unit/daemon/memory/memory_fixture.h"

namespace region_registrar_test {

using namespace simm::memory;
using namespace simm::memory::testing;
using simm::Expected;
using simm::Status;
using Kind = simm::ipc::RegionRequestKind;

constexpr std::uint64_t kBytes = 64 * kPage;
constexpr std::uint64_t kPatienceNs = 60'000'000'000;

// A daemon's part: a helper, budgets, a registrar.
struct Daemon {
  std::optional<AdoptClient> helper;
  pid_t helper_pid = -1;
  PinBudget pins{"session", 1ull << 30, 100};
  TouchBudget touches{1ull << 30};
  std::optional<RegionRegistrar> registrar;

  explicit Daemon(const HelperOptions& options, const RegionPolicy& policy) {
    auto started = start_adopt_helper(options);
    REQUIRE(started);
    helper.emplace(std::move(started->socket));
    helper_pid = started->pid;
    registrar.emplace(policy, &*helper, "", ForeignArena{});
  }
  ~Daemon() {
    helper.reset();
    ::waitpid(helper_pid, nullptr, 0);  // it ends because its socket was closed
  }
  Expected<MadeRegion> make(const simm::ipc::PeerIdentity& client,
                            const simm::ipc::RegisterRegion& request, simm::ipc::UniqueFd fd = {}) {
    RegionOwner owner{client, pins, touches, copier};
    auto made = registrar->make(owner, request, std::move(fd));
    copier = owner.copier;
    return made;
  }
  std::shared_ptr<ForeignCopier> copier;
};

simm::ipc::RegisterRegion request_of(Kind kind, const ForkedClient& client) {
  return {1, kind, client.address(), client.length(), 0, false, "pool"};
}

ForkedClientSpec anonymous_client(int sharing) {
  ForkedClientSpec spec;
  static char* memory = nullptr;
  spec.set_up = [sharing] {
    memory = map_anonymous(kBytes, sharing);
    std::strcpy(memory + 5000, "from the client");
    return report_of(memory, kBytes);
  };
  spec.command = [](char) { std::strcpy(memory + 9000, memory + 7000); };
  return spec;
}

void check_both_ways(const RegionMemory& memory, ForkedClient& client) {
  std::vector<std::byte> own(16);
  REQUIRE(copy_untrusted(own.data(), whole(memory), 5000, own.size()) == Status::ok);
  CHECK(std::memcmp(own.data(), "from the client", 16) == 0);
  std::memcpy(own.data(), "from the daemon", 16);
  REQUIRE(copy_untrusted(whole(memory), 7000, own.data(), own.size()) == Status::ok);
  client.command('c');  // copies it on to where we look next
  std::memset(own.data(), 0, own.size());
  REQUIRE(copy_untrusted(own.data(), whole(memory), 9000, own.size()) == Status::ok);
  CHECK(std::memcmp(own.data(), "from the daemon", 16) == 0);
}

}  // namespace region_registrar_test

TEST_CASE("an anonymous shared mapping is adopted: no copy, both sides see the same bytes") {
  using namespace region_registrar_test;
  if (!is_root()) return;
  ForkedClient client(anonymous_client(MAP_SHARED));
  for (const Kind kind : {Kind::automatic, Kind::adopted}) {
    Daemon daemon({}, {});
    auto made = daemon.make(*client.identity, request_of(kind, client));
    REQUIRE(made);
    CHECK(made->kind == Kind::adopted);
    CHECK(made->reason.find("adopted") == 0);
    REQUIRE(made->memory != nullptr);
    CHECK(made->memory->region().kind == RegionKind::adopted);
    CHECK(daemon.pins.bytes() == kBytes);
    check_both_ways(*made->memory, client);
    made->memory.reset();
    CHECK(daemon.pins.bytes() == 0);
  }
}

TEST_CASE("a part of a mapping that starts anywhere is adopted") {
  using namespace region_registrar_test;
  if (!is_root()) return;
  ForkedClient client(anonymous_client(MAP_SHARED));
  Daemon daemon({}, {});
  auto request = request_of(Kind::adopted, client);
  request.address += 4999;
  request.length = 5 * kPage + 3;
  auto made = daemon.make(*client.identity, request);
  REQUIRE(made);
  std::byte letter{};
  REQUIRE(copy_untrusted(&letter, whole(*made->memory), 1, 1) == Status::ok);
  CHECK(letter == std::byte{'f'});
}

TEST_CASE("private memory is staged, with the reason, unless foreign is configured") {
  using namespace region_registrar_test;
  if (!is_root()) return;
  ForkedClient client(anonymous_client(MAP_PRIVATE));
  Daemon daemon({}, {});
  auto made = daemon.make(*client.identity, request_of(Kind::automatic, client));
  REQUIRE(made);
  CHECK(made->kind == Kind::staged);
  CHECK(made->memory == nullptr);
  CHECK(made->reason.find("rw-s") != std::string::npos);
  CHECK(daemon.pins.regions() == 0);
  CHECK(daemon.make(*client.identity, request_of(Kind::adopted, client)).status() ==
        Status::permission_denied);
  CHECK(daemon.make(*client.identity, request_of(Kind::foreign, client)).status() ==
        Status::permission_denied);
}

TEST_CASE("a root client is served only where that is configured") {
  using namespace region_registrar_test;
  if (!is_root()) return;
  ForkedClientSpec spec = anonymous_client(MAP_SHARED);
  spec.uid = 0;
  spec.gid = 0;
  ForkedClient client(spec);
  {
    Daemon daemon({}, {});
    CHECK(daemon.make(*client.identity, request_of(Kind::adopted, client)).status() ==
          Status::permission_denied);
  }
  HelperOptions options;
  options.root_clients = true;
  Daemon daemon(options, {});
  auto made = daemon.make(*client.identity, request_of(Kind::adopted, client));
  REQUIRE(made);
  check_both_ways(*made->memory, client);
}

TEST_CASE("a memory file that comes along is shared, odd descriptors and ranges are not") {
  using namespace region_registrar_test;
  ForkedClientSpec spec;
  spec.uid = ::getuid();
  spec.gid = ::getgid();
  ForkedClient client(spec);
  Daemon daemon({}, {});
  const auto ask = [&](Kind kind, std::uint64_t offset, std::uint64_t length,
                       simm::ipc::UniqueFd fd) {
    simm::ipc::RegisterRegion request{1, kind, 0x10000, length, offset, fd.valid(), "x"};
    return daemon.make(*client.identity, request, std::move(fd));
  };
  auto made = ask(Kind::automatic, kPage, kBytes - kPage, plain_memfd(kBytes));
  REQUIRE(made);
  CHECK(made->kind == Kind::shared);
  CHECK(made->reason.find("it can shrink") != std::string::npos);
  auto sealed = plain_memfd(kBytes, MFD_ALLOW_SEALING);
  REQUIRE(::fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0);
  made = ask(Kind::shared, 0, kBytes, std::move(sealed));
  REQUIRE(made);
  CHECK(made->reason.find("it can not shrink") != std::string::npos);

  CHECK(ask(Kind::shared, 0, 2 * kBytes, plain_memfd(kBytes)).status() == Status::invalid_argument);
  CHECK(ask(Kind::shared, 0, kBytes, simm::ipc::UniqueFd(::open("/dev/null", O_RDWR))).status() ==
        Status::invalid_argument);
  CHECK(ask(Kind::shared, 0, kBytes, {}).status() == Status::invalid_argument);
  CHECK(ask(Kind::shared, 0, 1ull << 40, plain_memfd(1ull << 40)).status() ==
        Status::out_of_memory);  // more than the pin budget
  made = ask(Kind::automatic, 0, 1ull << 40, plain_memfd(1ull << 40));
  REQUIRE(made);
  CHECK(made->kind == Kind::staged);
  CHECK(made->reason.find("pin budget") != std::string::npos);
}

TEST_CASE("with several tenants punchable memory is staged, and the reason names the remedy") {
  using namespace region_registrar_test;
  ForkedClientSpec spec = anonymous_client(MAP_SHARED);
  spec.uid = ::getuid();
  spec.gid = ::getgid();
  ForkedClient client(spec);
  RegionPolicy policy;
  policy.several_tenants = true;
  Daemon daemon({}, policy);
  const auto ask = [&](Kind kind, int fd) {
    simm::ipc::RegisterRegion request{1, kind, 0x10000, kBytes, 0, true, "x"};
    return daemon.make(*client.identity, request, duplicate(fd));
  };
  for (const Kind kind : {Kind::automatic, Kind::shared}) {
    auto made = ask(kind, plain_memfd(kBytes).get());
    REQUIRE(made);
    CHECK(made->kind == Kind::staged);
    CHECK(made->memory == nullptr);
    CHECK(made->reason.find("F_SEAL_SHRINK") != std::string::npos);
    CHECK(daemon.pins.regions() == 0);
  }
  auto sealed = plain_memfd(kBytes, MFD_ALLOW_SEALING);
  REQUIRE(::fcntl(sealed.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) == 0);
  auto made = ask(Kind::shared, sealed.get());
  REQUIRE(made);
  CHECK(made->kind == Kind::shared);
  CHECK(made->reason.find(", sealed") != std::string::npos);
  auto again = ask(Kind::shared, sealed.get());  // as a forked child does
  REQUIRE(again);
  CHECK(again->kind == Kind::shared);
  CHECK(again->memory->region().base == made->memory->region().base);
  // Nobody asks the helper for what is not used.
  auto adopted = daemon.make(*client.identity, request_of(Kind::automatic, client));
  REQUIRE(adopted);
  CHECK(adopted->kind == Kind::staged);
  CHECK(adopted->reason.find("allocate_region") != std::string::npos);
  CHECK(daemon.make(*client.identity, request_of(Kind::adopted, client)).status() ==
        Status::unsupported);
}

TEST_CASE("NICs are told of every region that is mapped, and of no other") {
  using namespace region_registrar_test;
  class Nics final : public RegionAttach {
  public:
    std::unique_ptr<RegionKeys> attach(const Region& region) override {
      class Keys final : public RegionKeys {};
      told.push_back(region.length);
      CHECK(region.base != nullptr);
      return std::make_unique<Keys>();
    }
    std::vector<std::uint64_t> told;
  };
  ForkedClientSpec spec;
  spec.uid = ::getuid();
  spec.gid = ::getgid();
  ForkedClient client(spec);
  PinBudget pins("session", 1ull << 30, 100);
  TouchBudget touches(0);
  RegionOwner owner{*client.identity, pins, touches, nullptr};
  Nics nics;
  RegionRegistrar registrar({}, nullptr, "no helper", {}, &nics);
  simm::ipc::RegisterRegion request{1, Kind::automatic, 0x10000, kBytes, 0, true, "x"};
  auto made = registrar.make(owner, request, plain_memfd(kBytes));
  REQUIRE(made);
  REQUIRE(made->memory != nullptr);
  CHECK(made->memory->region().keys != nullptr);
  request.has_fd = false;
  CHECK(registrar.make(owner, request, {})->kind == Kind::staged);
  request.has_fd = true;
  request.length = 2 * kBytes;  // not inside the file
  CHECK(registrar.make(owner, request, plain_memfd(kBytes))->kind == Kind::staged);
  CHECK(nics.told == std::vector<std::uint64_t>{kBytes});
}

TEST_CASE("memory of a GPU is refused where it is switched off") {
  using namespace region_registrar_test;
  ForkedClientSpec spec;
  spec.uid = ::getuid();
  spec.gid = ::getgid();
  ForkedClient client(spec);
  Daemon daemon({}, {});
  simm::ipc::RegisterRegion request{1, Kind::gpu, 0x10000, kBytes, 0, false, "x"};
  CHECK(daemon.make(*client.identity, request).status() == Status::unsupported);
  request.kind = Kind::staged;
  CHECK(daemon.make(*client.identity, request)->kind == Kind::staged);
  request.has_fd = true;  // but none came
  CHECK(daemon.make(*client.identity, request).status() == Status::invalid_argument);
}

TEST_CASE("without a helper, or with one that has gone, memory is staged with the reason") {
  using namespace region_registrar_test;
  ForkedClientSpec spec = anonymous_client(MAP_SHARED);
  spec.uid = ::getuid();
  spec.gid = ::getgid();
  ForkedClient client(spec);
  PinBudget pins("session", 1ull << 30, 100);
  TouchBudget touches(0);
  RegionOwner owner{*client.identity, pins, touches, nullptr};
  RegionRegistrar alone({}, nullptr, "no adoption helper: simmd was started without privilege", {});
  auto made = alone.make(owner, request_of(Kind::automatic, client), {});
  REQUIRE(made);
  CHECK(made->kind == Kind::staged);
  CHECK(made->reason.find("without privilege") != std::string::npos);

  auto pair = simm::ipc::FdSocket::pair();
  REQUIRE(pair);
  AdoptClient orphan(std::move(pair->first));
  pair->second.close();
  RegionRegistrar registrar({}, &orphan, "", {});
  for (int i = 0; i < 2; ++i) {
    made = registrar.make(owner, request_of(Kind::automatic, client), {});
    REQUIRE(made);
    CHECK(made->kind == Kind::staged);
    CHECK(made->reason.find("has gone") != std::string::npos);
  }
  RegionRegistrar off({false, false}, &orphan, "", {});
  CHECK(off.make(owner, request_of(Kind::adopted, client), {}).error().context.find("configured") !=
        std::string::npos);
}

TEST_CASE("a helper that answered late once is asked again when it has answered") {
  using namespace region_registrar_test;
  ForkedClientSpec spec = anonymous_client(MAP_SHARED);
  ForkedClient client(spec);
  auto pair = simm::ipc::FdSocket::pair();
  REQUIRE(pair);
  AdoptClient daemon(std::move(pair->first));
  simm::ipc::FdSocket helper = std::move(pair->second);
  const auto adopt = [&] {
    return daemon.adopt(*client.identity, client.address(), client.length()).error();
  };
  // The next request that lies there, refused with this reason.
  const auto refuse_one = [&](std::string_view why) {
    simm::memory::HelperRequest request;
    const auto taken = helper.receive(std::as_writable_bytes(std::span(&request, 1)), kPatienceNs);
    CHECK(taken.result == simm::ipc::SocketResult::done);
    simm::memory::HelperReply reply;
    reply.request_id = request.request_id;
    reply.status = static_cast<std::int32_t>(Status::permission_denied);
    why.copy(reply.reason, sizeof reply.reason - 1);
    CHECK(helper.try_send(std::as_bytes(std::span(&reply, 1))) == simm::ipc::SocketResult::done);
  };
  CHECK(adopt().context.find("in time") != std::string::npos);
  // Nothing is asked meanwhile: nobody waits for who may never answer.
  CHECK(adopt().context.find("in time") != std::string::npos);
  refuse_one("late");
  simm::memory::HelperRequest unasked;
  CHECK(helper.try_receive(std::as_writable_bytes(std::span(&unasked, 1))).result ==
        simm::ipc::SocketResult::would_block);
  std::thread answers([&] { refuse_one("asked again"); });
  const simm::Error answered = adopt();
  answers.join();
  CHECK(answered.status == Status::permission_denied);
  CHECK(answered.context == "asked again");
}

TEST_CASE("a helper without privilege refuses, and says which one it lacks") {
  using namespace region_registrar_test;
  ForkedClientSpec spec = anonymous_client(MAP_SHARED);
  ForkedClient client(spec);
  // The helper of an unprivileged daemon: the fork drops what this test may have.
  auto pair = simm::ipc::FdSocket::pair();
  REQUIRE(pair);
  const pid_t pid = ::fork();
  if (pid == 0) {
    pair->first.close();
    if (::getuid() == 0 && (::setgid(23456) != 0 || ::setuid(23456) != 0)) ::_exit(1);
    auto helper = AdoptHelper::enter({});
    if (helper) helper->serve(std::move(pair->second));
    ::_exit(0);
  }
  pair->second.close();
  {
    AdoptClient daemon(std::move(pair->first));
    auto adopted = daemon.adopt(*client.identity, client.address(), client.length());
    CHECK(adopted.status() == Status::permission_denied);
    CHECK(adopted.error().context.find("CAP_CHECKPOINT_RESTORE") != std::string::npos);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  CHECK(status == 0);
}
