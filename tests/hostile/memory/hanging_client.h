// A client whose memory is served by a userfaultfd that another process keeps and never reads: who
// touches a page of it hangs, even beyond the client's death.
#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <new>

#include "tests/unit/daemon/memory/forked_client.h"
#include "tests/unit/daemon/memory/memory_fixture.h"

namespace simm::memory::testing {

// What the process that keeps the userfaultfd shares with the test.
struct Keeper {
  std::atomic<pid_t> pid{0};
  std::atomic<bool> has_fault{false};  // somebody hangs in a page of the client
};

// A Keeper in memory that forked processes share.
class SharedKeeper {
public:
  SharedKeeper() {
    void* const shared =
        ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(shared != MAP_FAILED);
    keeper_ = new (shared) Keeper;
  }
  SharedKeeper(const SharedKeeper&) = delete;
  SharedKeeper& operator=(const SharedKeeper&) = delete;
  ~SharedKeeper() {
    end();
    ::munmap(keeper_, kPage);
  }
  // Whoever still hangs goes on: the pages are ordinary ones then.
  void end() {
    const pid_t pid = keeper_->pid.exchange(0);
    if (pid > 0) ::kill(pid, SIGKILL);
  }
  Keeper* operator->() const noexcept { return keeper_; }
  [[nodiscard]] Keeper* get() const noexcept { return keeper_; }

private:
  Keeper* keeper_ = nullptr;
};

// `bytes` of private memory full of 'h', of which those from `hang_from` on hang. The report is
// empty on a machine without userfaultfd.
inline ForkedClientSpec hanging_client(const SharedKeeper& shared, std::uint64_t bytes,
                                       std::uint64_t hang_from) {
  static int faults = -1;
  ForkedClientSpec spec;
  // Only a descriptor that does not block can be polled.
  spec.before_drop = [] {
    faults = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
  };
  spec.set_up = [keeper = shared.get(), bytes, hang_from] {
    char* const memory = map_anonymous(bytes, MAP_PRIVATE);
    std::memset(memory, 'h', hang_from);
    uffdio_api api{};
    api.api = UFFD_API;
    uffdio_register range{};
    range.range = {reinterpret_cast<std::uint64_t>(memory) + hang_from, bytes - hang_from};
    range.mode = UFFDIO_REGISTER_MODE_MISSING;
    if (faults < 0 || ::ioctl(faults, UFFDIO_API, &api) != 0 ||
        ::ioctl(faults, UFFDIO_REGISTER, &range) != 0) {
      return ClientReport{};
    }
    const pid_t child = ::fork();
    if (child == 0) {
      pollfd waiting{faults, POLLIN, 0};
      if (::poll(&waiting, 1, -1) == 1 && (waiting.revents & POLLIN) != 0) keeper->has_fault = true;
      for (;;) ::pause();
    }
    keeper->pid = child;
    return report_of(memory, bytes);
  };
  return spec;
}

}  // namespace simm::memory::testing
