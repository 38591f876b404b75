#include "daemon/tools/simm-bench/temporary_directory.h"

#include <doctest/doctest.h>

#include <fstream>
#include <optional>

namespace temporary_directory_test {

using simm::bench::TemporaryDirectory;

TEST_CASE("temporary directory: it goes with its last owner, and all that is in it") {
  auto made = TemporaryDirectory::make();
  REQUIRE(made);
  const std::string path = made->path();
  std::ofstream(path + "/file") << "something";
  {
    std::optional<TemporaryDirectory> kept(std::move(*made));
    CHECK(kept->path() == path);
    CHECK(std::filesystem::exists(path + "/file"));
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

}  // namespace temporary_directory_test
