#include "daemon/process/gpu_service.h"

#include <utility>

#include "daemon/memory/gpu/gpu_keeper.h"
#include "daemon/process/privileges.h"

namespace simm {

Expected<ipc::FdSocket> start_gpu_service(const base::Config& config) {
  if (!config.gpu.enabled) return ipc::FdSocket();
  auto keeper = memory::start_gpu_keeper([&] { return become_user(config.user); });
  if (!keeper) return std::move(keeper).error();
  return std::move(keeper->socket);
}

}  // namespace simm
