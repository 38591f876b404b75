#include "daemon/agent/pool_recovery.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <utility>

namespace simm {

PoolRecovery::PoolRecovery(std::vector<Shard> shards)
    : shards_(std::move(shards)), outcomes_(shards_.size(), Outcome(Done{})) {
  const auto shard_count = static_cast<std::uint32_t>(shards_.size());
  const std::uint32_t cpus = std::max(1u, std::thread::hardware_concurrency());
  const std::uint32_t of_each = (cpus + shard_count - 1) / std::max(1u, shard_count);
  for (std::size_t i = 0; i < shards_.size(); ++i) {
    crews_.push_back(std::make_unique<store::RecoveryCrew>(of_each));
  }
}

void PoolRecovery::begin(std::function<void()> when_done) {
  const auto work = [this, when_done = std::move(when_done)] {
    recover_all();
    when_done();
  };
  try {
    thread_ = std::thread([work] {
      ::pthread_setname_np(::pthread_self(), "simm-recovery");
      work();
    });
  } catch (const std::system_error&) {
    work();
  }
}

void PoolRecovery::recover_all() {
  store::RecoveryCrew side_by_side(static_cast<std::uint32_t>(shards_.size()));
  side_by_side.run(shards_.size(), [this](std::size_t shard) {
    outcomes_[shard] = shards_[shard].store->recover(shards_[shard].memory, *crews_[shard]);
  });
}

void PoolRecovery::stop() {
  for (const auto& crew : crews_) crew->stop();
  if (thread_.joinable()) thread_.join();
}

Outcome PoolRecovery::end() {
  if (thread_.joinable()) thread_.join();
  for (const Outcome& outcome : outcomes_) {
    if (!outcome) return outcome.error();
  }
  return Done{};
}

std::uint32_t PoolRecovery::percent() const noexcept {
  std::uint64_t total = 0;
  std::uint64_t done = 0;
  for (const auto& crew : crews_) {
    total += crew->total();
    done += crew->done();
  }
  return total == 0 ? 0
                    : static_cast<std::uint32_t>(std::min<std::uint64_t>(done * 100 / total, 100));
}

}  // namespace simm
