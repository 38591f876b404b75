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

std::string key_of(const std::string& cluster, const char* name) {
  return "/simm/" + cluster + "/" + name;
}

Error late() {
  return {Status::timeout, "etcd has not answered in time"};
}

}  // namespace

EtcdCoordinator::EtcdCoordinator(std::unique_ptr<EtcdGateway> gateway, const base::Clock& clock,
                                 const std::string& cluster, const std::string& self)
    : gateway_(std::move(gateway)),
      state_key_(key_of(cluster, "state")),
      election_(*gateway_, clock, key_of(cluster, "leader"), self) {}

EtcdCoordinator::~EtcdCoordinator() {
  stop();
}

void EtcdCoordinator::start(std::function<void()> on_change) {
  SIMM_CHECK(!thread_.joinable());
  on_change_ = std::move(on_change);
  thread_ = std::thread([this] { work(); });
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

void EtcdCoordinator::work() {
  ::pthread_setname_np(::pthread_self(), "simm-etcd");
  auto look_at = std::chrono::steady_clock::now();
  std::unique_lock<std::mutex> lock(mutex_);
  while (!is_stopping_) {
    const auto now = std::chrono::steady_clock::now();
    if (now >= look_at) {
      lock.unlock();
      const base::TimeNs pause_ns = election_.step();
      lock.lock();
      look_at = now + std::chrono::nanoseconds(pause_ns);
      const bool is_other = leadership_ != election_.leadership();
      leadership_ = election_.leadership();
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

bool EtcdCoordinator::run(std::function<void()> work) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(kAnswerNs);
  std::unique_lock<std::mutex> lock(mutex_);
  const auto is_free = [this] { return is_stopping_ || job_ == nullptr || job_->is_done; };
  if (!changed_.wait_until(lock, until, is_free) || is_stopping_) return false;
  const auto job = std::make_shared<Job>();
  job->run = std::move(work);
  job_ = job;
  changed_.notify_all();
  return changed_.wait_until(lock, until, [&] { return is_stopping_ || job->is_done; }) &&
         job->is_done;
}

Expected<std::optional<cluster::StoredState>> EtcdCoordinator::open(
    const std::optional<EtcdValue>& value) const {
  if (!value) return std::optional<cluster::StoredState>();
  auto state = cluster::open_state(std::as_bytes(std::span(value->bytes)), "etcd's " + state_key_,
                                   "remove that key with etcdctl if it is nobody's: the daemons of "
                                   "the cluster bring back the map that they have");
  if (!state) return std::move(state).error();
  return std::optional(std::move(*state));
}

Expected<std::optional<cluster::StoredState>> EtcdCoordinator::load() {
  const auto answer = std::make_shared<std::optional<Expected<std::optional<EtcdValue>>>>();
  if (!run([this, answer] { answer->emplace(read()); })) return late();
  const auto& value = **answer;
  if (!value) return value.error();
  return open(*value);
}

Outcome EtcdCoordinator::store(base::Epoch expected, const cluster::StoredState& state) {
  if (Outcome sound = cluster::check_state(expected, state); !sound) return sound;
  const auto answer = std::make_shared<std::optional<Outcome>>();
  const auto kept = std::make_shared<cluster::StoredState>(state);
  if (!run([this, expected, kept, answer] { answer->emplace(store_now(expected, *kept)); })) {
    return late();
  }
  return std::move(**answer);
}

Outcome EtcdCoordinator::store_now(base::Epoch expected, const cluster::StoredState& state) {
  if (!election_.leadership().leads) {
    return Error{Status::unreachable, "this manager does not lead: nothing is stored"};
  }
  const auto value = read();
  if (!value) return value.error();
  const auto stored = open(*value);
  if (!stored) return stored.error();
  const base::Epoch there = stored->has_value() ? stored->value().epoch : 0;
  if (there != expected) {
    return Error{Status::invalid_state, "etcd's " + state_key_ + " has epoch " +
                                            std::to_string(there) + ", expected was " +
                                            std::to_string(expected)};
  }
  const std::vector<std::byte> sealed = cluster::seal_state(state);
  const std::string bytes(reinterpret_cast<const char*>(sealed.data()), sealed.size());
  const EtcdCondition same =
      value->has_value()
          ? EtcdCondition{state_key_, EtcdCondition::What::modified, value->value().modified}
          : EtcdCondition{state_key_, EtcdCondition::What::created, 0};
  const auto put = gateway_->put_if({same, election_.condition()}, {state_key_, bytes});
  if (!put) return put.error();
  if (*put == 0) {
    return Error{Status::invalid_state, "etcd's " + state_key_ +
                                            " was changed, or another manager leads: nothing is "
                                            "stored"};
  }
  return Done{};
}

}  // namespace simm::etcd
