#include "daemon/base/secret_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/support/temporary_directory.h"

namespace secret_file_test {

using namespace simm;

using test_support::TemporaryDirectory;

TEST_CASE("a new secret is one that is accepted, for its owner alone, and not the last one") {
  const TemporaryDirectory directory;
  const std::string file = directory / "a";
  REQUIRE(base::create_secret_file(file).has_value());
  struct stat info {};
  REQUIRE(::stat(file.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0600);
  const auto secret = base::read_secret_file(file);
  REQUIRE(secret.has_value());
  CHECK(secret->size() == 64);
  CHECK(secret->find_first_not_of("0123456789abcdef") == std::string::npos);
  REQUIRE(base::create_secret_file(directory / "b").has_value());
  CHECK(base::read_secret_file(directory / "b").value() != *secret);
}

TEST_CASE("a file that is there is never touched, whatever it is") {
  const TemporaryDirectory directory;
  const std::string file = directory / "a";
  std::ofstream(file) << "precious";
  CHECK(base::create_secret_file(file).status() == Status::exists);
  std::string content;
  std::getline(std::ifstream(file), content);
  CHECK(content == "precious");
  // A link is not followed, also not one that leads nowhere.
  REQUIRE(::symlink("/tmp/simm_nowhere", (directory / "link").c_str()) == 0);
  CHECK(base::create_secret_file(directory / "link").status() == Status::exists);
  CHECK(::access("/tmp/simm_nowhere", F_OK) != 0);
  CHECK_FALSE(base::create_secret_file(directory / "no/such").has_value());
}

}  // namespace secret_file_test
