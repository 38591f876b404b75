// ResponderList: the responders that lead to one server, each of another transport, as its data
// agent gives them their turns. Owned by the data agent. Thread: the data agent; filled at set-up.
#pragma once

#include <algorithm>
#include <vector>

#include "daemon/transport/transport.h"

namespace simm::transport {

class ResponderList {
public:
  // It outlives the list, or the list's use.
  void add(Responder& responder) { responders_.push_back(&responder); }
  // To the server behind all of them; before the first turn.
  void connect(ResponderEvents& server) noexcept {
    for (Responder* responder : responders_) responder->connect(server);
  }

  void drop_all() noexcept {
    for (Responder* responder : responders_) responder->drop_all();
  }
  int do_work() noexcept {
    int work = 0;
    for (Responder* responder : responders_) work += responder->do_work();
    return work;
  }
  int run_moves() noexcept {
    int work = 0;
    for (Responder* responder : responders_) work += responder->run_moves();
    return work;
  }
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept {
    base::TimeNs next_ns = base::kNoDeadline;
    for (const Responder* one : responders_) next_ns = std::min(next_ns, one->next_deadline_ns());
    return next_ns;
  }
  // Each is asked: to be ready, it may have to say that it wants to be woken.
  [[nodiscard]] bool prepare_sleep() noexcept {
    bool may_sleep = true;
    for (Responder* responder : responders_) may_sleep &= responder->prepare_sleep();
    return may_sleep;
  }

private:
  std::vector<Responder*> responders_;
};

}  // namespace simm::transport
