// FdListener: a listening SOCK_SEQPACKET Unix socket. Non-blocking; poll fd() for readiness.
// Owned by the control thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "ipc/fd.h"
#include "ipc/fd_socket.h"
#include "simm/expected.h"

namespace simm::ipc {

class FdListener {
public:
  // Makes a socket file at `path` with exactly these permission bits and listens on it. A socket
  // file that is there already is replaced only if nobody listens on it. Any other file is an error
  // (exists). The file goes when the listener goes. Beside it stays `path`.lock (mode 0600), which
  // keeps two daemons from starting at once; waits at most two seconds for it.
  static Expected<FdListener> listen(const std::string& path, mode_t mode, int backlog);

  // Takes a socket that listens already (socket activation); its file is not ours to remove.
  // invalid_argument unless it is a listening SEQPACKET Unix socket.
  static Expected<FdListener> adopt(UniqueFd fd);

  // Makes that user the owner of the file that listen() made.
  Outcome give_to(uid_t user, gid_t group);

  FdListener(FdListener&& other) noexcept;
  FdListener& operator=(FdListener&& other) noexcept;
  ~FdListener();

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  // The next connection, close-on-exec and non-blocking, or nothing when none waits (or the one
  // that waited has gone again). An error (no descriptors left) leaves the connection in the queue.
  Expected<std::optional<FdSocket>> accept();

private:
  explicit FdListener(UniqueFd fd) noexcept : fd_(std::move(fd)) {}
  void remove_file() noexcept;

  UniqueFd fd_;
  std::string path_;  // empty: not ours
  dev_t device_ = 0;  // of the file we made: a later owner's file is left alone
  ino_t inode_ = 0;
};

}  // namespace simm::ipc
