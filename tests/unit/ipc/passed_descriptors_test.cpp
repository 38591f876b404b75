#include "ipc/passed_descriptors.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "ipc/bell_socket.h"
#include "ipc/fd_socket.h"

namespace passed_descriptors_test {

using namespace simm::ipc;

// A socket whose other end is passed to somebody: sending to it fails from the moment on in which
// the last descriptor of that end is closed.
class Witness {
public:
  Witness() {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    passed_ = UniqueFd(ends[0]);
    kept_ = UniqueFd(ends[1]);
  }
  // Passes `count` of them with a message of `bytes` bytes, and keeps none; false with errno.
  bool pass(int socket, std::size_t count, std::size_t bytes = 1) {
    const std::vector<int> fds(count, passed_.get());
    std::vector<std::byte> control(CMSG_SPACE(count * sizeof(int)));
    std::array<char, 8> text{};
    iovec data{text.data(), bytes};
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
    const bool sent = ::sendmsg(socket, &header, MSG_NOSIGNAL) >= 0;
    const int why = errno;
    passed_.reset();
    errno = why;
    return sent;
  }
  [[nodiscard]] bool is_closed() const {
    return ::send(kept_.get(), "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno == EPIPE;
  }

private:
  UniqueFd passed_;
  UniqueFd kept_;
};

struct Sockets {
  UniqueFd ours;
  UniqueFd theirs;
  Sockets() {
    auto made = FdSocket::pair();
    REQUIRE(made);
    ours = made->first.release();
    theirs = made->second.release();
  }
};

void say(const UniqueFd& socket, std::size_t bytes = 1) {
  REQUIRE(::send(socket.get(), "12345678", bytes, 0) >= 0);
}

}  // namespace passed_descriptors_test

TEST_CASE("a bell lets no descriptors through, whoever guards it, and never closes one") {
  using namespace passed_descriptors_test;
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{0}}) {
    CAPTURE(bytes);
    auto bells = BellSocket::make_pair(BellGuard::reader);
    REQUIRE(bells);
    Witness witness;
    REQUIRE(bells->second.ring());
    REQUIRE(witness.pass(bells->second.fd(), 253, bytes));
    REQUIRE(bells->second.ring());
    CHECK_FALSE(bells->first.drain());
    CHECK_FALSE(bells->first.drain());
    CHECK_FALSE(witness.is_closed());
    CHECK_FALSE(bells->first.shut());
    CHECK_FALSE(witness.is_closed());
    { const BellSocket last = std::move(bells->first); }
    CHECK(witness.is_closed());
  }
}

TEST_CASE("where the kernel keeps descriptors out of a bell, closing the bell is harmless") {
  using namespace passed_descriptors_test;
  Sockets probe;
  if (!refuse_descriptors(probe.ours.get())) {
    MESSAGE("skipped: this kernel knows no SO_PASSRIGHTS");
    return;
  }
  auto bells = BellSocket::make_pair();
  REQUIRE(bells);
  Witness witness;
  CHECK_FALSE(witness.pass(bells->second.fd(), 1, 8));
  CHECK(errno == EPERM);
  REQUIRE(bells->second.ring());
  CHECK(bells->first.drain());
  REQUIRE(bells->second.ring());
  CHECK(bells->first.shut());
}

TEST_CASE("a message with surplus descriptors stays where it lies, and so do its descriptors") {
  using namespace passed_descriptors_test;
  Sockets sockets;
  FdSocket ours(std::move(sockets.ours));
  Witness witness;
  REQUIRE(witness.pass(sockets.theirs.get(), kFdsPerMessageMax + 1));
  std::array<std::byte, 8> buffer{};
  CHECK(ours.try_receive(buffer).result == SocketResult::too_many_fds);
  CHECK_FALSE(witness.is_closed());
  CHECK_FALSE(ours.shut());
  CHECK_FALSE(witness.is_closed());
  ours.close();
  CHECK(witness.is_closed());
}

TEST_CASE("descriptors for which this process has no room are left in their message") {
  using namespace passed_descriptors_test;
  Sockets sockets;
  FdSocket ours(std::move(sockets.ours));
  Witness witness;
  REQUIRE(witness.pass(sockets.theirs.get(), 1));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit none{3, before.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  std::array<std::byte, 8> buffer{};
  const SocketResult result = ours.try_receive(buffer).result;
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  CHECK(result == SocketResult::too_many_fds);
  CHECK_FALSE(witness.is_closed());
  Received received = ours.try_receive(buffer);
  CHECK(received.result == SocketResult::done);
  CHECK(received.fd_count == 1);
  CHECK_FALSE(witness.is_closed());
  CHECK(ours.try_receive(buffer).result == SocketResult::would_block);
  CHECK(ours.shut());
}

TEST_CASE("shutting takes plain messages, stops at descriptors, and the other side sees its end") {
  using namespace passed_descriptors_test;
  for (const bool has_descriptors : {false, true}) {
    CAPTURE(has_descriptors);
    Sockets sockets;
    Witness witness;
    say(sockets.theirs, 8);
    say(sockets.theirs, 0);
    say(sockets.theirs, 1);
    if (has_descriptors) REQUIRE(witness.pass(sockets.theirs.get(), 2, 0));
    CHECK(shut_without_descriptors(sockets.ours.get()) == !has_descriptors);
    CHECK(::send(sockets.theirs.get(), "x", 1, MSG_NOSIGNAL) < 0);
    CHECK(errno == EPIPE);
    char byte = 0;
    CHECK(::recv(sockets.theirs.get(), &byte, 1, MSG_DONTWAIT) == 0);
    CHECK((!has_descriptors || !witness.is_closed()));
  }
}

TEST_CASE("a peer that went with messages unread hides no descriptors behind that error") {
  using namespace passed_descriptors_test;
  SUBCASE("in a socket that is shut") {
    Sockets sockets;
    FdSocket ours(std::move(sockets.ours));
    Witness witness;
    REQUIRE(witness.pass(sockets.theirs.get(), 2));
    say(UniqueFd(::dup(ours.fd())));
    sockets.theirs.reset();
    CHECK_FALSE(ours.shut());
    CHECK_FALSE(witness.is_closed());
  }
  SUBCASE("in a socket that is read") {
    Sockets sockets;
    FdSocket ours(std::move(sockets.ours));
    Witness witness;
    REQUIRE(witness.pass(sockets.theirs.get(), kFdsPerMessageMax + 1));
    say(UniqueFd(::dup(ours.fd())));
    sockets.theirs.reset();
    std::array<std::byte, 8> buffer{};
    CHECK(ours.try_receive(buffer).result != SocketResult::done);
    CHECK_FALSE(ours.shut());
    CHECK_FALSE(witness.is_closed());
  }
  SUBCASE("in a bell") {
    auto bells = BellSocket::make_pair(BellGuard::reader);
    REQUIRE(bells);
    Witness witness;
    REQUIRE(witness.pass(bells->second.fd(), 1, 8));
    REQUIRE(bells->first.ring());
    { const BellSocket gone = std::move(bells->second); }
    CHECK_FALSE(bells->first.drain());
    CHECK_FALSE(bells->first.drain());
    CHECK_FALSE(bells->first.shut());
    CHECK_FALSE(witness.is_closed());
  }
}
