// TemporaryDirectory: a new directory, removed at its end with all that is in it.
// Thread: the one that made it. A child that the test forks ends by _exit(), so that it stays.
#pragma once

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <system_error>

#include "simm/check.h"

namespace simm::test_support {

class TemporaryDirectory {
public:
  TemporaryDirectory() : TemporaryDirectory(std::filesystem::temp_directory_path().string()) {}
  // For those that need a certain file system, or a short name.
  explicit TemporaryDirectory(const std::string& parent) : path_(parent + "/simm-test-XXXXXX") {
    SIMM_CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  // One that other users reach too; TMPDIR may lie where they do not.
  static TemporaryDirectory for_all_users() { return TemporaryDirectory("/tmp", 0755); }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] std::string operator/(const std::string& name) const { return path_ + "/" + name; }

private:
  TemporaryDirectory(const std::string& parent, mode_t mode) : TemporaryDirectory(parent) {
    SIMM_CHECK(::chmod(path_.c_str(), mode) == 0);
  }

  std::string path_;
};

}  // namespace simm::test_support
