#include "daemon/etcd/etcd_coordinator.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "daemon/cluster/state_envelope.h"
#include "simm/check.h"

namespace simm::etcd {
namespace {

Error late() {
  return {Status::timeout, "etcd has not answered in time"};
}

}  // namespace

EtcdCoordinator::EtcdCoordinator(std::unique_ptr<EtcdGateway> gateway, const base::Clock& clock,
                                 const std::string& cluster, const std::string& self,
                                 const ElectionTimes& times)
    : gateway_(std::move(gateway)),
      answer_ns_(2 * gateway_->call_ns() + 200 * base::kNsPerMs),
      election_(*gateway_, clock, leader_key(cluster), self, times),
      state_(*gateway_, election_, cluster) {}

EtcdCoordinator::~EtcdCoordinator() {
  stop();
}

void EtcdCoordinator::start(std::function<void()> on_change) {
  SIMM_CHECK(!thread_.joinable());
  on_change_ = std::move(on_change);
  thread_ = std::thread([this] { work(); });
}

void EtcdCoordinator::give_way() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    gives_way_ = true;
  }
  changed_.notify_all();
}

void EtcdCoordinator::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Leadership EtcdCoordinator::leadership() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return leadership_;
}

base::TimeNs EtcdCoordinator::led_until_ns() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return led_until_ns_;
}

void EtcdCoordinator::work() {
  ::pthread_setname_np(::pthread_self(), "simm-etcd");
  auto look_at = std::chrono::steady_clock::now();
  std::unique_lock<std::mutex> lock(mutex_);
  while (!is_stopping_) {
    const auto now = std::chrono::steady_clock::now();
    if (gives_way_ || now >= look_at) {
      const bool gives_way = std::exchange(gives_way_, false);
      lock.unlock();
      base::TimeNs pause_ns = kGiveWayNs;
      if (gives_way) {
        election_.resign();
      } else {
        pause_ns = election_.step();
      }
      lock.lock();
      look_at = now + std::chrono::nanoseconds(pause_ns);
      const bool is_other = leadership_ != election_.leadership();
      leadership_ = election_.leadership();
      led_until_ns_ = election_.led_until_ns();
      if (is_other) {
        lock.unlock();
        on_change_();
        lock.lock();
      }
    } else if (job_ != nullptr && !job_->is_done) {
      const std::shared_ptr<Job> job = job_;
      lock.unlock();
      job->run();
      lock.lock();
      job->is_done = true;
      changed_.notify_all();
    } else {
      changed_.wait_until(lock, look_at);
    }
  }
  lock.unlock();
  election_.resign();
}

Outcome EtcdCoordinator::run(std::function<void()> work) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(answer_ns_);
  std::unique_lock<std::mutex> lock(mutex_);
  // The caller would wait for what the election has just waited for in vain.
  if (!leadership_.trouble.empty()) return Error{Status::unreachable, leadership_.trouble};
  const auto is_free = [this] { return is_stopping_ || job_ == nullptr || job_->is_done; };
  if (!changed_.wait_until(lock, until, is_free) || is_stopping_) return late();
  const auto job = std::make_shared<Job>();
  job->run = std::move(work);
  job_ = job;
  changed_.notify_all();
  changed_.wait_until(lock, until, [&] { return is_stopping_ || job->is_done; });
  if (!job->is_done) return late();
  return Done{};
}

Expected<std::optional<cluster::StoredState>> EtcdCoordinator::load() {
  using Loaded = Expected<std::optional<cluster::StoredState>>;
  const auto answer = std::make_shared<std::optional<Loaded>>();
  Outcome ran = run([this, answer] { answer->emplace(state_.load()); });
  if (!ran) return std::move(ran).error();
  return std::move(**answer);
}

Outcome EtcdCoordinator::store(base::Epoch expected, const cluster::StoredState& state) {
  if (Outcome sound = cluster::check_state(expected, state); !sound) return sound;
  const auto answer = std::make_shared<std::optional<Outcome>>();
  const auto kept = std::make_shared<cluster::StoredState>(state);
  Outcome ran =
      run([this, expected, kept, answer] { answer->emplace(state_.store(expected, *kept)); });
  if (!ran) return ran;
  return std::move(**answer);
}

}  // namespace simm::etcd
