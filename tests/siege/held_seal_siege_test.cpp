// A client that holds the lock of its session memory's file, just as the daemon seals the file: it
// writes to the file out of memory that hangs whoever reads it.
#include <doctest/doctest.h>
#include <linux/fuse.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

#include "tests/siege/two_tenant_daemon.h"
#include "tests/siege/victim.h"
#include "tests/support/hanging_file.h"
#include "tests/support/raw_client.h"

namespace simm::siege {
namespace held_seals {

using test_support::eventually;
using test_support::HangingFile;
using test_support::RawClient;

TEST_CASE("a client that holds its session memory while it is sealed keeps no other tenant out") {
  TwoTenantDaemon daemon;
  HangingFile file;
  if (!file.ready()) return;
  Victim victim(daemon.blue_socket());
  REQUIRE(victim.does_rounds(1));
  void* const source = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, file.fd(), 0);
  REQUIRE(source != MAP_FAILED);

  RawClient client(daemon.red_socket());
  REQUIRE(client.greet());
  const pid_t writer = ::fork();
  REQUIRE(writer >= 0);
  if (writer == 0) {
    (void)!::write(client.memory_fd(), source, 4096);
    ::_exit(0);
  }
  REQUIRE(eventually([&] {
    const auto& asked = file.operations();
    return std::find(asked.begin(), asked.end(), FUSE_READ) != asked.end();
  }));
  CHECK(client.send(ipc::Mapped{}));
  for (int i = 0; i < 5; ++i) CHECK(lets_in(daemon.blue_socket()));
  CHECK_FALSE(daemon.report("sessions").is_discarded());
  CHECK(victim.does_rounds(3));

  file.answer();
  CHECK(::waitpid(writer, nullptr, 0) == writer);
  ::munmap(source, 4096);
  client.socket().close();
  CHECK(daemon.sessions_settled_to(1) == 1);
  CHECK(eventually([&] { return lets_in(daemon.red_socket()); }));
  victim.stop();
  CHECK(daemon.alive());
  CHECK(victim.wrong() == 0);
  CHECK(victim.failed() == 0);
}

}  // namespace held_seals
}  // namespace simm::siege
