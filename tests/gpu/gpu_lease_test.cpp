// Memory of a GPU that clients lend: the tier grows by it, and it is free again when the client
// wants it back, whoever hangs or dies meanwhile.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/gpu/gpu_world.h"
#include "tests/support/number_from.h"
#include "tests/support/raw_client.h"

namespace gpu_lease_test {

using namespace gpu_tests;
using simm::GpuLease;
using simm::View;

constexpr std::uint64_t kBytes = 4 << 20;
constexpr std::uint64_t kExtent = 64 << 20;
constexpr const char* kGpu = "GPU-a0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a000";
constexpr const char* kLender = R"(, "tenants": [{"name": "default", "gpu_lend": "all"}])";
constexpr const char* kReserve = R"(, "reserve_bytes": "64MiB")";

struct LendingWorld : GpuWorld {
  explicit LendingWorld(const std::string& keys = kLender, const std::string& gpu_keys = kReserve)
      : GpuWorld(true, keys, gpu_keys) {}

  [[nodiscard]] std::uint64_t figure(const char* name) const {
    return daemon.report("gpus").at(0).at(name).get<std::uint64_t>();
  }
  [[nodiscard]] bool has_event(const std::string& kind) const {
    return eventually([&] { return !daemon.report("events", "0 " + kind).at("events").empty(); });
  }
};

// A client with a region on the GPU, and an object that it gets again and again.
struct Engine {
  explicit Engine(const GpuWorld& world) : client(world.connect()) {
    auto made = client.register_region(buffer.pointer(), kBytes);
    INFO((made ? std::string() : made.error().context));
    REQUIRE(made.has_value());
    region = std::move(*made);
    for (std::uint64_t i = 0; i < kBytes; ++i) buffer.seen()[i] = pattern(1, i);
    REQUIRE(client.put("page", View(region, 0, kBytes)).status == Status::ok);
  }
  [[nodiscard]] bool gets() {
    buffer.fill(std::byte{0xcd});
    simm::CallOptions patient;  // beside other tests
    patient.timeout_ms = 60'000;
    if (client.get("page", View(region, 0, kBytes), patient).status != Status::ok) return false;
    for (std::uint64_t i = 0; i < kBytes; ++i) {
      if (buffer.seen()[i] != pattern(1, i)) return false;
    }
    return true;
  }
  GpuLease lend(std::uint64_t bytes, std::uint32_t notice_ms = 10'000) {
    auto lease = client.lend_gpu("0", bytes, notice_ms);
    // A helper that gets no CPU for seconds does not answer in time.
    while (lease.status() == Status::unreachable) lease = client.lend_gpu("0", bytes, notice_ms);
    INFO((lease ? std::string() : lease.error().context));
    REQUIRE(lease.has_value());
    return std::move(*lease);
  }

  simm::Client client;
  const GpuBuffer buffer{kBytes};
  simm::Region region;
};

// A process that gets the object into a region of its own until it is killed.
pid_t fork_reader(const GpuWorld& world) {
  const pid_t reader = ::fork();
  if (reader != 0) return reader;
  simm::Client client = world.connect();
  const GpuBuffer buffer(kBytes);
  const auto region = client.register_region(buffer.pointer(), kBytes);
  simm::CallOptions impatient;
  impatient.timeout_ms = 300;
  while (region.has_value()) (void)client.get("page", View(*region, 0, kBytes), impatient);
  ::_exit(1);
}

// What the refusal says, and that it is one of that status.
std::string refusal(simm::Client& client, const std::string& gpu, std::uint64_t bytes,
                    std::uint32_t notice_ms, Status status) {
  const auto lease = client.lend_gpu(gpu, bytes, notice_ms);
  if (lease.has_value()) return "it is lent";
  CHECK(simm::status_name(lease.status()) == std::string(simm::status_name(status)));
  return lease.error().context;
}

bool says(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  return text.find(part) != text.npos;
}

}  // namespace gpu_lease_test

TEST_CASE("gpu lease: the tier grows by what is lent, and it is free when the reclaim returns") {
  using namespace gpu_lease_test;
  const LendingWorld world;
  Engine engine(world);
  std::vector<std::int64_t> took_us;
  for (int round = 0; round < 20; ++round) {
    GpuLease lease = engine.lend(kExtent);
    CHECK(lease.bytes() == kExtent);
    CHECK(world.figure("lent_bytes") == kExtent);
    CHECK(world.figure("leases") == 1);
    const std::uint64_t hits = world.figure("tier_hits");
    for (int time = 0; time < 3; ++time) CHECK(engine.gets());
    CHECK(world.figure("tier_hits") == hits + 1);
    CHECK(world.figure("tier_bytes") == kExtent);
    const auto began = std::chrono::steady_clock::now();
    const simm::Outcome back = lease.reclaim();
    took_us.push_back(std::chrono::duration_cast<std::chrono::microseconds>(
                          std::chrono::steady_clock::now() - began)
                          .count());
    CHECK(back.has_value());
    // At once, not some time later.
    CHECK(world.figure("tier_bytes") == 0);
    CHECK(world.figure("lent_bytes") == 0);
    CHECK(lease.bytes() == 0);
    CHECK(lease.reclaim().has_value());
    CHECK(engine.gets());
  }
  std::sort(took_us.begin(), took_us.end());
  MESSAGE("a reclaim of 64 MiB took " << took_us[10] << " us in the middle, " << took_us.back()
                                      << " us at most");
  CHECK(world.has_event("gpu_lent"));
  CHECK(world.has_event("gpu_reclaimed"));
  CHECK(world.figure("restarts") == 0);
}

TEST_CASE("gpu lease: one lease ends, the memory of others stays lent") {
  using namespace gpu_lease_test;
  const LendingWorld world;
  Engine engine(world);
  GpuLease first = engine.lend(kExtent + kExtent / 2);
  GpuLease second = engine.lend(kExtent / 2 + kExtent);
  // Two halves are an extent.
  CHECK(world.figure("tier_bytes_max") == 3 * kExtent);
  CHECK(first.reclaim().has_value());
  CHECK(world.figure("tier_bytes_max") == kExtent + kExtent / 2);
  {
    const GpuLease gone = std::move(second);  // its end is a reclaim
    CHECK(gone.bytes() == kExtent + kExtent / 2);
  }
  CHECK(world.figure("tier_bytes_max") == 0);
  CHECK(world.figure("leases") == 0);
  // What an operator allows comes on top.
  CHECK(world.daemon.report("gpus", "64MiB").is_array());
  const GpuLease third = engine.lend(kExtent);
  CHECK(world.figure("tier_bytes_max") == 2 * kExtent);
}

TEST_CASE("gpu lease: what is refused, with field, value and remedy") {
  using namespace gpu_lease_test;
  const LendingWorld world(kLender, R"(, "reserve_bytes": "64MiB", "lend_bytes_max": "256MiB")");
  Engine engine(world);
  simm::Client& client = engine.client;
  CHECK(says(refusal(client, kGpu, kExtent - 1, 1000, Status::invalid_argument),
             "bytes = 67108863: lend from 67108864 bytes"));
  CHECK(says(refusal(client, kGpu, 5 * kExtent, 1000, Status::invalid_argument),
             "gpu.lend_bytes_max = 268435456"));
  CHECK(says(refusal(client, kGpu, kExtent, 0, Status::invalid_argument), "notice_ms = 0"));
  CHECK(says(refusal(client, kGpu, kExtent, 10'001, Status::invalid_argument), "to 10000"));
  CHECK(says(refusal(client, "7", kExtent, 1000, Status::invalid_argument), "no such GPU"));
  CHECK(says(refusal(client, "cuda", kExtent, 1000, Status::invalid_argument), "gpu = \"cuda\""));
  const std::string other = "GPU-b0a0a0a0-a0a0-a0a0-a0a0-a0a0a0a0a000";
  CHECK(says(refusal(client, other, kExtent, 1000, Status::permission_denied),
             "registered no memory of this GPU"));
  {
    const GpuLease most = engine.lend(3 * kExtent);
    CHECK(says(refusal(client, kGpu, 2 * kExtent, 1000, Status::out_of_memory),
               "this tenant lends 201326592 bytes of this GPU already"));
  }
  // The GPU has not got so much.
  world.break_driver("memory=134217728");
  CHECK(says(refusal(client, kGpu, 2 * kExtent, 1000, Status::out_of_memory),
             "of its memory 67108864 are free beyond gpu.reserve_bytes"));
  CHECK(world.figure("lent_bytes") == 0);
  const GpuLease less = engine.lend(kExtent);
  CHECK(less.bytes() == kExtent);
  // A region that has gone was there: an engine lets go of its pages first.
  REQUIRE(engine.region.deregister().has_value());
  world.heal();
  CHECK(engine.lend(kExtent).bytes() == kExtent);

  const LendingWorld strict(R"(, "tenants": [{"name": "default", "gpu_lend": ")" + other + "\"}]");
  Engine stranger(strict);
  CHECK(says(refusal(stranger.client, kGpu, kExtent, 1000, Status::permission_denied),
             "tenant default may not lend memory of this GPU: name it in tenants[].gpu_lend"));
  const GpuWorld off(false, kLender);
  simm::Client client_of_off = off.connect();
  (void)client_of_off.lend_gpu(kGpu, kExtent);
  CHECK(client_of_off.lend_gpu(kGpu, kExtent).status() == Status::permission_denied);
}

TEST_CASE("gpu lease: it ends with the session, also when the lender is killed") {
  using namespace gpu_lease_test;
  const LendingWorld world;
  Engine other(world);
  int ready[2];
  REQUIRE(::pipe(ready) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    Engine lender(world);
    const GpuLease lease = lender.lend(2 * kExtent);
    for (int time = 0; time < 3; ++time) (void)lender.gets();
    if (::write(ready[1], "r", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  char byte = 0;
  REQUIRE(::read(ready[0], &byte, 1) == 1);
  CHECK(world.figure("lent_bytes") == 2 * kExtent);
  CHECK(world.figure("tier_bytes") == kExtent);
  send_signal(child, SIGKILL);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  const auto began = std::chrono::steady_clock::now();
  CHECK(eventually([&] { return world.figure("tier_bytes") == 0; }));
  MESSAGE("memory of a lender that was killed: free after "
          << std::chrono::duration_cast<std::chrono::milliseconds>(
                 std::chrono::steady_clock::now() - began)
                 .count()
          << " ms");
  CHECK(world.figure("lent_bytes") == 0);
  CHECK(world.figure("leases") == 0);
  CHECK(other.gets());
  for (int i : ready) ::close(i);
}

TEST_CASE("gpu lease: the helper dies, or the daemon, and no lease outlives its session") {
  using namespace gpu_lease_test;
  LendingWorld world;
  Engine engine(world);
  GpuLease lease = engine.lend(kExtent);
  for (int time = 0; time < 3; ++time) CHECK(engine.gets());
  send_signal(world.helper(), SIGKILL);
  REQUIRE(eventually([&] { return world.figure("restarts") == 1 && engine.gets(); }));
  // The next helper has the lease as well.
  CHECK(lease.bytes() == kExtent);
  const std::uint64_t hits = world.figure("tier_hits");
  CHECK(eventually([&] { return engine.gets() && world.figure("tier_hits") > hits; }));
  send_signal(world.helper(), SIGKILL);
  CHECK(lease.reclaim().has_value());  // dead, or new: the memory is free
  GpuLease again = [&] {
    for (;;) {
      auto made = engine.client.lend_gpu(kGpu, kExtent);
      if (made) return std::move(*made);
      CHECK(made.status() == Status::unreachable);
    }
  }();
  world.daemon.signal(SIGKILL);
  CHECK(world.daemon.wait() == 1000 + SIGKILL);
  CHECK(eventually([&] { return engine.client.ping({}) != Status::ok && again.bytes() == 0; }));
  CHECK(again.reclaim().has_value());
  REQUIRE(world.daemon.start());
  CHECK(eventually([&] { return engine.client.ping({}) == Status::ok; }));
  CHECK(world.daemon.report("gpus").at(0).at("lent_bytes") == 0);
}

TEST_CASE("gpu lease: a driver that hangs costs the lender its notice, and the helper its life") {
  using namespace gpu_lease_test;
  const LendingWorld world;
  Engine engine(world);
  for (const bool is_patient : {false, true}) {
    CAPTURE(is_patient);
    GpuLease lease = engine.lend(kExtent, is_patient ? 10'000 : 1);
    CHECK(eventually([&] { return engine.gets() && world.figure("tier_bytes") == kExtent; }));
    const std::uint64_t restarts = world.figure("restarts");
    world.break_driver("copy=hang");
    const Status status = lease.reclaim().status();
    // Long before the notice: the helper is killed, and its memory is free with it.
    CHECK(status == (is_patient ? Status::ok : Status::timeout));
    CHECK(eventually([&] { return world.figure("restarts") > restarts; }));
    world.heal();
    CHECK(world.figure("tier_bytes") == 0);
    CHECK(lease.bytes() == 0);
    CHECK(eventually([&] { return engine.gets(); }));
  }
}

TEST_CASE("gpu lease: others take memory of the GPU while some is lent, and the tier gives way") {
  using namespace gpu_lease_test;
  const LendingWorld world;
  Engine engine(world);
  GpuLease lease = engine.lend(2 * kExtent);
  for (int time = 0; time < 3; ++time) CHECK(engine.gets());
  CHECK(world.figure("tier_bytes") == kExtent);
  world.break_driver("memory=100000000");  // less is left than the reserve
  CHECK(eventually([&] { return world.figure("tier_bytes") == 0; }));
  for (int time = 0; time < 3; ++time) CHECK(engine.gets());
  CHECK(world.figure("tier_bytes") == 0);
  CHECK(lease.bytes() == 2 * kExtent);
  CHECK(lease.reclaim().has_value());
}

TEST_CASE("gpu lease: a client that floods lend and reclaim, and lies, harms nobody") {
  using namespace gpu_lease_test;
  namespace ipc = simm::ipc;
  const LendingWorld world(kLender, R"(, "reserve_bytes": "64MiB", "tier_bytes": "64MiB")");
  Engine victim(world);
  const pid_t helper = world.helper();
  {
    Engine attacker(world);
    for (int round = 0; round < 300; ++round) {
      GpuLease lease = attacker.lend(kExtent);
      if (round % 10 == 0) CHECK(victim.gets());
      if (round % 2 == 0) CHECK(lease.reclaim().has_value());
    }
    std::vector<GpuLease> all;  // all that it can
    for (;;) {
      auto lease = attacker.client.lend_gpu(kGpu, kExtent);
      if (!lease) {
        CHECK(says(lease.error().context, "64 leases: reclaim one"));
        break;
      }
      all.push_back(std::move(*lease));
    }
    CHECK(all.size() == 64);
    CHECK(victim.gets());
  }
  auto liar = simm::test_support::RawClient::attached(world.daemon.socket());
  for (const std::uint64_t lease : {0ul, 1ul, ~0ul}) {
    const auto answer = liar.ask(ipc::GpuReclaim{7, lease});
    REQUIRE((answer && std::holds_alternative<ipc::LeaseReply>(*answer)));
    CHECK(std::get<ipc::LeaseReply>(*answer).status == Status::invalid_argument);
  }
  ipc::GpuLend lie{8, {}, ~std::uint64_t{0}, 1000};
  lie.uuid.fill(0xa0);
  lie.uuid[15] = 0;
  const auto answer = liar.ask(lie);
  REQUIRE((answer && std::holds_alternative<ipc::LeaseReply>(*answer)));
  CHECK(std::get<ipc::LeaseReply>(*answer).status == Status::permission_denied);
  // Many at once, and it leaves without an answer.
  for (int i = 0; i < 1000; ++i) {
    if (!liar.send(lie)) break;
  }
  for (int time = 0; time < 3; ++time) CHECK(victim.gets());
  CHECK(world.helper() == helper);
  CHECK(eventually([&] { return world.figure("lent_bytes") == 0; }));
}

TEST_CASE("gpu lease: a reclaim waits for no GPU but its own") {
  using namespace gpu_lease_test;
  ::setenv("SIMM_TEST_GPUS", "2", 1);
  {
    const LendingWorld world;
    Engine engine(world);
    const GpuBuffer on_other(kBytes, simm::cuda::kHandlePosixDescriptor, 1);
    simm::Client client = world.connect();
    const auto known = client.register_region(on_other.pointer(), kBytes);
    REQUIRE(known.has_value());
    GpuLease lease = engine.lend(kExtent);
    CHECK(eventually([&] { return engine.gets() && world.figure("tier_bytes") == kExtent; }));
    const auto other = [&](const char* name) {
      return world.daemon.report("gpus").at(1).at(name).get<std::int64_t>();
    };
    // The daemon waits for the other GPU's helper, which does not answer.
    const std::int64_t regions = other("regions");
    const auto helper = static_cast<pid_t>(other("helper"));
    int ready[2];
    int go[2];
    REQUIRE(::pipe(ready) == 0);
    REQUIRE(::pipe(go) == 0);
    const pid_t waiter = ::fork();  // another session
    if (waiter == 0) {
      char byte = 0;
      simm::Client own = world.connect();
      const GpuBuffer buffer(kBytes, simm::cuda::kHandlePosixDescriptor, 1);
      if (::write(ready[1], "r", 1) != 1 || ::read(go[0], &byte, 1) != 1) ::_exit(2);
      ::_exit(own.register_region(buffer.pointer(), kBytes).has_value() ? 0 : 1);
    }
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    // It is stopped for no longer than it takes to ask: nobody kills it before for its silence.
    stop_process(helper);
    REQUIRE(::write(go[1], "g", 1) == 1);
    CHECK(eventually([&] { return other("regions") > regions; }));
    CHECK(lease.reclaim().has_value());
    // That one has five seconds to answer, and is still there.
    CHECK(facts_of("/proc/" + std::to_string(helper)).state == 'T');
    CHECK(world.figure("tier_bytes") == 0);
    int status = 0;
    REQUIRE(::waitpid(waiter, &status, 0) == waiter);
    CHECK(status == 0);
    for (const int end : {ready[0], ready[1], go[0], go[1]}) ::close(end);
  }
  ::unsetenv("SIMM_TEST_GPUS");
}

TEST_CASE("gpu lease: a reclaim waits for few of the copies that readers have queued") {
  using namespace gpu_lease_test;
  const LendingWorld world;
  Engine engine(world);
  GpuLease lease = engine.lend(kExtent);
  CHECK(eventually([&] { return engine.gets() && world.figure("tier_bytes") == kExtent; }));
  // Many pieces at a time, of which few end.
  constexpr std::uint64_t kPieces = 240;
  constexpr std::uint64_t kPieceBytes = kBytes / 256;
  simm::Client reader = world.connect();
  const GpuBuffer buffer(kBytes);
  const auto region = reader.register_region(buffer.pointer(), kBytes);
  REQUIRE(region.has_value());
  world.break_driver("copies=4");
  std::vector<std::array<simm::PageResult, 1>> results(kPieces);
  simm::CallOptions patient;
  patient.timeout_ms = 60'000;
  patient.ranged = true;
  const std::uint64_t before = world.figure("copies_in");
  const std::vector<simm::Item> items = pieces_of_page(*region, kPieces, kPieceBytes);
  for (std::uint64_t piece = 0; piece < kPieces; ++piece) {
    REQUIRE(reader.get_async(std::span(items).subspan(piece, 1), results[piece], patient));
  }
  CHECK(eventually([&] { return world.figure("copies_in") == before + 4; }));
  std::thread lender([&] { CHECK(lease.reclaim().has_value()); });
  CHECK(eventually([&] { return world.figure("lent_bytes") == 0; }));
  // Few are queued at the driver, and the rest waits behind the memory that goes: no more than
  // these have to end.
  world.break_driver("copies=45");
  lender.join();
  CHECK(world.figure("tier_bytes") == 0);
  world.heal();
  while (reader.wait_at_least(kPieces, 60'000) < kPieces) {
  }
  for (std::uint64_t piece = 0; piece < kPieces; ++piece) {
    CHECK(simm::status_name(results[piece][0].status) == std::string("ok"));
    const std::uint64_t at = piece * kPieceBytes + 77;
    CHECK(buffer.seen()[at] == pattern(1, at));
  }
  CHECK(world.figure("restarts") == 0);
}

TEST_CASE("gpu lease: a reader that is killed in the middle of a push leaves nothing behind") {
  using namespace gpu_lease_test;
  const std::uint64_t seed = simm::test_support::number_from("SIMM_TEST_SEED", 11);
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const LendingWorld world;
  Engine neighbour(world);
  const GpuLease lease = neighbour.lend(kExtent);
  for (int time = 0; time < 3; ++time) CHECK(neighbour.gets());
  const std::uint64_t used_bytes = world.figure("tier_used_bytes");
  const std::uint64_t regions = world.figure("regions");
  const std::uint64_t mapped_bytes = world.figure("mapped_bytes");
  const int mappings = world.mappings();
  CHECK(used_bytes == kBytes);
  std::uint64_t pushed = 0;
  for (int round = 0; round < 12; ++round) {
    CAPTURE(round);
    const std::uint64_t hits = world.figure("tier_hits");
    const pid_t reader = fork_reader(world);
    // Its pushes come out of the tier.
    CHECK(eventually([&] { return world.figure("tier_hits") > hits + random() % 8; }));
    send_signal(reader, SIGKILL);
    REQUIRE(::waitpid(reader, nullptr, 0) == reader);
    pushed += world.figure("tier_hits") - hits;
    CHECK(neighbour.gets());
    CHECK(eventually([&] { return world.figure("regions") == regions; }));
    CHECK(world.figure("mapped_bytes") == mapped_bytes);
    CHECK(eventually([&] { return world.mappings() == mappings; }));
    CHECK(world.figure("tier_used_bytes") == used_bytes);
    CHECK(neighbour.gets());
  }
  CHECK(world.figure("lent_bytes") == kExtent);
  MESSAGE("12 readers killed, " << pushed << " pieces pushed to them");
}

TEST_CASE("gpu lease: a reader that is killed in a push that hangs leaves nothing behind") {
  using namespace gpu_lease_test;
  const std::uint64_t seed = simm::test_support::number_from("SIMM_TEST_SEED", 11);
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const LendingWorld world;
  Engine neighbour(world);
  const GpuLease lease = neighbour.lend(kExtent);
  const auto is_served = [&] {
    return neighbour.gets() && world.figure("tier_used_bytes") == kBytes;
  };
  CHECK(eventually(is_served));
  const std::uint64_t regions = world.figure("regions");
  const std::uint64_t mapped_bytes = world.figure("mapped_bytes");
  const int mappings = world.mappings();
  const GpuBuffer of_newcomer(kBytes);
  simm::Client client = world.connect();
  for (int round = 0; round < 8; ++round) {
    CAPTURE(round);
    const bool hangs_before = random() % 2 == 0;
    if (hangs_before) world.break_driver("copy=wait");
    const pid_t reader = fork_reader(world);
    // A forked client has the regions of its parent too: that is the neighbour's.
    CHECK(eventually([&] { return world.figure("regions") == regions + 2; }));
    const std::uint64_t hits = world.figure("tier_hits");
    if (!hangs_before) {
      CHECK(eventually([&] { return world.figure("tier_hits") > hits + random() % 8; }));
      world.break_driver("copy=wait");
    }
    // In half of the rounds it lives until its call has ended, and the helper was killed for that.
    const std::uint64_t restarts = world.figure("restarts");
    if (round % 2 == 0) CHECK(eventually([&] { return world.figure("restarts") > restarts; }));
    send_signal(reader, SIGKILL);
    REQUIRE(::waitpid(reader, nullptr, 0) == reader);
    {
      // Its region is there as soon as a helper is.
      const auto newcomer = client.register_region(of_newcomer.pointer(), kBytes);
      INFO((newcomer ? std::string() : newcomer.error().context));
      CHECK(newcomer.has_value());
      world.heal();
      CHECK(eventually(is_served));
    }
    CHECK(eventually([&] { return world.figure("regions") == regions; }));
    CHECK(world.figure("mapped_bytes") == mapped_bytes);
    CHECK(eventually([&] { return is_served() && world.mappings() == mappings; }));
    CHECK(world.figure("lent_bytes") == kExtent);
  }
  MESSAGE("8 readers killed while the driver hung, and "
          << world.figure("restarts") << " helpers: " << world.daemon.report("gpus").dump());
}

TEST_CASE("gpu lease: memory comes back beside busy readers, and no get notices") {
  using namespace gpu_lease_test;
  const LendingWorld world;
  Engine engine(world);
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> wrong{0};
  std::atomic<std::uint64_t> gets{0};
  const std::array<std::unique_ptr<Engine>, 3> engines{std::make_unique<Engine>(world),
                                                       std::make_unique<Engine>(world),
                                                       std::make_unique<Engine>(world)};
  std::vector<std::thread> readers;
  for (const auto& own : engines) {
    readers.emplace_back([&, reader = own.get()] {
      for (; !stop; ++gets) wrong += reader->gets() ? 0u : 1u;
    });
  }
  std::vector<std::int64_t> took_us;
  std::uint64_t back = 0;
  for (int round = 0; round < 40; ++round) {
    GpuLease lease = engine.lend(kExtent);
    CHECK(eventually([&] { return world.figure("tier_bytes") == kExtent; }));
    const auto began = std::chrono::steady_clock::now();
    back += lease.reclaim().has_value() ? 1u : 0u;
    took_us.push_back(std::chrono::duration_cast<std::chrono::microseconds>(
                          std::chrono::steady_clock::now() - began)
                          .count());
    CHECK(world.figure("lent_bytes") == 0);
  }
  stop = true;
  for (std::thread& reader : readers) reader.join();
  CHECK(back == 40);
  CHECK(wrong == 0);
  CHECK(world.figure("restarts") == 0);
  std::sort(took_us.begin(), took_us.end());
  MESSAGE("a reclaim of 64 MiB beside three readers took " << took_us[20] << " us in the middle, "
                                                           << took_us.back() << " us at most, "
                                                           << gets.load() << " gets meanwhile");
}
