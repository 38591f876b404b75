#include "daemon/memory/helper/helper_children.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace simm::memory {

namespace {

// The helper is a process of its own, outside of the simulated world: it reads the clock itself.
std::uint64_t helper_now_ns() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(now).count());
}

}  // namespace

bool HelperChildren::has_room(HelperOp op) const noexcept {
  const auto workers = static_cast<std::size_t>(
      std::count_if(children_.begin(), children_.end(),
                    [](const Child& child) { return child.deadline_ns == 0; }));
  return op == HelperOp::spawn ? workers < kWorkersMax : children_.size() - workers < kAnswersMax;
}

bool HelperChildren::add_answer(pid_t pid, std::uint64_t request_id) {
  if (add_worker(pid, 0) == nullptr) return false;
  children_.back().request_id = request_id;
  children_.back().deadline_ns = helper_now_ns() + kHelperAnswerNs;
  return true;
}

const HelperChildren::Child* HelperChildren::add_worker(pid_t pid, std::uint32_t worker) {
  Child child;
  child.pid = pid;
  child.worker = worker;
  child.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!child.pidfd) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return nullptr;
  }
  children_.push_back(std::move(child));
  return &children_.back();
}

void HelperChildren::kill_worker(std::uint32_t worker) noexcept {
  for (const Child& child : children_) {
    if (child.deadline_ns == 0 && child.worker == worker) ::kill(child.pid, SIGKILL);
  }
}

void HelperChildren::kill_overdue() noexcept {
  const std::uint64_t now = helper_now_ns();
  for (const Child& child : children_) {
    if (child.deadline_ns != 0 && child.deadline_ns <= now) ::kill(child.pid, SIGKILL);
  }
}

HelperChildren::Ended HelperChildren::reap() noexcept {
  for (auto child = children_.begin(); child != children_.end(); ++child) {
    int status = 0;
    if (::waitpid(child->pid, &status, WNOHANG) != child->pid) continue;
    const bool is_well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    const Ended ended{true, child->deadline_ns != 0 && !is_well, child->request_id};
    children_.erase(child);
    return ended;
  }
  return {};
}

int HelperChildren::wait_ms() const noexcept {
  std::uint64_t next = 0;
  for (const Child& child : children_) {
    if (child.deadline_ns == 0) continue;
    next = next == 0 ? child.deadline_ns : std::min(next, child.deadline_ns);
  }
  if (next == 0) return -1;
  const std::uint64_t now = helper_now_ns();
  return next <= now ? 0 : static_cast<int>((next - now) / 1'000'000 + 1);
}

void HelperChildren::end_all() noexcept {
  for (const Child& child : children_) ::kill(child.pid, SIGKILL);
  for (const Child& child : children_) ::waitpid(child.pid, nullptr, 0);
  children_.clear();
}

}  // namespace simm::memory
