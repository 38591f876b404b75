// What guards a Unix socket against descriptors that the other side passes. The last close of such
// a descriptor may take as long as its owner likes. Examples are a TCP socket with SO_LINGER and a
// full queue, and a file of a FUSE file system. The kernel closes it in the thread that drops the
// message. That thread takes the message without room for its descriptors, or closes the socket
// while the message lies there. So whoever must not wait looks at a message before taking it, and
// leaves one with descriptors that nobody asked for where it lies.
//
// Thread: that of the socket's reader.
#pragma once

namespace simm::ipc {

// From now on the kernel refuses descriptors in messages to `socket`: the sender gets EPERM. False
// where the kernel does not know how (before Linux 6.16).
bool refuse_descriptors(int socket) noexcept;

// What lies first in a SEQPACKET socket without SO_PASSCRED, which stays where it is.
enum class Head { nothing, hang_up, plain, has_descriptors };
// The empty message looks like a hang-up. An error that the
// kernel keeps for the next call (ECONNRESET: the peer closed with messages unread) hides nothing:
// the messages behind that error are looked at.
Head look_at_head(int socket) noexcept;

// Shuts a SEQPACKET socket in both directions (the other side sees a hang-up, and can send no
// more), and takes what lies unread in it. True: close() drops no descriptor of the other side, so
// it returns at once. False: it might, at the socket's first message with descriptors.
bool shut_without_descriptors(int socket) noexcept;

}  // namespace simm::ipc
