#include "ipc/fd_listener.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "ipc/unix_address.h"
#include "tests/support/temporary_directory.h"

namespace fd_listener_test {

using namespace simm::ipc;
using simm::Expected;
using simm::Status;

constexpr std::uint64_t kShortNs = 5'000'000;

struct Directory {
  const simm::test_support::TemporaryDirectory own{"/tmp"};  // short, for the name of a socket
  const std::string& path = own.path();
  std::string socket() const { return own / "s"; }
};

bool there(const std::string& path) {
  struct stat facts {};
  return ::lstat(path.c_str(), &facts) == 0;
}

// Leaves a socket file behind as a killed daemon does.
void leave_stale_socket(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  Expected<UnixAddress> address = UnixAddress::of(path);
  REQUIRE(address);
  REQUIRE(::bind(fd.get(), address->get(), address->length()) == 0);
  REQUIRE(::listen(fd.get(), 1) == 0);
}

// A process of another user that holds a lock of everything in the directory that it may open.
class Locker {
public:
  explicit Locker(const std::string& directory) {
    std::array<int, 2> said{};
    REQUIRE(::pipe(said.data()) == 0);
    pid_ = ::fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) hold(directory, said[1]);
    ::close(said[1]);
    char done = 0;
    CHECK(::read(said[0], &done, 1) == 1);
    ::close(said[0]);
  }
  Locker(const Locker&) = delete;
  Locker& operator=(const Locker&) = delete;
  ~Locker() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

private:
  [[noreturn]] static void hold(const std::string& directory, int said) {
    if (::setresuid(65534, 65534, 65534) != 0) ::_exit(1);
    const int held = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY);
    if (held < 0 || ::flock(held, LOCK_EX) != 0) ::_exit(1);
    for (const char* const name : {"/s", "/s.lock"}) {
      const int file = ::open((directory + name).c_str(), O_RDONLY);
      if (file >= 0) ::flock(file, LOCK_EX);
    }
    if (::write(said, "x", 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }

  pid_t pid_ = -1;
};

}  // namespace fd_listener_test

TEST_CASE("another user's locks do not keep a listener from starting") {
  using namespace fd_listener_test;
  if (::geteuid() != 0) {
    MESSAGE("SKIPPED: only root can become somebody else");
    return;
  }
  Directory directory;
  REQUIRE(::chmod(directory.path.c_str(), 0755) == 0);
  { REQUIRE(FdListener::listen(directory.socket(), 0666, 4)); }  // leaves its lock file
  const Locker locker(directory.path);
  CHECK(FdListener::listen(directory.socket(), 0666, 4));
}

TEST_CASE("a lock file that is not this user's alone is refused, by name") {
  using namespace fd_listener_test;
  Directory directory;
  const std::string name = directory.socket() + ".lock";
  SUBCASE("others may open it") {
    std::ofstream(name) << "";
    REQUIRE(::chmod(name.c_str(), 0644) == 0);
  }
  SUBCASE("a link leads elsewhere") {
    REQUIRE(::symlink("/etc/passwd", name.c_str()) == 0);
  }
  const auto listener = FdListener::listen(directory.socket(), 0600, 4);
  REQUIRE_FALSE(listener);
  CHECK(listener.error().context.find(name) != std::string::npos);
}

TEST_CASE("a listener's file is given to another user, and a file in its place is not") {
  using namespace fd_listener_test;
  if (::geteuid() != 0) {
    MESSAGE("SKIPPED: only root can give files away");
    return;
  }
  Directory directory;
  Expected<FdListener> listener = FdListener::listen(directory.socket(), 0600, 4);
  REQUIRE(listener);
  CHECK(listener->give_to(65534, 65534));
  struct stat facts {};
  REQUIRE(::lstat(directory.socket().c_str(), &facts) == 0);
  CHECK(facts.st_uid == 65534);
  REQUIRE(::unlink(directory.socket().c_str()) == 0);
  std::ofstream(directory.socket()) << "";
  CHECK_FALSE(listener->give_to(65534, 65534));
  REQUIRE(::lstat(directory.socket().c_str(), &facts) == 0);
  CHECK(facts.st_uid == 0);
}

TEST_CASE("clients connect to a listener, which removes its file when it goes") {
  using namespace fd_listener_test;
  Directory directory;
  {
    Expected<FdListener> listener = FdListener::listen(directory.socket(), 0620, 4);
    REQUIRE(listener);
    struct stat facts {};
    REQUIRE(::stat(directory.socket().c_str(), &facts) == 0);
    CHECK((facts.st_mode & 07777) == 0620);

    auto none = listener->accept();
    REQUIRE(none);
    CHECK_FALSE(none->has_value());

    Expected<FdSocket> client = FdSocket::connect(directory.socket(), kShortNs);
    REQUIRE(client);
    auto accepted = listener->accept();
    REQUIRE(accepted);
    REQUIRE(accepted->has_value());
    CHECK((::fcntl((*accepted)->fd(), F_GETFL) & O_NONBLOCK) != 0);
    CHECK((::fcntl((*accepted)->fd(), F_GETFD) & FD_CLOEXEC) != 0);

    const std::array<std::byte, 2> message{};
    std::array<std::byte, 8> buffer{};
    REQUIRE(client->try_send(message) == SocketResult::done);
    CHECK((*accepted)->receive(buffer, kShortNs).bytes == 2);

    FdListener moved = std::move(listener).value();
    CHECK(there(directory.socket()));
  }
  CHECK_FALSE(there(directory.socket()));
}

TEST_CASE("a stale socket file is replaced, a live one and any other file are not") {
  using namespace fd_listener_test;
  Directory directory;
  leave_stale_socket(directory.socket());
  Expected<FdListener> first = FdListener::listen(directory.socket(), 0600, 4);
  REQUIRE(first);

  Expected<FdListener> second = FdListener::listen(directory.socket(), 0600, 4);
  CHECK(second.status() == Status::exists);
  CHECK(FdSocket::connect(directory.socket(), kShortNs));  // the first one still serves

  const std::string file = directory.path + "/file";
  std::ofstream(file) << "precious";
  CHECK(FdListener::listen(file, 0600, 4).status() == Status::exists);
  CHECK(std::filesystem::file_size(file) == 8);
}

TEST_CASE("a listener leaves the file of its successor alone") {
  using namespace fd_listener_test;
  Directory directory;
  Expected<FdListener> old = FdListener::listen(directory.socket(), 0600, 4);
  REQUIRE(old);
  std::filesystem::rename(directory.socket(), directory.path + "/moved");
  Expected<FdListener> successor = FdListener::listen(directory.socket(), 0600, 4);
  REQUIRE(successor);
  { FdListener ends = std::move(old).value(); }
  CHECK(there(directory.socket()));
}

TEST_CASE("connecting says why it can not") {
  using namespace fd_listener_test;
  Directory directory;
  CHECK(FdSocket::connect(directory.socket(), kShortNs).status() == Status::unreachable);
  leave_stale_socket(directory.socket());
  CHECK(FdSocket::connect(directory.socket(), kShortNs).status() == Status::unreachable);
  CHECK(FdSocket::connect("", kShortNs).status() == Status::invalid_argument);
  CHECK(FdSocket::connect(std::string(200, 'x'), kShortNs).status() == Status::invalid_argument);
}

TEST_CASE("a client waits in a full queue for no longer than it wants to") {
  using namespace fd_listener_test;
  Directory directory;
  Expected<FdListener> listener = FdListener::listen(directory.socket(), 0600, 1);
  REQUIRE(listener);
  std::vector<FdSocket> waiting;
  Status last = Status::ok;
  for (int i = 0; i < 8 && last == Status::ok; ++i) {
    Expected<FdSocket> client = FdSocket::connect(directory.socket(), kShortNs);
    last = client.status();
    if (client) waiting.push_back(std::move(client).value());
  }
  CHECK(last == Status::timeout);
  CHECK_FALSE(waiting.empty());
  REQUIRE(listener->accept());
  CHECK(FdSocket::connect(directory.socket(), kShortNs));
}

TEST_CASE("a socket that listens already is adopted, anything else is not") {
  using namespace fd_listener_test;
  Directory directory;
  Expected<UnixAddress> address = UnixAddress::of(directory.socket());
  REQUIRE(address);
  UniqueFd inherited(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
  REQUIRE(::bind(inherited.get(), address->get(), address->length()) == 0);
  UniqueFd not_listening(::dup(inherited.get()));
  CHECK(FdListener::adopt(std::move(not_listening)).status() == Status::invalid_argument);
  REQUIRE(::listen(inherited.get(), 4) == 0);
  {
    Expected<FdListener> listener = FdListener::adopt(std::move(inherited));
    REQUIRE(listener);
    CHECK((::fcntl(listener->fd(), F_GETFD) & FD_CLOEXEC) != 0);
    CHECK((::fcntl(listener->fd(), F_GETFL) & O_NONBLOCK) != 0);
    Expected<FdSocket> client = FdSocket::connect(directory.socket(), kShortNs);
    REQUIRE(client);
    auto accepted = listener->accept();
    REQUIRE(accepted);
    CHECK(accepted->has_value());
  }
  CHECK(there(directory.socket()));  // it belongs to whoever made it

  UniqueFd stream(::socket(AF_UNIX, SOCK_STREAM, 0));
  CHECK(FdListener::adopt(std::move(stream)).status() == Status::invalid_argument);
  CHECK(FdListener::adopt(UniqueFd(::open("/dev/null", O_RDONLY))).status() ==
        Status::invalid_argument);
}
