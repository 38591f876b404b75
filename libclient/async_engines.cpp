#include "libclient/async_engines.h"

#include <cstddef>
#include <cstdint>

namespace simm::detail {

void AsyncEngines::configure(LanePool& pool) {
  engines_.clear();
  for (std::uint32_t i = 0; i < pool.async_count(); ++i) {
    engines_.push_back(std::make_unique<AsyncEngine>(link_, driver_, pool.async_lane(i)));
  }
  for (std::size_t i = 0; i < engines_.size(); ++i) {
    engines_[i]->set_next(*engines_[(i + 1) % engines_.size()]);
  }
}

AsyncEngine& AsyncEngines::choose() noexcept {
  AsyncEngine* chosen = engines_.front().get();
  std::size_t fewest = chosen->owners();
  for (const std::unique_ptr<AsyncEngine>& engine : engines_) {
    const std::size_t owners = engine->owners();
    if (owners >= fewest) continue;
    chosen = engine.get();
    fewest = owners;
  }
  return *chosen;
}

void AsyncEngines::advance() {
  for (const std::unique_ptr<AsyncEngine>& engine : engines_) engine->advance(nullptr, false);
}

void AsyncEngines::before_fork() {
  for (const std::unique_ptr<AsyncEngine>& engine : engines_) engine->mutex().hold_for_fork();
}

void AsyncEngines::after_fork_parent() noexcept {
  for (const std::unique_ptr<AsyncEngine>& engine : engines_) engine->mutex().release();
}

void AsyncEngines::after_fork_child() noexcept {
  for (const std::unique_ptr<AsyncEngine>& engine : engines_) {
    engine->after_fork_child();
    engine->mutex().release_in_child();
  }
}

}  // namespace simm::detail
