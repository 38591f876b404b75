#include "tests/gpu/driver/device_stream.h"

#include <chrono>
#include <thread>
#include <utility>

namespace simm::cuda::testing {

namespace {

constexpr std::uint64_t kDelayUsMax = 200;

}  // namespace

DeviceStream::DeviceStream(std::uint64_t seed) : random_(seed) {
  std::thread([this] { run(); }).detach();
}

std::uint64_t DeviceStream::queue(std::function<void()> piece) {
  const std::lock_guard lock(mutex_);
  pieces_.push_back(std::move(piece));
  changed_.notify_all();
  return ++queued_;
}

std::uint64_t DeviceStream::last() {
  const std::lock_guard lock(mutex_);
  return queued_;
}

bool DeviceStream::is_done(std::uint64_t piece) {
  const std::lock_guard lock(mutex_);
  return done_ >= piece;
}

void DeviceStream::wait_for(std::uint64_t piece) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_ >= piece; });
}

void DeviceStream::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return !pieces_.empty(); });
    const std::function<void()> piece = std::move(pieces_.front());
    pieces_.pop_front();
    const std::uint64_t delay_us = random_() % kDelayUsMax;
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
    piece();
    lock.lock();
    ++done_;
    changed_.notify_all();
  }
}

}  // namespace simm::cuda::testing
