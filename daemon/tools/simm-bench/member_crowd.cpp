#include "daemon/tools/simm-bench/member_crowd.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "daemon/base/log.h"
#include "daemon/base/real_clock.h"
#include "daemon/cluster/cluster_codec.h"
#include "daemon/control/deadline.h"
#include "daemon/peers/cluster_channel.h"
#include "daemon/peers/cluster_dialer.h"

namespace simm::bench {
namespace {

constexpr std::uint64_t kWeightBytes = 1ull << 30;
// Of a busy daemon, whose batches take microseconds to milliseconds.
constexpr std::uint64_t kBatchesPerBeat = 10'000;
constexpr std::size_t kFirstBucket = 11;
constexpr std::size_t kLastBucket = 23;

base::Epoch epoch_of(const cluster::SlotMapPtr& map) {
  return map == nullptr ? 0 : map->epoch();
}

}  // namespace

// What all members make their connections with.
struct MemberCrowd::Shared {
  explicit Shared(std::string of_manager)
      : address(std::move(of_manager)),
        log(clock, base::LogLevel::error),
        events(clock, log, counters),
        errors(clock),
        limits(counters),
        secret(cluster::ClusterSecret::none()) {}

  const std::string address;
  base::RealClock clock;
  base::SystemRandom random;
  base::CounterSet counters;
  base::Log log;
  base::EventLog events;
  base::ErrorLog errors;
  base::LimitCounters limits;
  cluster::ClusterSecret secret;
  boost::asio::io_context io{1};
  std::uint64_t heartbeats = 0;

  using Message = std::shared_ptr<const cluster::ManagerMessage>;
  // All members are sent the same maps, and have one CPU: each map is decoded once. Null: damaged.
  Message decoded(std::span<const std::byte> payload) {
    const bool is_map = payload.size() > kShortBytes;
    if (is_map && std::equal(payload.begin(), payload.end(), last_.begin(), last_.end())) {
      return last_message_;
    }
    auto decoded = cluster::decode_manager_message(payload);
    if (!decoded) return nullptr;
    auto message = std::make_shared<const cluster::ManagerMessage>(std::move(*decoded));
    if (is_map) {
      last_.assign(payload.begin(), payload.end());
      last_message_ = message;
    }
    return message;
  }
  // Null: the delta is about another map.
  cluster::SlotMapPtr applied(const cluster::MapDelta& delta, const cluster::SlotMapPtr& base) {
    if (base->epoch() == from_epoch_ && result_ != nullptr && result_->epoch() == delta.epoch) {
      return result_;
    }
    auto map = cluster::apply(delta, *base);
    if (!map) return nullptr;
    from_epoch_ = base->epoch();
    result_ = std::move(*map);
    return result_;
  }

private:
  static constexpr std::size_t kShortBytes = 1000;
  std::vector<std::byte> last_;
  Message last_message_;
  base::Epoch from_epoch_ = 0;
  cluster::SlotMapPtr result_;
};

class MemberCrowd::Member final : private control::ClusterDialerEvents,
                                  private control::ClusterChannelEvents {
public:
  Member(Shared& shared, std::uint64_t number)
      : shared_(shared),
        self_(self_of(shared, number)),
        access_{shared.io,     shared.clock,  shared.random, shared.counters, shared.limits,
                shared.errors, shared.secret, self_,         shared.events},
        dialer_(access_, {"cluster.manager", shared.address, {}}, *this),
        timer_(shared.io) {
    dialer_.start();
  }
  void drain() {
    is_draining_ = true;
    send(cluster::Leave{});
  }
  void stop() {
    dialer_.stop();
    timer_.cancel();
    channel_.reset();
  }
  [[nodiscard]] bool is_draining() const noexcept { return is_draining_; }
  [[nodiscard]] bool has_joined() const noexcept { return has_joined_; }
  [[nodiscard]] const cluster::SlotMapPtr& map() const noexcept { return map_; }

private:
  static cluster::HelloSelf self_of(Shared& shared, std::uint64_t number) {
    cluster::HelloSelf self;
    self.cluster = "simm";
    self.name = "member-" + std::to_string(number);
    self.incarnation = cluster::Incarnation::draw(shared.random);
    self.role = cluster::ClusterRole::storage;
    self.shards = 1;
    self.hash_seed_fingerprint =
        shared.secret.fingerprint_of(shared.secret.hash_seed_of(self.cluster));
    self.features = cluster::kFeatureMapDeltas | cluster::kFeaturePathProof;
    return self;
  }

  // ClusterDialerEvents.
  void on_dialled(control::ClusterDialer&, ipc::UniqueFd socket,
                  const cluster::HelloResult& result) override {
    control::ClusterChannelEvents& events = *this;
    channel_ =
        std::make_unique<control::ClusterChannel>(access_, std::move(socket), result, events);
    cluster::Join join;
    join.address = "127.0.0.1";
    join.port = 30002;
    join.shards = self_.shards;
    join.weight_bytes = kWeightBytes;
    join.draining = is_draining_;
    if (map_ != nullptr) {
      join.map_epoch = map_->epoch();
      join.map_digest = map_->digest();
      join.lineage = map_->life().lineage;
    }
    send(join);
  }
  void on_dial_failed(control::ClusterDialer&, const Error&) override {}
  // ClusterChannelEvents.
  void on_message(control::ClusterChannel&, std::span<const std::byte> payload) override {
    const auto message = shared_.decoded(payload);
    if (message == nullptr) return lose();
    std::visit([this](const auto& value) { take(value); }, *message);
  }
  void on_closed(control::ClusterChannel&, const Error&) override { lose(); }

  void take(const cluster::Joined& joined) {
    has_joined_ = true;
    interval_ns_ = joined.heartbeat_ns;
    timer_.after(interval_ns_, [this] { beat(); });
  }
  void take(const cluster::HeartbeatAck& ack) {
    if (ack.heartbeat_ns != 0) interval_ns_ = ack.heartbeat_ns;
  }
  void take(const cluster::Refused&) { lose(); }
  void take(const cluster::MapPush& push) { use(push.map); }
  void take(const cluster::MapDelta& delta) {
    if (map_ == nullptr) return;
    if (const cluster::SlotMapPtr map = shared_.applied(delta, map_)) use(map);
  }
  template <typename Other>
  void take(const Other&) {}

  void use(const cluster::SlotMapPtr& map) {
    if (map_ != nullptr && map->epoch() <= map_->epoch()) return;
    map_ = map;
    if (has_joined_) beat();
  }
  void beat() {
    ++shared_.heartbeats;
    cluster::Heartbeat heartbeat;
    heartbeat.sequence = ++sequence_;
    if (map_ != nullptr) {
      heartbeat.map_epoch = map_->epoch();
      heartbeat.map_digest = map_->digest();
      // As of a node that uses the whole cluster.
      heartbeat.reached = ~cluster::MemberSet{} >> (cluster::kMembersMax - map_->members().size());
    }
    add_load(heartbeat);
    send(heartbeat);
    timer_.after(interval_ns_, [this] { beat(); });
  }
  // As a real member does: each number once a second.
  void add_load(cluster::Heartbeat& heartbeat) {
    const base::TimeNs now_ns = shared_.clock.now_ns();
    if (now_ns < load_due_ns_) return;
    load_due_ns_ = now_ns + base::kNsPerSecond;
    heartbeat.load_ms = now_ns / base::kNsPerMs;
    const std::uint64_t done = sequence_ * kBatchesPerBeat;
    for (const base::LoadField& field : base::kLoadFields) heartbeat.load.*field.sum = done;
    for (std::size_t i = kFirstBucket; i < kLastBucket; ++i) heartbeat.load.batch_ns[i] = done;
  }
  void send(const cluster::MemberMessage& message) {
    const auto bytes = cluster::encode(message);
    if (channel_ != nullptr && bytes) (void)channel_->send(*bytes);
  }
  void lose() {
    has_joined_ = false;
    timer_.cancel();
    channel_.reset();
    dialer_.redial(0, map_ == nullptr ? 0 : map_->members().size());
  }

  Shared& shared_;
  const cluster::HelloSelf self_;
  control::ClusterAccess access_;
  control::ClusterDialer dialer_;
  control::Deadline timer_;
  std::unique_ptr<control::ClusterChannel> channel_;
  cluster::SlotMapPtr map_;
  base::TimeNs interval_ns_ = base::kNsPerSecond;
  base::TimeNs load_due_ns_ = 0;
  std::uint64_t sequence_ = 0;
  bool has_joined_ = false;
  bool is_draining_ = false;
};

MemberCrowd::MemberCrowd(std::string address)
    : shared_(std::make_unique<Shared>(std::move(address))) {}

MemberCrowd::~MemberCrowd() {
  for (const auto& member : members_) member->stop();
}

void MemberCrowd::add(std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    members_.push_back(std::make_unique<Member>(*shared_, members_.size() + 1));
  }
}

void MemberCrowd::drain(std::uint32_t count) {
  for (const auto& member : members_) {
    if (count == 0) return;
    if (member->is_draining()) continue;
    member->drain();
    --count;
  }
}

Expected<double> MemberCrowd::run_until(const std::function<bool()>& done, double longest_s) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  while (!done()) {
    if (seconds() > longest_s) {
      return Error{Status::timeout, "not within " + std::to_string(longest_s) + " s"};
    }
    shared_->io.restart();
    shared_->io.run_for(std::chrono::milliseconds(5));
  }
  return seconds();
}

void MemberCrowd::run_for(double seconds) {
  shared_->io.restart();
  shared_->io.run_for(std::chrono::milliseconds(static_cast<int>(seconds * 1000)));
}

bool MemberCrowd::all_joined() const {
  return std::all_of(members_.begin(), members_.end(),
                     [](const auto& member) { return member->has_joined(); });
}

bool MemberCrowd::all_have_a_map_of(std::uint32_t owners) const {
  const base::Epoch epoch = members_.empty() ? 0 : epoch_of(members_.front()->map());
  return std::all_of(members_.begin(), members_.end(), [&](const auto& member) {
    const cluster::SlotMapPtr& map = member->map();
    return map != nullptr && map->epoch() == epoch && map->members().size() == owners;
  });
}

std::uint64_t MemberCrowd::heartbeats() const {
  return shared_->heartbeats;
}

}  // namespace simm::bench
