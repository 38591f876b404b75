// Children that are forked to work together: when one of them fails, the others are ended, so
// nobody waits for a process that is gone. Thread: the main thread of a process without other
// threads (it forks).
#pragma once

#include <pthread.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "daemon/tools/simm-bench/shared_array.h"
#include "simm/expected.h"

namespace simm::bench {

// A barrier in shared memory for that many threads of any processes.
void init_shared_barrier(pthread_barrier_t& barrier, unsigned count);

class ProcessGroup {
public:
  static constexpr std::size_t kChildrenMax = 256;

  ProcessGroup() = default;
  ~ProcessGroup();  // ends what is left
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  // Runs `body` in a new child, which dies with us. An error of it ends the group.
  Outcome fork_child(const std::function<Outcome()>& body);

  // Does not wait. The error of the first child that has failed, if one has.
  Outcome check();

  // Waits for all children. Calls `while_waiting` a few hundred times a second. Returns the error
  // of the first child that failed.
  Outcome wait(const std::function<void()>& while_waiting);

private:
  struct LastWords {
    Status status;  // ok: it said nothing
    char text[500];
  };

  void kill_all();
  [[nodiscard]] bool is_empty() const;

  std::vector<pid_t> children_;  // 0: reaped
  SharedArray<LastWords> last_words_{kChildrenMax};
};

}  // namespace simm::bench
