// A helper process that is forked off the daemon, which talks with it over a socket pair.
// Thread: start-up, before any other thread.
#pragma once

#include <sys/types.h>

#include <functional>

#include "ipc/fd_socket.h"
#include "simm/expected.h"

namespace simm::memory {

// It ends when the socket is closed, and when the daemon dies.
struct StartedHelper {
  ipc::FdSocket socket;
  pid_t pid = -1;
};

// Forks a process of that name, which has nothing open but its end of the socket and the standard
// streams, and runs `serve`. It ends well when that is ok. An error: nothing was forked.
Expected<StartedHelper> fork_helper(const char* name,
                                    const std::function<Outcome(ipc::FdSocket)>& serve);

// From now on the calling process is killed when its parent dies. Changing the user ends that, so
// call again after it. False: the parent has died already.
[[nodiscard]] bool die_with_parent(pid_t parent) noexcept;

}  // namespace simm::memory
