// EtcdElection: which of several managers leads. The one that leads has made the leader's key, by a
// transaction that happens only where there is none. The key is bound to a lease, and goes when its
// manager does not renew that. Leadership alone makes nothing safe: a stopped process learns late
// that it has lost. So each store of a state names the revision at which the key was made.
//
// Owned by EtcdCoordinator. Thread: its worker.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/base/clock.h"
#include "daemon/etcd/etcd_calls.h"

namespace simm::etcd {

// A manager that is killed is followed within this, and half a second.
inline constexpr std::uint32_t kLeaseS = 4;

struct ElectionTimes {
  std::uint32_t lease_s = kLeaseS;
  base::TimeNs renew_ns = base::kNsPerSecond;     // of the one that leads
  base::TimeNs look_ns = base::kNsPerSecond / 2;  // of the others
};

struct Leadership {
  bool leads = false;
  std::string leader;     // name and address of the one that leads; empty: unknown
  std::string trouble;    // why etcd can not be asked; empty: it can
  std::int64_t term = 0;  // etcd's revision at which the leader's key was made; 0: unknown

  bool operator==(const Leadership&) const = default;
};

class EtcdElection {
public:
  // `key`: of the leader. `self`: what stands in it, "name at host:port". The references outlive
  // it.
  EtcdElection(EtcdCalls& calls, const base::Clock& clock, std::string key, std::string self,
               const ElectionTimes& times = {});

  // One look, at most a few calls. Returns how long after its begin the next one is due.
  base::TimeNs step();
  // Leads no longer; others need not wait for the lease.
  void resign();

  [[nodiscard]] const Leadership& leadership() const noexcept { return now_; }
  // The lease of this manager lives at least until then; 0: it does not lead.
  [[nodiscard]] base::TimeNs led_until_ns() const noexcept {
    return now_.leads ? renewed_until_ns_ : 0;
  }
  // What a store has to name while this manager leads.
  [[nodiscard]] EtcdCondition condition() const;

private:
  void campaign();
  void renew();
  void stand_by(std::string leader, std::string trouble, std::int64_t term = 0);
  // What is wrong with a leader's key that never ends.
  [[nodiscard]] std::string foreign(const std::string& holder) const;
  [[nodiscard]] base::TimeNs lease_ns() const noexcept {
    return times_.lease_s * base::kNsPerSecond;
  }

  EtcdCalls& calls_;
  const base::Clock& clock_;
  const std::string key_;
  const std::string self_;
  const ElectionTimes times_;
  Leadership now_;
  std::int64_t lease_ = 0;
  std::int64_t created_ = 0;           // the revision of the leader's key, while this one leads
  base::TimeNs renewed_until_ns_ = 0;  // the lease lives at least until then
};

}  // namespace simm::etcd
