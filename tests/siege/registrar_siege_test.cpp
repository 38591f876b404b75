// Attacks on the threads that open client memory: many sessions that ask for what takes long.
#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <vector>

#include "ipc/memory_file.h"
#include "tests/siege/two_tenant_daemon.h"
#include "tests/support/raw_client.h"

namespace simm::siege {
namespace registrar_attacks {

using test_support::RawClient;

// Shared memory between so many mappings that whoever reads the list of them takes milliseconds.
class ManyMappings {
public:
  ManyMappings() {
    void* const mapped = ::mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    base_ = static_cast<std::byte*>(mapped);
    // Neighbours that differ are not merged.
    for (std::size_t i = 0; i < kMappings; i += 2) {
      REQUIRE(::mprotect(base_ + i * kPage, kPage, PROT_READ | PROT_WRITE) == 0);
    }
    shared_ = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shared_ != MAP_FAILED);
  }
  ~ManyMappings() {
    ::munmap(shared_, kPage);
    ::munmap(base_, kBytes);
  }
  [[nodiscard]] const void* shared() const { return shared_; }

private:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kMappings = 40'000;
  static constexpr std::size_t kBytes = kPage * kMappings;
  std::byte* base_ = nullptr;
  void* shared_ = nullptr;
};

TEST_CASE("200 sessions that have mappings searched for do not keep a memory file waiting") {
  if (::geteuid() != 0) {
    MESSAGE("skipped: without root the daemon has no helper that searches");
    return;
  }
  OneTenantDaemon daemon;  // with several nothing is adopted
  RawClient other = RawClient::attached(daemon.socket());
  const auto file = ipc::MemoryFile::create({"siege", 4096, false, false});
  REQUIRE(file.has_value());
  std::vector<RawClient> crowd;
  for (int i = 0; i < 200; ++i) REQUIRE(crowd.emplace_back(daemon.socket()).attach(1));

  const ManyMappings mappings;
  const auto first =
      crowd[0].register_region(-1, mappings.shared(), 4096, ipc::RegionRequestKind::adopted);
  REQUIRE_MESSAGE(first.status == Status::ok, first.reason);
  ipc::RegisterRegion wanted;
  wanted.kind = ipc::RegionRequestKind::adopted;
  wanted.address = reinterpret_cast<std::uintptr_t>(mappings.shared());
  wanted.length = 4096;
  for (RawClient& client : crowd) REQUIRE(client.send(wanted));
  CHECK(other.register_region(file->fd(), nullptr, 4096, ipc::RegionRequestKind::shared).status ==
        Status::ok);
  // The crowd is far from served.
  int answered = 0;
  for (RawClient& client : crowd) {
    std::array<std::byte, 4096> buffer;
    if (client.socket().try_receive(buffer).result == ipc::SocketResult::done) ++answered;
  }
  CHECK(answered < 100);
  CHECK(daemon.alive());
}

}  // namespace registrar_attacks
}  // namespace simm::siege
