// AdoptHelper: the process side of adoption (`simmd adopt`). It has the few privileges that opening
// a client's mapping takes, and nothing else: no network, no files of its own, a system call
// filter. The daemon asks over a SEQPACKET socket and gets file descriptors.
//
// Every request is served by a child that acts for one client and is killed when it takes longer
// than kHelperAnswerNs, so a client that makes its own /proc files slow delays nobody else. With
// `foreign` it also forks one long-lived worker for each client whose private memory is copied.
// Thread: the helper process has one.
#pragma once

#include "daemon/memory/helper/forked_helper.h"
#include "daemon/memory/helper/helper_privilege.h"
#include "ipc/fd_socket.h"
#include "simm/expected.h"

namespace simm::memory {

class AdoptHelper {
public:
  // For a process that is the helper: gives up every other privilege, once, then serve() any number
  // of sockets one after the other. Takes its options for the process's life.
  static Expected<AdoptHelper> enter(const HelperOptions& options);

  // Serves one daemon until it hangs up; then ends what is left of its workers.
  void serve(ipc::FdSocket socket);

private:
  AdoptHelper(const HelperOptions& options, const HelperPrivilege& privilege)
      : options_(options), privilege_(privilege) {}

  HelperOptions options_;
  HelperPrivilege privilege_;
};

// Forks the helper. For a daemon that was started as root: before it makes threads and before it
// drops its privileges.
Expected<StartedHelper> start_adopt_helper(const HelperOptions& options);

}  // namespace simm::memory
