// What the privileged helper may do, and how it gives up everything else. Raw system calls: no
// thread is started and nothing is allocated between fork and these calls.
//
// The helper keeps CAP_CHECKPOINT_RESTORE (to open /proc/<pid>/map_files), CAP_SETUID and
// CAP_SETGID (to act as the client). Where clients run as root also CAP_SYS_PTRACE, raised only
// while it acts for such a client; where it runs foreign workers also CAP_KILL. Thread: the helper
// process has one.
#pragma once

#include <sys/types.h>

#include "simm/expected.h"

namespace simm::memory {

struct HelperOptions {
  bool adopt = true;          // open existing mappings of clients
  bool foreign = false;       // run workers that copy private memory of clients
  bool root_clients = false;  // clients with uid 0 are served too
};

// What of the needed privileges this process has.
struct HelperPrivilege {
  bool can_adopt = false;
  bool can_switch_user = false;
};

// Drops all other capabilities and groups for good, sets no_new_privs, and installs the system call
// filter: no socket can be made, no program executed.
Expected<HelperPrivilege> enter_helper_sandbox(const HelperOptions& options);

// Takes over the client's fsuid and fsgid: files open for this process as they do for the client.
// permission_denied when the process may not.
Outcome act_as_client(uid_t uid, gid_t gid);

// For the rest of its life this process looks into others as the client's user, without any
// capability (CAP_SYS_PTRACE stays for root's processes, which have capabilities themselves): the
// real user and group are the client's. The effective and saved ones are somebody else's, because a
// process may be debugged by those who are all three of its ids: the client is not.
// permission_denied when the process may not.
Outcome become_client(uid_t uid, gid_t gid);

// For a worker that is set up: leaves it the system calls to take jobs and to copy.
Outcome enter_worker_sandbox();

}  // namespace simm::memory
