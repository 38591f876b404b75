// NoCancel: while one lives, pthread_cancel() of its thread has no effect yet. A call that ended in
// the middle would leave a lane, a batch or a request that nobody ends. A thread's end also calls
// std::terminate() where it meets a noexcept function. NoCancel costs no system call.
// Owner: a frame of the call. Thread: the one that made it.
#pragma once

#include <pthread.h>

namespace simm::detail {

class NoCancel {
public:
  NoCancel() noexcept { (void)::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NoCancel() { (void)::pthread_setcancelstate(before_, nullptr); }
  NoCancel(const NoCancel&) = delete;
  NoCancel& operator=(const NoCancel&) = delete;

private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace simm::detail
