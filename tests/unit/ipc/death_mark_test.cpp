#include "ipc/death_mark.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>

namespace death_mark_test {

using namespace simm;

// A process with two marked threads. The second one ends when it is told to.
class Mortal {
public:
  Mortal() {
    REQUIRE(::pipe2(to_child_, O_CLOEXEC) == 0);
    REQUIRE(::pipe2(from_child_, O_CLOEXEC) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) live();
    int mark = -1;
    REQUIRE(::read(from_child_[0], &mark, sizeof mark) == sizeof mark);
    const std::string path = "/proc/" + std::to_string(pid_) + "/fd/" + std::to_string(mark);
    const ipc::UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    REQUIRE(file.valid());
    // Nobody else can write the page.
    CHECK(::mmap(nullptr, ipc::kDeathMarkBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(),
                 0) == MAP_FAILED);
    CHECK(::pwrite(file.get(), "x", 1, 0) < 0);
    watch = *ipc::DeathWatch::map(file.get());
  }
  ~Mortal() {
    kill();
    for (const int fd : {to_child_[0], to_child_[1], from_child_[0], from_child_[1]}) ::close(fd);
  }
  void end_second_thread() {
    char done = 0;
    REQUIRE(::write(to_child_[1], "e", 1) == 1);
    REQUIRE(::read(from_child_[0], &done, 1) == 1);
  }
  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

  ipc::DeathWatch watch;

private:
  [[noreturn]] void live() {
    auto mark = ipc::DeathMark::create(2);
    if (!mark) ::_exit(1);
    const ipc::DeathMark::Hold own(*mark, 0);
    std::thread second([&] {
      const ipc::DeathMark::Hold hold(*mark, 1);
      const int fd = mark->is_complete() ? mark->fd() : -1;
      char told = 0;
      if (::write(from_child_[1], &fd, sizeof fd) < 0) ::_exit(1);
      if (::read(to_child_[0], &told, 1) != 1) ::_exit(1);
    });
    second.join();
    if (mark->is_complete() || ::write(from_child_[1], "d", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }

  int to_child_[2];
  int from_child_[2];
  pid_t pid_ = -1;
};

ipc::UniqueFd page_of(const void* bytes, std::size_t count, bool sealed) {
  ipc::UniqueFd file(::memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  REQUIRE(::ftruncate(file.get(), ipc::kDeathMarkBytes) == 0);
  REQUIRE(::pwrite(file.get(), bytes, count, 0) == static_cast<ssize_t>(count));
  if (sealed) REQUIRE(::fcntl(file.get(), F_ADD_SEALS, F_SEAL_SHRINK) == 0);
  return file;
}

TEST_CASE("a process that is killed leaves its mark") {
  Mortal mortal;
  CHECK_FALSE(mortal.watch.threads_ended());
  mortal.kill();
  CHECK(mortal.watch.threads_ended());
}

TEST_CASE("a thread that ends by itself is no death, and marks nothing afterwards") {
  Mortal mortal;
  mortal.end_second_thread();
  CHECK_FALSE(mortal.watch.threads_ended());
  mortal.kill();
  CHECK_FALSE(mortal.watch.threads_ended());
}

TEST_CASE("what is no death mark is refused, and nothing is no death") {
  CHECK_FALSE(ipc::DeathWatch().threads_ended());
  ipc::DeathMarkPage page{};
  page.magic = ipc::kDeathMarkMagic;
  page.count = 2;
  const auto status = [](const ipc::UniqueFd& file) {
    return ipc::DeathWatch::map(file.get()).status();
  };
  CHECK(status(page_of(&page, sizeof page, true)) == Status::ok);
  CHECK(status(page_of(&page, sizeof page, false)) == Status::incompatible);
  for (const std::uint32_t count : {0u, ipc::kMarkedThreadsMax + 1, ~0u}) {
    page.count = count;
    CHECK(status(page_of(&page, sizeof page, true)) == Status::incompatible);
  }
  page.count = 2;
  page.magic ^= 1;
  CHECK(status(page_of(&page, sizeof page, true)) == Status::incompatible);
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  CHECK(ipc::DeathWatch::map(ends[0]).status() == Status::incompatible);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace death_mark_test
