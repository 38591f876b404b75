// A thousand daemons behind one address, as behind a NAT or on one large host, come to a storage
// daemon at one moment. Strangers flood its port from the same address: some say nothing, some say
// the hello of another daemon and can prove nothing. All daemons get in.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/log.h"
#include "daemon/base/real_clock.h"
#include "daemon/peers/cluster_dialer.h"
#include "tests/process/cluster/cluster_processes.h"
#include "tests/siege/known_peer.h"
#include "tests/siege/precedence.h"
#include "tests/siege/siege.h"
#include "tests/siege/strangers.h"

namespace simm::siege {
namespace hello_siege {

using namespace cluster_processes;

constexpr std::size_t kDaemons = 1000;

// The part of so many daemons that dials, all of one secret and from one address.
class Crowd final : control::ClusterDialerEvents {
public:
  Crowd(const KnownDaemon& to, std::size_t daemons)
      : secret_(cluster::ClusterSecret::load(to.secret_file).value()) {
    control::ClusterDialerEvents& events = *this;
    for (std::size_t i = 0; i < daemons; ++i) {
      cluster::HelloSelf self;
      self.cluster = "simm";
      self.name = "crowd-" + std::to_string(i);
      self.incarnation = {random_.next(), random_.next()};
      self.role = cluster::ClusterRole::node;
      self.features = cluster::kFeaturePathProof;
      self.hash_seed_fingerprint = secret_.fingerprint_of(secret_.hash_seed_of(self.cluster));
      selves_.push_back(std::move(self));
      accesses_.push_back(std::make_unique<control::ClusterAccess>(control::ClusterAccess{
          io_, clock_, random_, counters_, limits_, errors_, secret_, selves_.back(), events_}));
      const cluster::HelloRequest request{cluster::HelloPurpose::data, to.incarnation, 0, i + 1};
      dialers_.push_back(std::make_unique<control::ClusterDialer>(
          *accesses_.back(), control::DialTarget{"siege", to.address, request}, events));
    }
  }
  // All of them at one moment, until all have been in; false: not within a minute.
  [[nodiscard]] bool gets_in() {
    for (const auto& dialer : dialers_) dialer->start();
    const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (in_ < dialers_.size() && std::chrono::steady_clock::now() < until) {
      io_.run_for(std::chrono::milliseconds(10));
    }
    return in_ == dialers_.size();
  }
  [[nodiscard]] std::size_t failed() const { return failed_; }

private:
  void on_dialled(control::ClusterDialer&, ipc::UniqueFd, const cluster::HelloResult&) override {
    ++in_;
  }
  void on_dial_failed(control::ClusterDialer&, const Error&) override { ++failed_; }

  boost::asio::io_context io_{1};
  base::RealClock clock_;
  base::SystemRandom random_;
  base::CounterSet counters_;
  base::ErrorLog errors_{clock_};
  base::Log log_{clock_, base::LogLevel::error};
  base::EventLog events_{clock_, log_, counters_};
  base::LimitCounters limits_{counters_};
  const cluster::ClusterSecret secret_;
  std::deque<cluster::HelloSelf> selves_;
  std::vector<std::unique_ptr<control::ClusterAccess>> accesses_;
  std::vector<std::unique_ptr<control::ClusterDialer>> dialers_;
  std::size_t in_ = 0;
  std::size_t failed_ = 0;
};

// What any daemon says first, as somebody on its way may have recorded it.
void attack_by_hellos(const KnownDaemon& daemon, const IsOver& is_over) {
  const auto hello = KnownPeer::first_words(daemon);
  std::deque<ipc::UniqueFd> open;
  while (!is_over()) {
    ipc::UniqueFd socket = connect_to(daemon.address);
    if (!socket.valid()) continue;
    (void)::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    open.push_back(std::move(socket));
    if (open.size() > 600) open.pop_front();
  }
}

TEST_CASE("between machines: a thousand daemons behind one address get in beside strangers there") {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 8192);
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
  ClusterProcesses cluster;
  const auto storage = cluster.storage("a");
  const auto node = cluster.node("n", "0", ", " + besieged_keys());
  REQUIRE(cluster.manager.start());
  REQUIRE(storage->start());
  const bool has_started = node->start();
  REQUIRE_MESSAGE(has_started, node->log());
  REQUIRE(eventually([&] { return sees_members(*node, 1); }));
  const std::string incarnation = storage->report("status")["cluster"]["incarnation"];
  const auto half = [&](std::size_t at) {
    return std::stoull(incarnation.substr(at, 16), nullptr, 16);
  };
  const KnownDaemon known{
      node->report("peers")["peers"][0]["address"], {half(0), half(16)}, cluster.secret.path()};
  const Place place(*node, {storage.get()});
  Siege siege("peers", place);

  const auto come = [&](const std::string& name,
                        const std::vector<std::function<void(const IsOver&)>>& attacks) {
    siege.endure(name, [&](const Place&, const Until& until) {
      Crowd crowd(known, kDaemons);
      const std::uint64_t evicted = storage->counter("cluster.listener.evicted");
      const Assault assault(attacks);
      const auto since = std::chrono::steady_clock::now();
      CHECK(crowd.gets_in());
      const auto took = std::chrono::steady_clock::now() - since;
      MESSAGE(name << ": all were in within "
                   << std::chrono::duration_cast<std::chrono::milliseconds>(took).count()
                   << " ms, with " << crowd.failed() << " attempts in vain; "
                   << storage->counter("cluster.listener.evicted") - evicted
                   << " connections had to go");
      while (!until.is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    });
  };
  const auto silent = [&](const IsOver& over) { attack_as_strangers({known.address}, over); };
  const auto greeting = [&](const IsOver& over) { attack_by_hellos(known, over); };
  come("a thousand daemons behind one address", {});
  come("a thousand daemons, and silent strangers behind one address", {silent});
  come("a thousand daemons, and strangers who say hellos behind one address", {silent, greeting});
  CHECK(storage->alive());
  CHECK(eventually([&] { return sees_members(*node, 1); }));
}

}  // namespace hello_siege
}  // namespace simm::siege
