#include "tests/sim/sim_etcd.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "daemon/cluster/state_envelope.h"
#include "daemon/etcd/etcd_state.h"

namespace simm::sim {

using etcd::EtcdCondition;
using etcd::EtcdPut;
using etcd::EtcdValue;

// ---- the store ----

void SimEtcd::end_leases() {
  for (auto lease = leases_.begin(); lease != leases_.end();) {
    const auto over = lease++;
    if (loop_.now_ns() >= over->second.until_ns) revoke(over->first);
  }
}

void SimEtcd::revoke(std::int64_t lease) {
  if (leases_.erase(lease) == 0) return;
  ++revision_;
  std::erase_if(keys_, [lease](const auto& entry) { return entry.second.lease == lease; });
}

std::int64_t SimEtcd::grant(std::uint32_t ttl_s) {
  const base::TimeNs ttl_ns = ttl_s * kSecond;
  leases_[++last_lease_] = {ttl_ns, loop_.now_ns() + ttl_ns};
  return last_lease_;
}

bool SimEtcd::keep(std::int64_t lease) {
  end_leases();
  const auto found = leases_.find(lease);
  if (found == leases_.end()) return false;
  found->second.until_ns = loop_.now_ns() + found->second.ttl_ns;
  return true;
}

Serial SimEtcd::leader() {
  end_leases();
  const auto found = keys_.find(etcd::leader_key(kEtcdCluster));
  return found == keys_.end() ? Serial{0} : found->second.creator;
}

std::optional<EtcdValue> SimEtcd::get(const std::string& key) {
  end_leases();
  const auto found = keys_.find(key);
  if (found == keys_.end()) return std::nullopt;
  return found->second.value;
}

bool SimEtcd::is_met(const EtcdCondition& condition) const {
  const auto found = keys_.find(condition.key);
  const EtcdValue there = found == keys_.end() ? EtcdValue{} : found->second.value;
  return condition.revision ==
         (condition.what == EtcdCondition::What::created ? there.created : there.modified);
}

std::int64_t SimEtcd::put_if(Serial by, const std::vector<EtcdCondition>& conditions,
                             const EtcdPut& put) {
  end_leases();
  const bool is_allowed = std::all_of(conditions.begin(), conditions.end(),
                                      [this](const auto& one) { return is_met(one); });
  // As etcd does with a lease that is over.
  if (!is_allowed || (put.lease != 0 && leases_.count(put.lease) == 0)) return 0;
  const bool is_state = put.key == etcd::state_key(kEtcdCluster);
  if (is_state) check_state(by, put.bytes);
  ++revision_;
  Key& key = keys_[put.key];
  if (key.value.created == 0) {
    key.value.created = revision_;
    key.creator = by;
  }
  key.value.modified = revision_;
  key.value.bytes = put.bytes;
  key.value.lease = key.lease = put.lease;
  return revision_;
}

// Who stores a map has to lead at that moment, whatever it believes.
void SimEtcd::check_state(Serial by, const std::string& bytes) {
  if (by != leader()) {
    report_.violation("P7", "manager %u stores a map while manager %u leads", by, leader());
  }
  const auto state = cluster::open_state(std::as_bytes(std::span(bytes)), "the state", "");
  if (!state) return report_.violation("P7", "a manager stored no state");
  on_stored(*state);
}

SimEtcd::Fate SimEtcd::draw_fate() {
  if (!dice_.per_mille(doubtful_per_mille)) return Fate::answered;
  return static_cast<Fate>(dice_.between(1, 4));
}

base::TimeNs SimEtcd::draw_delay_ns() {
  return dice_.skewed(1 * kMs, 3 * kSecond);
}

// ---- a manager's way there ----

Error SimEtcdClient::no_answer() {
  waited_ns_ += etcd_.dice().between(1 * kMs, 500 * kMs);
  return Error{Status::timeout, "etcd does not answer"};
}

template <typename Call>
bool SimEtcdClient::is_answered(const Call& call) {
  if (is_cut) return false;
  const Fate fate = etcd_.draw_fate();
  if (fate == Fate::unheard) call();
  if (fate == Fate::late || fate == Fate::twice) {
    etcd_.loop().after(etcd_.draw_delay_ns(), call);
  }
  return fate == Fate::answered || fate == Fate::twice;
}

Expected<std::optional<EtcdValue>> SimEtcdClient::get(const std::string& key) {
  if (!is_answered([] {})) return no_answer();
  return etcd_.get(key);
}

Expected<std::int64_t> SimEtcdClient::put_if(const std::vector<EtcdCondition>& conditions,
                                             const EtcdPut& put) {
  const auto call = [&etcd = etcd_, by = manager_, conditions, put] {
    return etcd.put_if(by, conditions, put);
  };
  if (!is_answered(call)) return no_answer();
  return call();
}

Expected<std::int64_t> SimEtcdClient::grant(std::uint32_t ttl_s) {
  const auto call = [&etcd = etcd_, ttl_s] { return etcd.grant(ttl_s); };
  if (!is_answered(call)) return no_answer();
  return call();
}

Expected<bool> SimEtcdClient::keep(std::int64_t lease) {
  const auto call = [&etcd = etcd_, lease] { return etcd.keep(lease); };
  if (!is_answered(call)) return no_answer();
  return call();
}

Outcome SimEtcdClient::revoke(std::int64_t lease) {
  const auto call = [&etcd = etcd_, lease] { etcd.revoke(lease); };
  if (!is_answered(call)) return no_answer();
  call();
  return Done{};
}

}  // namespace simm::sim
