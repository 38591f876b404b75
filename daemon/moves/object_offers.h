// ObjectOffers: the batches of puts by which a shard offers its objects to the owners of other
// slots. Each object is pinned while it is under way, and is sent with the digest that it was put
// with. What is offered, and what becomes of the answers, is the owner's.
//
// The time to live of an object travels as what is left of it. At the new owner that counts from
// the publication, which is later than the look at the object. So what is sent is less, by the
// longest time between the two (TimeToLive): no copy outlives its original.
//
// Owned by a SlotMover or a ReplicaMover; store, engine and clock outlive it. No allocation after
// construction. Thread: their data agent.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "daemon/base/clock.h"
#include "daemon/engine/engine.h"
#include "daemon/memory/region.h"
#include "daemon/store/eviction/depth_queue.h"
#include "daemon/store/store.h"

namespace simm::moves {

// Bytes in a second, in small steps: what is sent before its time is paid for later.
class OfferBudget {
public:
  OfferBudget(std::uint64_t bytes_per_s, const base::Clock& clock)
      : bytes_per_s_(bytes_per_s), clock_(clock) {}

  void begin() noexcept {
    filled_ns_ = clock_.now_ns();
    bytes_ = 0;
  }
  void refill() noexcept;
  void spend(std::uint64_t bytes) noexcept { bytes_ -= static_cast<std::int64_t>(bytes); }
  void forgive() noexcept;  // debts of more than a second
  [[nodiscard]] bool has_some() const noexcept { return bytes_ > 0; }
  // When to refill it next.
  [[nodiscard]] base::TimeNs next_ns() const noexcept;

private:
  const std::uint64_t bytes_per_s_;
  const base::Clock& clock_;
  std::int64_t bytes_ = 0;
  base::TimeNs filled_ns_ = 0;
};

// How long the copy of an object may live.
class TimeToLive {
public:
  // `offer_ns`: the deadline of an offer. Its bytes are pulled before that, by the clock of who
  // offers (transport/tcp/put_sender.h). Who pulls has had the offer by then, and publishes
  // within the deadline by a clock of its own. `grace_ns`: a transport may need that to fence.
  TimeToLive(base::TimeNs offer_ns, base::TimeNs grace_ns)
      : margin_ns_(2 * offer_ns + grace_ns + base::kNsPerMs) {}

  // An object whose time ends by then has too little left to move.
  [[nodiscard]] base::TimeNs needed_until_ns(base::TimeNs now_ns) const noexcept {
    return now_ns + margin_ns_;
  }
  // 0: no limit. Else rounded down to one of sixteen steps between two powers of two, so that
  // objects which were put together go together.
  [[nodiscard]] std::uint32_t left_ms(base::TimeNs expires_ns, base::TimeNs now_ns) const noexcept;

private:
  const base::TimeNs margin_ns_;
};

// An object as it is offered: by which name, and into which tenure of that name's slot.
struct Offer {
  std::string_view key;
  base::KeyHash hash;
  std::uint64_t group = 0;
  base::TenantId tenant;
  base::NamespaceId name_space;
  base::Epoch into = 0;
  std::uint64_t length = 0;
  std::uint64_t digest = 0;
  base::TimeNs expires_ns = 0;
  std::uint8_t depth_step = 0;

  explicit Offer(const store::DepartingObject& object, base::Epoch tenure) noexcept
      : key(object.key),
        hash(object.hash),
        group(object.group),
        tenant(object.tenant),
        name_space(object.name_space),
        into(tenure),
        length(object.length),
        digest(object.digest),
        expires_ns(object.expires_ns),
        depth_step(object.depth_step) {}
};

// Nobody has decided about the offer: it is made again. Or another map is coming.
[[nodiscard]] constexpr bool is_undecided(Status answer) noexcept {
  return answer == Status::unreachable || answer == Status::timeout ||
         answer == Status::transfer_failed || answer == Status::out_of_memory;
}

class ObjectOffers {
public:
  static constexpr std::uint32_t kPagesMax = 32;
  struct Batch {
    bool is_out = false;
    bool is_wanted = false;  // the owner's
    std::uint32_t count = 0;
    std::array<store::ReadPin, kPagesMax> pins;  // by PageRequest::index
  };

  // At most `batches` are out at one time. An object may be longer than `batch_bytes_max`.
  ObjectOffers(store::Store& store, engine::Engine& engine, const base::Clock& clock,
               std::uint32_t batches, base::TimeNs offer_ns, base::TimeNs grace_ns,
               std::uint64_t batch_bytes_max);

  // An empty batch, answered to `owner`; null: the engine has no operation for it.
  [[nodiscard]] engine::Operation* begin(engine::OperationEvents& owner,
                                         base::TimeNs now_ns) noexcept;
  [[nodiscard]] Batch& of(const engine::Operation& operation) noexcept {
    return batches_[operation.owner_data];
  }
  // Puts the object of that record into the batch. False: it does not go with what is in there.
  [[nodiscard]] bool add(engine::Operation& operation, std::uint32_t record,
                         const Offer& offer) noexcept;
  // The bytes that it has; 0: it was empty, and nothing happens.
  std::uint64_t submit(engine::Operation& operation) noexcept;
  // It has its answers.
  void end(Batch& batch) noexcept {
    batch.is_out = false;
    --out_;
  }
  [[nodiscard]] std::uint32_t out() const noexcept { return out_; }
  [[nodiscard]] bool has(std::uint32_t record) const noexcept;
  [[nodiscard]] const TimeToLive& time_to_live() const noexcept { return time_to_live_; }

private:
  store::Store& store_;
  engine::Engine& engine_;
  const base::Clock& clock_;
  const base::TimeNs offer_ns_;
  const TimeToLive time_to_live_;
  const std::uint64_t batch_bytes_max_;
  memory::Region region_;  // the arena
  const std::uint32_t batches_max_;
  const std::unique_ptr<Batch[]> batches_;
  std::uint32_t out_ = 0;
  std::uint64_t bytes_ = 0;  // of the batch that is being made, and of its keys
  std::uint32_t key_bytes_ = 0;
  std::array<std::uint32_t, store::DepthQueue::kSteps> depths_{};  // the first depth of each step
};

}  // namespace simm::moves
