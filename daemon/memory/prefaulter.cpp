#include "daemon/memory/prefaulter.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "simm/check.h"

namespace simm::memory {
namespace {

// Since Linux 5.14; older kernels answer EINVAL.
constexpr int kMadvPopulateWrite = 23;

}  // namespace

Prefaulter::Prefaulter(std::span<std::byte> memory, std::uint32_t shards, base::Counter done,
                       OnProgress on_progress)
    : memory_(memory), shards_(shards), done_(done), on_progress_(std::move(on_progress)) {
  SIMM_CHECK(shards > 0 && memory.size() % shards == 0);
}

Prefaulter::~Prefaulter() {
  request_stop();
  wait();
}

bool Prefaulter::start(std::uint32_t threads) {
  SIMM_CHECK(threads_.empty());
  for (std::uint32_t i = 0; i < threads; ++i) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      break;  // those that there are do it
    }
  }
  return !threads_.empty();
}

void Prefaulter::wait() noexcept {
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void Prefaulter::work() noexcept {
  while (!stopping_.load(std::memory_order_relaxed)) {
    const std::uint64_t piece = next_.fetch_add(1, std::memory_order_relaxed);
    const std::uint64_t shard_bytes = memory_.size() / shards_;
    const std::uint64_t at = piece / shards_ * kPieceBytes;
    if (at >= shard_bytes) return;
    const std::size_t length = std::min<std::uint64_t>(kPieceBytes, shard_bytes - at);
    // SAFETY: at + length <= shard_bytes, and there are shards_ of them.
    std::byte* const begin = memory_.data() + piece % shards_ * shard_bytes + at;
    const bool done = ::madvise(begin, length, kMadvPopulateWrite) == 0;
    const int failure = done ? 0 : errno;
    report(done ? length : 0, failure);
    if (!done) return request_stop();
  }
}

void Prefaulter::report(std::uint64_t piece_bytes, int failure) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (failed_) return;
  failed_ = failure != 0;
  done_bytes_ += piece_bytes;
  done_.set(done_bytes_);
  const std::uint64_t tenths = done_bytes_ / (memory_.size() / 10 + 1);
  const bool all = done_bytes_ == memory_.size();
  if (!failed_ && !all && tenths == tenths_reported_) return;
  tenths_reported_ = tenths;
  on_progress_({done_bytes_, memory_.size(), failure});
}

}  // namespace simm::memory
