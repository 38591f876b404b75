// The daemon's side of the memory attacks: a helper of its own and what a session owns.
#pragma once

#include <doctest/doctest.h>
#include <sys/wait.h>

#include <memory>
#include <optional>

#include "daemon/memory/helper/adopt_helper.h"
#include "daemon/memory/region_registrar.h"
#include "tests/unit/daemon/memory/forked_client.h"
#include "tests/unit/daemon/memory/memory_fixture.h"

namespace simm::memory::testing {

struct AttackedDaemon {
  std::optional<AdoptClient> helper;
  pid_t helper_pid = -1;
  PinBudget pins{"session", 1ull << 50, 4096};
  TouchBudget touches;
  std::optional<RegionRegistrar> registrar;
  std::shared_ptr<ForeignCopier> copier;

  explicit AttackedDaemon(bool foreign = false, std::uint64_t touch_bytes = 64 << 20,
                          const ForeignArena& arena = {})
      : touches(touch_bytes) {
    HelperOptions options;
    options.foreign = foreign;
    auto started = start_adopt_helper(options);
    REQUIRE(started);
    helper.emplace(std::move(started->socket));
    helper_pid = started->pid;
    registrar.emplace(RegionPolicy{true, foreign}, &*helper, "", arena);
  }
  ~AttackedDaemon() {
    copier.reset();
    helper.reset();
    ::waitpid(helper_pid, nullptr, 0);
  }

  Expected<MadeRegion> make(const ForkedClient& client, ipc::RegionRequestKind kind,
                            ipc::UniqueFd fd = {}) {
    const ipc::RegisterRegion request{1, kind,       client.address(), client.length(),
                                      0, fd.valid(), "attack"};
    RegionOwner owner{*client.identity, pins, touches, copier};
    auto made = registrar->make(owner, request, std::move(fd));
    copier = owner.copier;
    return made;
  }

  // Why the client's memory is not adopted; empty when it is.
  std::string refusal(const ForkedClient& client) {
    auto made = make(client, ipc::RegionRequestKind::adopted);
    if (made) return {};
    CHECK(made.status() == Status::permission_denied);
    CHECK(pins.regions() == 0);
    // And what the client really asks for ends as staged, never as an error.
    auto staged = make(client, ipc::RegionRequestKind::automatic);
    REQUIRE(staged);
    CHECK(staged->memory == nullptr);
    return made.error().context;
  }
};

inline bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace simm::memory::testing
