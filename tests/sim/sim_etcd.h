// SimEtcd: the etcd of several managers, in virtual time: keys with revisions, leases,
// transactions. A call may have no answer: then it has not happened, has happened, or happens
// later. Also one that was answered may happen a second time. Leases count on the loop's clock, not
// on a manager's. SimEtcdClient: a manager's way there. Thread: the one simulated thread.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "daemon/cluster/coordinator.h"
#include "daemon/etcd/etcd_calls.h"
#include "tests/sim/dice.h"
#include "tests/sim/event_loop.h"
#include "tests/sim/map_book.h"
#include "tests/sim/report.h"

namespace simm::sim {

// Of the simulated managers' cluster.
inline constexpr const char* kEtcdCluster = "c";

class SimEtcd {
public:
  // What becomes of a write.
  enum class Fate : std::uint8_t {
    answered,
    lost,     // it has not happened, and nobody says so
    unheard,  // it has
    late,     // it happens later, if its conditions are met then
    twice,    // it is answered, and happens once more
  };

  SimEtcd(EventLoop& loop, Dice dice, Report& report) : loop_(loop), dice_(dice), report_(report) {}
  SimEtcd(const SimEtcd&) = delete;
  SimEtcd& operator=(const SimEtcd&) = delete;

  [[nodiscard]] EventLoop& loop() noexcept { return loop_; }
  [[nodiscard]] Dice& dice() noexcept { return dice_; }

  // Of writes that have no clear answer.
  std::uint32_t doubtful_per_mille = 0;
  // A manager's state has been written.
  std::function<void(const cluster::StoredState&)> on_stored = [](const auto&) {};

  // The process that has made the leader's key; 0: there is none.
  [[nodiscard]] Serial leader();

  // For SimEtcdClient. `by`: the process that asks.
  [[nodiscard]] std::optional<etcd::EtcdValue> get(const std::string& key);
  std::int64_t put_if(Serial by, const std::vector<etcd::EtcdCondition>& conditions,
                      const etcd::EtcdPut& put);
  std::int64_t grant(std::uint32_t ttl_s);
  bool keep(std::int64_t lease);
  void revoke(std::int64_t lease);
  [[nodiscard]] Fate draw_fate();
  // Until what is late happens.
  [[nodiscard]] base::TimeNs draw_delay_ns();

private:
  struct Key {
    etcd::EtcdValue value;
    std::int64_t lease = 0;
    Serial creator = 0;
  };
  struct Lease {
    base::TimeNs ttl_ns = 0;
    base::TimeNs until_ns = 0;
  };
  void end_leases();
  [[nodiscard]] bool is_met(const etcd::EtcdCondition& condition) const;
  void check_state(Serial by, const std::string& bytes);

  EventLoop& loop_;
  Dice dice_;
  Report& report_;
  std::map<std::string, Key> keys_;
  std::map<std::int64_t, Lease> leases_;
  std::int64_t revision_ = 0;
  std::int64_t last_lease_ = 0;
};

class SimEtcdClient final : public etcd::EtcdCalls {
public:
  SimEtcdClient(SimEtcd& etcd, Serial manager) : etcd_(etcd), manager_(manager) {}

  // It does not reach etcd.
  bool is_cut = false;
  // How long its calls since the last time have waited for answers that did not come.
  [[nodiscard]] base::TimeNs take_waited_ns() { return std::exchange(waited_ns_, 0); }

  // EtcdCalls.
  Expected<std::optional<etcd::EtcdValue>> get(const std::string& key) override;
  Expected<std::int64_t> put_if(const std::vector<etcd::EtcdCondition>& conditions,
                                const etcd::EtcdPut& put) override;
  Expected<std::int64_t> grant(std::uint32_t ttl_s) override;
  Expected<bool> keep(std::int64_t lease) override;
  Outcome revoke(std::int64_t lease) override;

private:
  using Fate = SimEtcd::Fate;
  // False: it has no clear answer, and has happened or will, as that fate says.
  template <typename Call>
  bool is_answered(const Call& call);
  Error no_answer();

  SimEtcd& etcd_;
  const Serial manager_;
  base::TimeNs waited_ns_ = 0;
};

}  // namespace simm::sim
