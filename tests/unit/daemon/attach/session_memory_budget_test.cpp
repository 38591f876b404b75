#include "daemon/attach/session_memory_budget.h"

#include <doctest/doctest.h>
#include <fcntl.h>

#include <string>

#include "daemon/base/manual_clock.h"
#include "ipc/layout.h"
#include "ipc/mapping.h"
#include "ipc/memory_file.h"

namespace session_memory_budget_test {

using namespace simm;

constexpr std::uint64_t kBytes = 8192;
constexpr std::uint64_t kTenantBytes = 20 * kBytes;

control::Tenant tenant(const char* name, std::uint64_t id) {
  control::Tenant made;
  made.name = name;
  made.id = {id};
  return made;
}

struct Rig {
  boost::asio::io_context io;
  base::ManualClock clock{1};
  base::CounterSet counters;
  control::SessionMemoryBudget budget{io, clock, {kTenantBytes, 2 * kTenantBytes}, counters};
  const control::Tenant red = tenant("red", 1);
  const control::Tenant blue = tenant("blue", 2);
  const control::Tenant green = tenant("green", 3);
  std::uint64_t last_session = 0;

  // As long as there is room; the number of sessions.
  int fill(const control::Tenant& who) {
    int made = 0;
    for (; made < 1000 && budget.admit(who, kBytes); ++made) {
      budget.add(who, ++last_session, kBytes, -1);
    }
    return made;
  }
};

ipc::MemoryFile make_file() {
  auto file = ipc::MemoryFile::create({"budget", kBytes, false, true});
  REQUIRE(file.has_value());
  return std::move(*file);
}

TEST_CASE("session memory counts until nobody has it: no descriptor, no mapping, no name of it") {
  Rig rig;
  int path_only = -1;
  {
    ipc::Mapping kept;
    {
      const ipc::MemoryFile file = make_file();
      rig.budget.add(rig.red, 1, kBytes, file.fd());
      auto mapping = ipc::Mapping::map(file.fd(), 0, kBytes);
      REQUIRE(mapping.has_value());
      kept = std::move(*mapping);
      const std::string path = "/proc/self/fd/" + std::to_string(file.fd());
      path_only = ::open(path.c_str(), O_PATH | O_CLOEXEC);
      REQUIRE(path_only >= 0);
    }
    rig.budget.end(1);
    rig.clock.advance_ns(100 * control::kUnwatchedKeptNs);
    CHECK(rig.budget.admit(rig.red, kBytes).has_value());
    CHECK(rig.budget.bytes_of(rig.red) == kBytes);  // mapped
  }
  CHECK(rig.budget.admit(rig.red, kBytes).has_value());
  CHECK(rig.budget.bytes_of(rig.red) == kBytes);  // its pages are there as long as the inode is
  CHECK(rig.counters.value("control.session_memory.bytes") == kBytes);
  ::close(path_only);
  rig.io.poll();  // the news come by themselves
  CHECK(rig.budget.bytes_of(rig.red) == 0);
  CHECK(rig.counters.value("control.session_memory.bytes") == 0);
}

TEST_CASE("a refusal names limit, value and remedy, and leaves another tenant alone") {
  Rig rig;
  CHECK(rig.fill(rig.red) == 20);
  const Outcome refused = rig.budget.admit(rig.red, kBytes);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.status() == Status::out_of_memory);
  const std::string& text = refused.error().context;
  for (const char* part : {"tenant red", "163840 of 163840", "8192", "session.sessions_max"}) {
    CHECK_MESSAGE(text.find(part) != std::string::npos, text);
  }
  CHECK(rig.fill(rig.blue) == 20);
  // The daemon's own bound is reached; a tenant with little has its own part all the same.
  CHECK(rig.fill(rig.green) == 2);
  CHECK(rig.budget.bytes() == 42 * kBytes);
}

TEST_CASE("memory that the kernel does not watch counts for a time after its session") {
  Rig rig;
  rig.budget.add(rig.red, 1, kBytes, -1);
  rig.clock.advance_ns(2 * control::kUnwatchedKeptNs);
  CHECK(rig.budget.admit(rig.red, kBytes).has_value());
  CHECK(rig.budget.bytes_of(rig.red) == kBytes);  // the session lives
  rig.budget.end(1);
  rig.clock.advance_ns(control::kUnwatchedKeptNs - 1);
  CHECK(rig.budget.admit(rig.red, kBytes).has_value());
  CHECK(rig.budget.bytes_of(rig.red) == kBytes);
  rig.clock.advance_ns(1);
  CHECK(rig.budget.admit(rig.red, kBytes).has_value());
  CHECK(rig.budget.bytes_of(rig.red) == 0);
}

TEST_CASE("the bound holds all sessions of a socket, and a small machine is not filled by it") {
  const base::Config config = base::default_config();
  const auto large = control::SessionMemoryBudget::Bounds::of(config, 1ull << 40);
  const std::uint64_t need = config.session.sessions_max * ipc::session_bytes(8);
  CHECK(large.tenant_bytes >= need);
  CHECK(large.tenant_bytes < 2 * need);
  CHECK(large.daemon_bytes == 4 * large.tenant_bytes);
  const auto small = control::SessionMemoryBudget::Bounds::of(config, 1ull << 30);
  CHECK(small.tenant_bytes == 1ull << 28);
  CHECK(small.daemon_bytes == 1ull << 29);
}

TEST_CASE("session memory that is being made counts, whatever becomes of its session") {
  Rig rig;
  rig.budget.add(rig.red, 1, kBytes, -1);
  rig.budget.add(rig.red, 2, kBytes, -1);
  CHECK(rig.budget.bytes() == 2 * kBytes);
  // One session is over before its memory is there, the memory of the other can not be made.
  rig.budget.end(1);
  rig.budget.forget(2);
  CHECK(rig.budget.bytes() == kBytes);
  {
    const ipc::MemoryFile file = make_file();
    rig.budget.watch(1, file.fd());
    rig.budget.end(1);
    CHECK(rig.budget.admit(rig.red, kBytes).has_value());
    CHECK(rig.budget.bytes() == kBytes);
  }
  CHECK(rig.budget.admit(rig.red, kBytes).has_value());
  CHECK(rig.budget.bytes() == 0);
  // A client held up the sealer for so long that the session is forgotten.
  rig.budget.add(rig.red, 3, kBytes, -1);
  rig.budget.end(3);
  rig.clock.advance_ns(control::kUnwatchedKeptNs);
  CHECK(rig.budget.admit(rig.red, kBytes).has_value());
  rig.budget.watch(3, make_file().fd());
  CHECK(rig.budget.bytes() == 0);
}

}  // namespace session_memory_budget_test
