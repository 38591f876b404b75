#include "ipc/passed_descriptors.h"

#include <sys/socket.h>

#include <cerrno>
#include <span>

namespace simm::ipc {
namespace {

// SO_PASSRIGHTS of <asm-generic/socket.h>, in no C library's header yet.
constexpr int kPassRights = 83;
// Taken while shutting; a queue is as long as net.unix.max_dgram_qlen says, which is 10 or so.
constexpr int kUnreadMax = 64;

// With SO_PASSCRED each message has credentials, also an empty one; the end of the file has none.
// Whatever does not fit beside them is descriptors.
struct alignas(cmsghdr) CredentialsRoom {
  char bytes[CMSG_SPACE(sizeof(ucred))];
};

// `room`: for what comes beside the bytes and is no descriptor.
Head look_at_head_with(std::span<char> room, int socket) noexcept {
  msghdr header{};
  ssize_t count = 0;
  // The peer closes once, so ECONNRESET comes once; what lies behind that error is still there.
  do {
    header.msg_control = room.data();
    header.msg_controllen = room.size();
    count = ::recvmsg(socket, &header, MSG_PEEK | MSG_DONTWAIT);
  } while (count < 0 && (errno == EINTR || errno == ECONNRESET));
  // An error that nobody foresaw: better a message that is left than one that hangs its reader.
  if (count < 0) return errno == EAGAIN ? Head::nothing : Head::has_descriptors;
  if ((header.msg_flags & MSG_CTRUNC) != 0) return Head::has_descriptors;
  const bool is_message = (header.msg_flags & MSG_TRUNC) != 0 || header.msg_controllen > 0;
  return is_message ? Head::plain : Head::hang_up;
}

}  // namespace

Head look_at_head(int socket) noexcept {
  return look_at_head_with({}, socket);
}

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
    CredentialsRoom control{};
    const Head head = look_at_head_with(control.bytes, socket);
    if (head != Head::plain) return head != Head::has_descriptors;
    msghdr nothing{};
    (void)::recvmsg(socket, &nothing, MSG_DONTWAIT);
  }
  return false;
}

}  // namespace simm::ipc
