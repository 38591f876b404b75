// What libibverbs hands out, each with the function that takes it back, and how its failures are
// told. Thread: any.
#pragma once

#include <infiniband/verbs.h>

#include <memory>
#include <string>
#include <string_view>

#include "simm/expected.h"

namespace simm::transport {

struct VerbsRelease {
  void operator()(ibv_context* context) const noexcept { ibv_close_device(context); }
  void operator()(ibv_pd* domain) const noexcept { ibv_dealloc_pd(domain); }
  void operator()(ibv_mr* region) const noexcept { ibv_dereg_mr(region); }
  void operator()(ibv_comp_channel* channel) const noexcept { ibv_destroy_comp_channel(channel); }
  void operator()(ibv_cq* queue) const noexcept { ibv_destroy_cq(queue); }
  // One that was never connected: nothing is under way.
  void operator()(ibv_qp* pair) const noexcept { ibv_destroy_qp(pair); }
};
template <typename T>
using VerbsHandle = std::unique_ptr<T, VerbsRelease>;

// "mlx5_0: ibv_create_cq: Cannot allocate memory: <remedy>"
Error verbs_error(Status status, const std::string& device, std::string_view verb, int errno_value,
                  std::string_view remedy);

}  // namespace simm::transport
