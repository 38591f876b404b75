#include "daemon/tools/simm-bench/process_group.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <thread>

namespace simm::bench {

void init_shared_barrier(pthread_barrier_t& barrier, unsigned count) {
  pthread_barrierattr_t attributes;
  pthread_barrierattr_init(&attributes);
  pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&barrier, &attributes, count);
  pthread_barrierattr_destroy(&attributes);
}

ProcessGroup::~ProcessGroup() {
  kill_all();
}

Outcome ProcessGroup::fork_child(const std::function<Outcome()>& body) {
  const std::size_t index = children_.size();
  if (index >= kChildrenMax) {
    return Error{Status::invalid_argument,
                 "more than " + std::to_string(kChildrenMax) + " processes: use fewer"};
  }
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return system_error("fork", errno);
  if (child > 0) {
    children_.push_back(child);
    return Done{};
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  const Outcome outcome = body();
  if (!outcome) {
    LastWords& words = last_words_[index];
    words.status = outcome.status();
    std::snprintf(words.text, sizeof words.text, "%s", outcome.error().context.c_str());
  }
  _exit(outcome ? 0 : 1);
}

Outcome ProcessGroup::check() {
  for (std::size_t i = 0; i < children_.size(); ++i) {
    int status = 0;
    if (children_[i] == 0 || waitpid(children_[i], &status, WNOHANG) == 0) continue;
    children_[i] = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    kill_all();
    const LastWords& words = last_words_[i];
    if (words.status != Status::ok) return Error{words.status, words.text};
    return Error{Status::io_error,
                 "process " + std::to_string(i) + " died: see above, or the kernel log"};
  }
  return Done{};
}

Outcome ProcessGroup::wait(const std::function<void()>& while_waiting) {
  while (true) {
    const Outcome checked = check();
    if (!checked || is_empty()) return checked;
    while_waiting();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

bool ProcessGroup::is_empty() const {
  return std::all_of(children_.begin(), children_.end(), [](pid_t child) { return child == 0; });
}

void ProcessGroup::kill_all() {
  for (pid_t& child : children_) {
    if (child == 0) continue;
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    child = 0;
  }
}

}  // namespace simm::bench
