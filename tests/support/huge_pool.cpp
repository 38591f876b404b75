#include "tests/support/huge_pool.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace simm::test_support {

namespace {

constexpr const char* kTurns = "/tmp/simm-test-huge-pool.lock";

std::string pool_file(const char* name) {
  return std::string("/sys/kernel/mm/hugepages/hugepages-2048kB/") + name;
}

std::uint64_t number_in(const char* name) {
  std::uint64_t number = 0;
  std::ifstream(pool_file(name)) >> number;
  return number;
}

void set_pool_size(std::uint64_t pages) {
  std::ofstream(pool_file("nr_hugepages")) << pages;
}

// The guardian: holds the lock until the test has ended, however, and restores the pool then.
[[noreturn]] void guard(int end_of_test, std::uint64_t old_pages) {
  ::setsid();  // what ends the test from outside spares it
  char byte = 0;
  (void)!::read(end_of_test, &byte, 1);
  set_pool_size(old_pages);
  ::_exit(0);
}

}  // namespace

HugePool::HugePool(std::uint64_t pages) {
  if (::geteuid() != 0 || ::access(pool_file("nr_hugepages").c_str(), W_OK) != 0) {
    MESSAGE("skipped: only root sizes the pool of huge pages, where the kernel has one");
    return;
  }
  const ipc::UniqueFd turn(::open(kTurns, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  REQUIRE(turn.valid());
  REQUIRE(::flock(turn.get(), LOCK_EX) == 0);
  const std::uint64_t old_pages = number_in("nr_hugepages");
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const ipc::UniqueFd end_of_test(ends[0]);
  alive_.reset(ends[1]);
  guardian_ = ::fork();
  REQUIRE(guardian_ >= 0);
  if (guardian_ == 0) {
    alive_.reset();
    guard(end_of_test.get(), old_pages);
  }
  set_pool_size(old_pages - free_pages() + pages);
  ready_ = free_pages() >= pages;
  if (!ready_) MESSAGE("skipped: no memory in pieces of 2 MiB");
}

HugePool::~HugePool() {
  alive_.reset();
  if (guardian_ > 0) ::waitpid(guardian_, nullptr, 0);
}

std::uint64_t HugePool::free_pages() const {
  return number_in("free_hugepages") - number_in("resv_hugepages");
}

bool HugePool::take_free_pages() {
  set_pool_size(0);
  return free_pages() == 0;
}

}  // namespace simm::test_support
