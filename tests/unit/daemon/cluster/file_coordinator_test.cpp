#include "daemon/cluster/file_coordinator.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/temporary_directory.h"
#include "tests/unit/daemon/cluster/cluster_samples.h"

namespace file_coordinator_test {

using namespace simm::cluster;
using cluster_samples::seed_of_run;
using simm::Status;

struct StateDirectory {
  const simm::test_support::TemporaryDirectory directory;
  const std::string path = directory / "state";
};

StoredState state_of(simm::base::Epoch epoch) {
  return {epoch, std::vector<std::byte>(1000, static_cast<std::byte>(epoch))};
}

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

}  // namespace file_coordinator_test

TEST_CASE(
    "a manager's state that was cut short anywhere is refused, with the file and the remedy") {
  using namespace file_coordinator_test;
  StateDirectory at;
  const auto coordinator = FileCoordinator::open(at.path).value();
  REQUIRE(coordinator->store(0, state_of(3)));
  const std::string whole = content_of(at.path);
  REQUIRE(whole.size() == 1048);
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += bytes < 60 ? 1 : 61) {
    write(at.path, whole.substr(0, bytes));
    const auto loaded = coordinator->load();
    REQUIRE(loaded.status() == Status::corrupt);
    REQUIRE(loaded.error().context.find(at.path) != std::string::npos);
    REQUIRE(loaded.error().context.find("move it away") != std::string::npos);
    // Nor is it taken for nothing and written over.
    REQUIRE(coordinator->store(0, state_of(4)).status() == Status::corrupt);
  }
  write(at.path, whole + "x");
  CHECK(coordinator->load().status() == Status::corrupt);
  write(at.path, whole);
  CHECK(**coordinator->load() == state_of(3));
}

TEST_CASE("a manager's state with any bit flipped is refused") {
  using namespace file_coordinator_test;
  const std::uint64_t seed = seed_of_run();
  INFO("repeat with: SIMM_SEED=" << seed << " unit_cluster -tc='*any bit flipped*'");
  std::mt19937_64 random(seed);
  StateDirectory at;
  const auto coordinator = FileCoordinator::open(at.path).value();
  REQUIRE(coordinator->store(0, state_of(3)));
  const std::string whole = content_of(at.path);
  for (std::size_t byte = 0; byte < whole.size(); byte += byte < 48 ? 1 : 7) {
    std::string damaged = whole;
    damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << random() % 8));
    write(at.path, damaged);
    const Status status = coordinator->load().status();
    // Another magic or version is somebody else's file.
    REQUIRE(status == (byte < 12 ? Status::incompatible : Status::corrupt));
  }
}

TEST_CASE("what is no state file at all is refused") {
  using namespace file_coordinator_test;
  StateDirectory at;
  const auto coordinator = FileCoordinator::open(at.path).value();
  write(at.path, "{\"epoch\": 5, \"this is\": \"some other file, long enough for a header\"}");
  CHECK(coordinator->load().status() == Status::incompatible);
  std::filesystem::remove(at.path);
  std::filesystem::create_directory(at.path);
  CHECK(coordinator->load().status() == Status::incompatible);
}

TEST_CASE("what a manager left that died while writing does no harm") {
  using namespace file_coordinator_test;
  StateDirectory at;
  auto coordinator = FileCoordinator::open(at.path).value();
  REQUIRE(coordinator->store(0, state_of(3)));
  write(at.path + ".new", "half a sta");
  coordinator.reset();
  coordinator = FileCoordinator::open(at.path).value();
  CHECK(**coordinator->load() == state_of(3));
  REQUIRE(coordinator->store(3, state_of(4)));
  CHECK(**coordinator->load() == state_of(4));
  CHECK_FALSE(std::filesystem::exists(at.path + ".new"));
  struct stat info {};
  REQUIRE(::stat(at.path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
}

TEST_CASE("two managers can not use one state file") {
  using namespace file_coordinator_test;
  StateDirectory at;
  auto first = FileCoordinator::open(at.path).value();
  const auto second = FileCoordinator::open(at.path);
  CHECK(second.status() == Status::invalid_state);
  CHECK(second.error().context.find("another manager") != std::string::npos);
  first.reset();
  CHECK(FileCoordinator::open(at.path).has_value());
}

TEST_CASE("a state that can not be written leaves the old one") {
  using namespace file_coordinator_test;
  StateDirectory at;
  const auto coordinator = FileCoordinator::open(at.path).value();
  REQUIRE(coordinator->store(0, state_of(3)));
  // A directory where the new file should be: the write fails before anything is replaced.
  std::filesystem::create_directory(at.path + ".new");
  CHECK(coordinator->store(3, state_of(4)).status() == Status::io_error);
  CHECK(**coordinator->load() == state_of(3));
  CHECK(FileCoordinator::open("/proc/simm/state").status() == Status::io_error);
}
