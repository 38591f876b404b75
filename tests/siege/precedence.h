// Who has a CPU first. An attacker's own threads take CPUs from a victim and from the daemons that
// serve it; on a small machine that is nearly all of what a victim loses, and it says nothing of
// the daemons. A victim with precedence loses only what the daemons take from it.
#pragma once

#include <sys/types.h>

#include <vector>

namespace simm::siege {

// Gives it to the calling thread, and behind that to the data agents of the daemons; all of them
// sleep when they have nothing to do. False: without root, or where the machine's owner keeps it to
// himself. Ends with the threads.
[[nodiscard]] bool take_precedence(const std::vector<pid_t>& daemons);

// The calling thread has a CPU behind everybody else: a stranger's work is done on machines of his
// own.
void stand_back();

}  // namespace simm::siege
