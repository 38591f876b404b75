#include "ipc/passed_descriptors.h"

#include <sys/socket.h>

#include <cerrno>

namespace simm::ipc {
namespace {

// SO_PASSRIGHTS of <asm-generic/socket.h>, in no C library's header yet.
constexpr int kPassRights = 83;
// Taken while shutting; a queue is as long as net.unix.max_dgram_qlen says, which is 10 or so.
constexpr int kUnreadMax = 64;

struct alignas(cmsghdr) CredentialsRoom {
  char bytes[CMSG_SPACE(sizeof(ucred))];
};

enum class Head { none, plain, has_descriptors };

// What lies first in the queue. With SO_PASSCRED each message has credentials, also an empty one;
// the end of the file has none. Whatever does not fit beside them is descriptors.
Head look_at_head(int socket) noexcept {
  CredentialsRoom control{};
  msghdr header{};
  header.msg_control = control.bytes;
  header.msg_controllen = sizeof control.bytes;
  ssize_t count = 0;
  do {
    count = ::recvmsg(socket, &header, MSG_PEEK | MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  if (count < 0) return Head::none;
  if ((header.msg_flags & MSG_CTRUNC) != 0) return Head::has_descriptors;
  return header.msg_controllen > 0 ? Head::plain : Head::none;
}

}  // namespace

bool refuse_descriptors(int socket) noexcept {
  const int off = 0;
  return ::setsockopt(socket, SOL_SOCKET, kPassRights, &off, sizeof off) == 0;
}

bool shut_without_descriptors(int socket) noexcept {
  const int on = 1;
  if (::shutdown(socket, SHUT_RDWR) != 0 ||
      ::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) {
    return false;
  }
  for (int taken = 0; taken < kUnreadMax; ++taken) {
    const Head head = look_at_head(socket);
    if (head != Head::plain) return head == Head::none;
    msghdr nothing{};
    (void)::recvmsg(socket, &nothing, MSG_DONTWAIT);
  }
  return false;
}

}  // namespace simm::ipc
