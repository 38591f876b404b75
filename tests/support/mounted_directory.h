// MountedDirectory: a directory on a memory file system of its own. It is mounted in a mount
// namespace that the test's process enters for good, so that nothing is left of it however the test
// ends; daemons that are started afterwards see it. Needs root. Thread: the test's.
#pragma once

#include <doctest/doctest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include <cstdint>
#include <string>

#include "tests/support/temporary_directory.h"

namespace simm::test_support {

class MountedDirectory {
public:
  // `type`: tmpfs, hugetlbfs. `options`: of mount.
  MountedDirectory(const char* type, const std::string& options) {
    static const bool private_mounts =
        ::unshare(CLONE_NEWNS) == 0 &&
        ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
    ready_ = private_mounts &&
             ::mount("simm-test", directory_.path().c_str(), type, 0, options.c_str()) == 0;
    if (!ready_) MESSAGE("skipped: this test can not mount ", type);
  }
  ~MountedDirectory() {
    if (ready_) ::umount2(directory_.path().c_str(), MNT_DETACH);
  }
  MountedDirectory(const MountedDirectory&) = delete;
  MountedDirectory& operator=(const MountedDirectory&) = delete;

  // False: not here. The test has been told so by a MESSAGE and returns.
  [[nodiscard]] bool ready() const noexcept { return ready_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return directory_ / name; }
  [[nodiscard]] std::uint64_t free_bytes() const {
    struct statvfs facts {};
    REQUIRE(::statvfs(directory_.path().c_str(), &facts) == 0);
    return facts.f_bavail * facts.f_frsize;
  }

private:
  const TemporaryDirectory directory_;
  bool ready_ = false;
};

}  // namespace simm::test_support
