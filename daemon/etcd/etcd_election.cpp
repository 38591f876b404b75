#include "daemon/etcd/etcd_election.h"

#include <utility>

#include "daemon/base/sanitize.h"

namespace simm::etcd {

EtcdElection::EtcdElection(EtcdCalls& calls, const base::Clock& clock, std::string key,
                           std::string self, const ElectionTimes& times)
    : calls_(calls), clock_(clock), key_(std::move(key)), self_(std::move(self)), times_(times) {}

EtcdCondition EtcdElection::condition() const {
  return {key_, EtcdCondition::What::created, created_};
}

base::TimeNs EtcdElection::step() {
  if (now_.leads) {
    renew();
  } else {
    campaign();
  }
  return now_.leads ? times_.renew_ns : times_.look_ns;
}

void EtcdElection::renew() {
  const base::TimeNs asked_ns = clock_.now_ns();
  const auto lives = calls_.keep(lease_);
  if (lives && !*lives) return stand_by("", "");
  if (!lives) {
    now_.trouble = lives.error().context;
    // Nobody else can lead while the lease lives.
    if (clock_.now_ns() >= renewed_until_ns_) stand_by("", std::move(now_.trouble));
    return;
  }
  renewed_until_ns_ = asked_ns + lease_ns();
  now_.trouble.clear();
  // Somebody may have taken the key away by hand.
  const auto there = calls_.get(key_);
  if (there && (!there->has_value() || there->value().created != created_)) stand_by("", "");
}

void EtcdElection::campaign() {
  const auto there = calls_.get(key_);
  if (!there) return stand_by(std::move(now_.leader), there.error().context, now_.term);
  if (there->has_value()) {
    const std::string holder = base::sanitize(there->value().bytes);
    return stand_by(holder, there->value().lease != 0 ? "" : foreign(holder),
                    there->value().created);
  }
  const base::TimeNs asked_ns = clock_.now_ns();
  const auto lease = calls_.grant(times_.lease_s);
  if (!lease) return stand_by("", lease.error().context);
  lease_ = *lease;
  const auto made = calls_.put_if({{key_, EtcdCondition::What::created, 0}}, {key_, self_, lease_});
  if (!made || *made == 0) {
    // It may be there all the same: with the lease it goes.
    return stand_by("", made ? std::string() : made.error().context);
  }
  created_ = *made;
  renewed_until_ns_ = asked_ns + lease_ns();
  now_ = {true, self_, "", created_};
}

std::string EtcdElection::foreign(const std::string& holder) const {
  return "etcd's " + key_ + " = \"" + holder.substr(0, 40) +
         "\" has no lease, so no manager made it: remove it by `etcdctl del " + key_ + "`";
}

void EtcdElection::stand_by(std::string leader, std::string trouble, std::int64_t term) {
  now_ = {false, std::move(leader), std::move(trouble), term};
  created_ = 0;
  if (const std::int64_t lease = std::exchange(lease_, 0); lease != 0) {
    (void)calls_.revoke(lease);  // else it ends by itself
  }
}

void EtcdElection::resign() {
  stand_by("", "");
}

}  // namespace simm::etcd
