// A mutex that lives on in a forked child. fork() copies the memory of a mutex but not the thread
// that holds it: a child would wait for ever. Around fork() the owner's handlers take the mutex,
// and both processes give it back; where fork() must not wait, the child starts it anew.
// Owner: whoever has the fork handlers (Core, Link, RegionTable). Thread: any; the fork_ functions
// by the forking thread.
#pragma once

#include <mutex>
#include <new>

namespace simm::detail {

class ForkMutex {
public:
  void lock() { mutex_.lock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() { mutex_.unlock(); }

  void hold_for_fork() {
    mutex_.lock();
    held_for_fork_ = true;
  }
  // False: another thread has the mutex. The child must not believe what the mutex guards.
  bool try_hold_for_fork() {
    held_for_fork_ = mutex_.try_lock();
    return held_for_fork_;
  }
  [[nodiscard]] bool held_for_fork() const noexcept { return held_for_fork_; }

  // In the parent, and by whoever changes their mind before fork().
  void release() {
    if (held_for_fork_) mutex_.unlock();
    held_for_fork_ = false;
  }
  // A mutex that is held is unlocked, not made anew: what checks the order of locks would take it
  // for held for ever. One that a thread of the parent holds has nobody to unlock it.
  void release_in_child() {
    if (held_for_fork_) {
      mutex_.unlock();
    } else {
      new (&mutex_) std::mutex;
    }
    held_for_fork_ = false;
  }

private:
  std::mutex mutex_;
  bool held_for_fork_ = false;  // written by the forking thread only
};

}  // namespace simm::detail
