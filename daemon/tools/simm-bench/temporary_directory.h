// TemporaryDirectory: a new directory under /tmp, removed with all that is in it at its end.
// Thread: the one that made it.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "simm/expected.h"

namespace simm::bench {

class TemporaryDirectory {
public:
  static Expected<TemporaryDirectory> make() {
    TemporaryDirectory made;
    made.path_ = "/tmp/simm-bench.XXXXXX";
    if (mkdtemp(made.path_.data()) != nullptr) return made;
    made.path_.clear();
    return system_error("mkdtemp in /tmp", errno);
  }
  TemporaryDirectory(TemporaryDirectory&& other) noexcept
      : path_(std::exchange(other.path_, std::string())) {}
  TemporaryDirectory& operator=(TemporaryDirectory&&) = delete;
  ~TemporaryDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] const std::string& path() const noexcept { return path_; }

private:
  TemporaryDirectory() = default;

  std::string path_;
};

}  // namespace simm::bench
