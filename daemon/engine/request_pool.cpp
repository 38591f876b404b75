#include "daemon/engine/request_pool.h"

#include "simm/check.h"

namespace simm::engine {

RequestPool::RequestPool(std::uint32_t capacity)
    : requests_(std::make_unique<SubRequest[]>(capacity)), free_(capacity) {}

SubRequest* RequestPool::acquire(std::uint32_t keep) noexcept {
  if (free_.count() <= keep) return nullptr;
  SubRequest& request = requests_[free_.take()];
  request.stage = SubRequest::Stage::unrouted;
  request.retried = false;
  request.waits_for_map = false;
  request.to_shared_reads = request.of_hot_reads = false;
  request.of_replicas = request.asked_other = false;
  request.tail = 0;
  return &request;
}

void RequestPool::release(SubRequest& request) noexcept {
  request.stage = SubRequest::Stage::unrouted;
  free_.give(static_cast<std::uint32_t>(&request - requests_.get()));
}

transport::RequestToken RequestPool::new_token(SubRequest& request) noexcept {
  ++request.generation;
  return token(request);
}

transport::RequestToken RequestPool::token(const SubRequest& request) const noexcept {
  const auto index = static_cast<std::uint32_t>(&request - requests_.get());
  return std::uint64_t{request.generation} << 32 | index;
}

SubRequest* RequestPool::find(transport::RequestToken token) noexcept {
  const auto index = static_cast<std::uint32_t>(token);
  if (index >= free_.capacity()) return nullptr;
  SubRequest& request = requests_[index];
  const bool current = request.generation == static_cast<std::uint32_t>(token >> 32);
  return current && request.stage == SubRequest::Stage::posted ? &request : nullptr;
}

}  // namespace simm::engine
