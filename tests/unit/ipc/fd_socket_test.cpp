#include "ipc/fd_socket.h"

#include <dirent.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace fd_socket_test {

using namespace simm::ipc;
using simm::Status;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::size_t open_fds() {
  std::size_t count = 0;
  DIR* const directory = ::opendir("/proc/self/fd");
  REQUIRE(directory != nullptr);
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

struct Pair {
  FdSocket left;
  FdSocket right;
  Pair() {
    auto made = FdSocket::pair();
    REQUIRE(made);
    left = std::move(made->first);
    right = std::move(made->second);
  }
};

// What FdSocket itself never sends: any number of descriptors.
void send_many_fds(int socket, std::size_t count) {
  UniqueFd source(::eventfd(0, EFD_CLOEXEC));
  std::vector<int> fds(count, source.get());
  std::vector<std::byte> control(CMSG_SPACE(count * sizeof(int)));
  char byte = 'x';
  iovec data{&byte, 1};
  msghdr header{};
  header.msg_iov = &data;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  cmsghdr* const part = CMSG_FIRSTHDR(&header);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(count * sizeof(int));
  std::memcpy(CMSG_DATA(part), fds.data(), count * sizeof(int));
  REQUIRE(::sendmsg(socket, &header, 0) == 1);
}

}  // namespace fd_socket_test

TEST_CASE("messages arrive whole, one by one, with their descriptors") {
  using namespace fd_socket_test;
  Pair pair;
  UniqueFd a(::eventfd(11, EFD_CLOEXEC));
  UniqueFd b(::eventfd(22, EFD_CLOEXEC));
  const std::array<int, 2> fds{a.get(), b.get()};
  REQUIRE(pair.left.try_send(bytes_of("first"), fds) == SocketResult::done);
  REQUIRE(pair.left.try_send(bytes_of("second message")) == SocketResult::done);

  std::array<std::byte, 64> buffer{};
  Received first = pair.right.try_receive(buffer);
  REQUIRE(first.result == SocketResult::done);
  CHECK(first.bytes == 5);
  CHECK(std::memcmp(buffer.data(), "first", 5) == 0);
  REQUIRE(first.fd_count == 2);
  std::uint64_t value = 0;
  REQUIRE(::read(first.fds[1].get(), &value, sizeof value) == sizeof value);
  CHECK(value == 22);
  CHECK((::fcntl(first.fds[0].get(), F_GETFD) & FD_CLOEXEC) != 0);

  Received second = pair.right.try_receive(buffer);
  CHECK(second.result == SocketResult::done);
  CHECK(second.bytes == 14);
  CHECK(second.fd_count == 0);
  CHECK(pair.right.try_receive(buffer).result == SocketResult::would_block);
}

TEST_CASE("253 descriptors in one message are an error and leave none behind") {
  using namespace fd_socket_test;
  Pair pair;
  const std::size_t before = open_fds();
  for (const std::size_t count : {std::size_t{5}, std::size_t{6}, std::size_t{253}}) {
    send_many_fds(pair.left.fd(), count);
    std::array<std::byte, 64> buffer{};
    {
      Received received = pair.right.try_receive(buffer);
      CHECK(received.result == SocketResult::too_many_fds);
      CHECK(received.bytes == 0);
      CHECK(received.fd_count <= kFdsPerMessageMax);
      CHECK(open_fds() == before + received.fd_count);
    }
    CHECK(open_fds() == before);
  }
  send_many_fds(pair.left.fd(), kFdsPerMessageMax);
  std::array<std::byte, 64> buffer{};
  CHECK(pair.right.try_receive(buffer).fd_count == kFdsPerMessageMax);
  CHECK(open_fds() == before);
}

TEST_CASE(
    "a message longer than the buffer is an error; its descriptors are still the caller's to "
    "close") {
  using namespace fd_socket_test;
  Pair pair;
  const std::size_t before = open_fds();
  const std::array<int, 1> fds{pair.left.fd()};
  REQUIRE(pair.left.try_send(bytes_of("123456789"), fds) == SocketResult::done);
  std::array<std::byte, 8> buffer{};
  {
    const Received received = pair.right.try_receive(buffer);
    CHECK(received.result == SocketResult::too_long);
    CHECK(received.bytes == 0);
    CHECK(received.fd_count == 1);
  }
  CHECK(open_fds() == before);
}

TEST_CASE("an empty message reads as a hang-up, and so does a closed end") {
  using namespace fd_socket_test;
  Pair pair;
  std::array<std::byte, 8> buffer{};
  REQUIRE(::send(pair.left.fd(), nullptr, 0, 0) == 0);
  CHECK(pair.right.try_receive(buffer).result == SocketResult::hung_up);
  pair.left.close();
  CHECK(pair.right.try_receive(buffer).result == SocketResult::hung_up);
  CHECK(pair.right.try_send(bytes_of("x")) == SocketResult::hung_up);
}

TEST_CASE("waiting ends at its limit, or when something comes") {
  using namespace fd_socket_test;
  Pair pair;
  std::array<std::byte, 8> buffer{};
  CHECK(pair.right.receive(buffer, 1'000'000).result == SocketResult::would_block);
  std::thread sender([&] { (void)pair.left.try_send(bytes_of("late")); });
  CHECK(pair.right.receive(buffer, 10'000'000'000).result == SocketResult::done);
  sender.join();

  SocketResult result = SocketResult::done;
  while (result == SocketResult::done) result = pair.left.try_send(bytes_of("fill"));
  CHECK(result == SocketResult::would_block);
  CHECK(pair.left.send(bytes_of("more"), {}, 1'000'000) == SocketResult::would_block);
}

TEST_CASE("a message that the kernel does not take is too long") {
  using namespace fd_socket_test;
  Pair pair;
  const std::vector<std::byte> huge(64 << 20);
  CHECK(pair.left.try_send(huge) == SocketResult::too_long);
}

TEST_CASE("something else than a socket fails with its errno") {
  using namespace fd_socket_test;
  FdSocket odd(UniqueFd(::eventfd(0, EFD_CLOEXEC)));
  std::array<std::byte, 8> buffer{};
  Received received = odd.try_receive(buffer);
  CHECK(received.result == SocketResult::failed);
  CHECK(received.errno_value == ENOTSOCK);
  CHECK(odd.try_send(bytes_of("x")) == SocketResult::failed);
}
