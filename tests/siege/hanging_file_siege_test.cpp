// A client hands over descriptors of a file that hangs whoever does anything with it.
#include <doctest/doctest.h>
#include <linux/fuse.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "tests/siege/two_tenant_daemon.h"
#include "tests/siege/victim.h"
#include "tests/support/hanging_file.h"
#include "tests/support/raw_client.h"

namespace simm::siege {
namespace hanging_files {

using test_support::eventually;
using test_support::HangingFile;
using test_support::RawClient;

TEST_CASE("a descriptor that hangs is refused at once, untouched, and nobody waits for its end") {
  TwoTenantDaemon daemon;
  HangingFile file;  // a program that started with it open would hang as it closes it
  if (!file.ready()) return;
  Victim victim(daemon.blue_socket());
  REQUIRE(victim.does_rounds(1));
  REQUIRE(daemon.sessions_settled_to(1) == 1);
  const std::size_t descriptors = daemon.open_descriptors();
  {
    // As a region, with a message that has none, and more of them than a message may have.
    RawClient client = RawClient::attached(daemon.red_socket());
    const auto reply = client.register_region(file.fd(), nullptr, 4096,  //
                                              ipc::RegionRequestKind::shared);
    CHECK(reply.status == Status::invalid_argument);
    CHECK(reply.handle == ipc::kNoRegion);
    CHECK(lets_in(daemon.red_socket()));
    CHECK(lets_in(daemon.blue_socket()));

    const std::array<int, 4> four = {file.fd(), file.fd(), file.fd(), file.fd()};
    RawClient misplaced = RawClient::attached(daemon.red_socket());
    CHECK(misplaced.send(ipc::OpenNamespace{1, "n", false, false}, four));
    CHECK(misplaced.wait_for_poison() == ipc::PoisonReason::bad_descriptor_passing);
    RawClient early(daemon.red_socket());
    CHECK(early.send(ipc::Hello{}, four));
    RawClient many(daemon.red_socket());
    many.send_descriptors(std::vector<int>(20, file.fd()));
    CHECK(lets_in(daemon.red_socket()));
    CHECK(lets_in(daemon.blue_socket()));
    CHECK(victim.does_rounds(3));
  }
  // Nothing but the closing was asked of the file.
  const auto& asked = file.operations();
  CHECK(std::all_of(asked.begin(), asked.end(), [](std::uint32_t operation) {
    return operation == FUSE_FLUSH || operation == FUSE_RELEASE;
  }));
  file.answer();
  CHECK(daemon.sessions_settled_to(1) == 1);
  CHECK(eventually([&] { return daemon.open_descriptors() <= descriptors; }));
  CHECK(lets_in(daemon.red_socket()));
  victim.stop();
  CHECK(daemon.alive());
  CHECK(victim.wrong() == 0);
  CHECK(victim.failed() == 0);
}

}  // namespace hanging_files
}  // namespace simm::siege
