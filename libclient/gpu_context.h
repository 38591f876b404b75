// GpuContext: the primary context of a GPU is the calling thread's current one as long as this
// lives; that of before is back afterwards. Thread: its maker's.
#pragma once

#include "ipc/cuda/driver.h"

namespace simm::detail {

class GpuContext {
public:
  GpuContext(const cuda::Driver& driver, cuda::Context context) noexcept
      : driver_(driver), result_(driver.context_push(context)) {}
  ~GpuContext() {
    cuda::Context popped = nullptr;
    if (result_ == cuda::kSuccess) (void)driver_.context_pop(&popped);
  }
  GpuContext(const GpuContext&) = delete;
  GpuContext& operator=(const GpuContext&) = delete;

  // What the driver said to it.
  [[nodiscard]] cuda::Result result() const noexcept { return result_; }

private:
  const cuda::Driver& driver_;
  const cuda::Result result_;
};

}  // namespace simm::detail
