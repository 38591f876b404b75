// HelperChildren: the processes that the adoption helper has forked: one for each request that is
// being answered, and the workers of foreign regions. Reaps them, kills what is overdue.
// Thread: the helper process has one.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "daemon/memory/helper/helper_protocol.h"
#include "ipc/fd.h"

namespace simm::memory {

class HelperChildren {
public:
  static constexpr std::size_t kAnswersMax = 64;
  static constexpr std::size_t kWorkersMax = 1024;

  struct Child {
    pid_t pid = -1;
    ipc::UniqueFd pidfd;
    std::uint64_t request_id = 0;   // of an answer
    std::uint64_t deadline_ns = 0;  // of an answer; 0: a worker, which has none
    std::uint32_t worker = 0;       // name of a worker
  };

  ~HelperChildren() { end_all(); }

  [[nodiscard]] bool has_room(HelperOp op) const noexcept;
  // Takes a child over. Opens its pidfd; a child that can not be watched is killed: false.
  bool add_answer(pid_t pid, std::uint64_t request_id);
  const Child* add_worker(pid_t pid, std::uint32_t worker);

  void kill_worker(std::uint32_t worker) noexcept;
  void kill_overdue() noexcept;

  // Reaps one child that has ended. An answer that did not end by itself and well: its request.
  struct Ended {
    bool any = false;
    bool unanswered = false;
    std::uint64_t request_id = 0;
  };
  Ended reap() noexcept;

  // Milliseconds until the next deadline, -1 when there is none.
  [[nodiscard]] int wait_ms() const noexcept;
  [[nodiscard]] const std::vector<Child>& list() const noexcept { return children_; }

private:
  void end_all() noexcept;
  std::vector<Child> children_;
};

}  // namespace simm::memory
