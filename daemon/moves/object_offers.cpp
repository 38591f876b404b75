#include "daemon/moves/object_offers.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "simm/check.h"

namespace simm::moves {
namespace {

// So much may be sent at once after a pause, in time.
constexpr base::TimeNs kBurstNs = 20 * base::kNsPerMs;
constexpr base::TimeNs kStepNs = base::kNsPerMs / 10;
constexpr std::uint64_t kStepsPerSecond = base::kNsPerSecond / kStepNs;

}  // namespace

void OfferBudget::refill() noexcept {
  const base::TimeNs now_ns = clock_.now_ns();
  const auto burst = static_cast<std::int64_t>(
      std::max<std::uint64_t>(bytes_per_s_ / (base::kNsPerSecond / kBurstNs), 1));
  const base::TimeNs passed_ns = std::min(now_ns - filled_ns_, base::kNsPerSecond);
  // In steps that are worth a byte at least, or nothing would ever come together.
  const std::uint64_t bytes = bytes_per_s_ * (passed_ns / kStepNs) / kStepsPerSecond;
  if (bytes == 0) return;
  filled_ns_ = now_ns;
  bytes_ = std::min(bytes_ + static_cast<std::int64_t>(bytes), burst);
}

// When it has a byte more than by the last call, at the earliest.
base::TimeNs OfferBudget::next_ns() const noexcept {
  const std::uint64_t bytes_per_s = std::max<std::uint64_t>(bytes_per_s_, 1);
  const std::uint64_t steps = (kStepsPerSecond + bytes_per_s - 1) / bytes_per_s;
  return filled_ns_ + std::max(base::kNsPerMs, steps * kStepNs);
}

void OfferBudget::forgive() noexcept {
  bytes_ = std::max(bytes_, -static_cast<std::int64_t>(bytes_per_s_));
}

std::uint32_t TimeToLive::left_ms(base::TimeNs expires_ns, base::TimeNs now_ns) const noexcept {
  if (expires_ns == 0) return 0;
  constexpr int kStepBits = 4;
  const base::TimeNs until_ns = needed_until_ns(now_ns);
  // The millisecond is in the margin: 0 would be no limit.
  if (expires_ns < until_ns + base::kNsPerMs) return 1;
  const std::uint64_t left_ms =
      std::min<std::uint64_t>((expires_ns - until_ns) / base::kNsPerMs, ~std::uint32_t{0});
  const int dropped_bits = std::max(static_cast<int>(std::bit_width(left_ms)) - kStepBits - 1, 0);
  return static_cast<std::uint32_t>(left_ms >> dropped_bits << dropped_bits);
}

ObjectOffers::ObjectOffers(store::Store& store, engine::Engine& engine, const base::Clock& clock,
                           std::uint32_t batches, base::TimeNs offer_ns, base::TimeNs grace_ns,
                           std::uint64_t batch_bytes_max)
    : store_(store),
      engine_(engine),
      clock_(clock),
      offer_ns_(offer_ns),
      time_to_live_(offer_ns, grace_ns),
      batch_bytes_max_(batch_bytes_max),
      batches_max_(batches),
      batches_(std::make_unique<Batch[]>(batches)) {
  region_.base = store.arena().data();
  region_.length = store.arena().size();
  region_.can_fault = false;
  std::uint32_t step = 0;
  for (std::uint32_t depth = 1; step + 1 < depths_.size() && depth < (1u << 20);
       depth += 1 + depth / 64) {
    const std::uint32_t at = store::DepthQueue::step_of(depth);
    for (; step < at; ++step) depths_[step + 1] = depth;
  }
}

engine::Operation* ObjectOffers::begin(engine::OperationEvents& owner,
                                       base::TimeNs now_ns) noexcept {
  engine::Operation* const operation = engine_.allocate_fetch();
  if (operation == nullptr) return nullptr;
  const auto batches = std::span(batches_.get(), batches_max_);
  const auto free =
      std::find_if(batches.begin(), batches.end(), [](const Batch& one) { return !one.is_out; });
  SIMM_CHECK(free != batches.end());
  free->is_wanted = false;
  free->count = 0;
  operation->header.opcode = ipc::Opcode::put;
  operation->header.put_mode = ipc::PutMode::if_absent;
  operation->header.is_moved = true;
  operation->header.deadline_ns = now_ns + offer_ns_;
  // The cluster's names. The key alone does not make them: a replica has another one.
  operation->has_hashes = true;
  operation->owner = &owner;
  operation->owner_data = static_cast<std::uint64_t>(free - batches.begin());
  bytes_ = key_bytes_ = 0;
  return operation;
}

bool ObjectOffers::add(engine::Operation& operation, std::uint32_t record,
                       const Offer& offer) noexcept {
  transport::RequestHeader& header = operation.header;
  const std::uint32_t ttl_ms = time_to_live_.left_ms(offer.expires_ns, clock_.now_ns());
  if (operation.page_count == 0) {
    header.tenant = offer.tenant;
    header.name_space = offer.name_space;
    header.epoch = offer.into;
    header.ttl_ms = ttl_ms;
  } else if (operation.page_count == kPagesMax || bytes_ + offer.length > batch_bytes_max_ ||
             key_bytes_ + offer.key.size() > operation.key_bytes.size() ||
             offer.tenant != header.tenant || offer.name_space != header.name_space ||
             offer.into != header.epoch || ttl_ms != header.ttl_ms) {
    return false;
  }
  char* const key = operation.key_bytes.data() + key_bytes_;
  std::memcpy(key, offer.key.data(), offer.key.size());
  key_bytes_ += static_cast<std::uint32_t>(offer.key.size());
  bytes_ += offer.length;
  Batch& batch = of(operation);
  const std::uint32_t at = operation.page_count++;
  batch.pins[at] = store_.departing().pin(record);
  batch.count = operation.page_count;
  transport::PageRequest page;
  page.hash = offer.hash;
  page.group = offer.group;
  page.key = key;
  page.key_bytes = static_cast<std::uint32_t>(offer.key.size());
  page.depth = depths_[std::min<std::size_t>(offer.depth_step, depths_.size() - 1)];
  page.digest = offer.digest;
  page.slice = {&region_, static_cast<std::uint64_t>(batch.pins[at].bytes.data() - region_.base),
                offer.length};
  page.index = static_cast<std::uint16_t>(at);
  operation.pages[at] = page;
  return true;
}

std::uint64_t ObjectOffers::submit(engine::Operation& operation) noexcept {
  if (operation.page_count == 0) {
    engine_.release(operation);
    return 0;
  }
  of(operation).is_out = true;
  ++out_;
  engine_.submit(operation);
  return bytes_;
}

bool ObjectOffers::has(std::uint32_t record) const noexcept {
  if (out_ == 0) return false;
  const auto batches = std::span(batches_.get(), batches_max_);
  return std::any_of(batches.begin(), batches.end(), [record](const Batch& batch) {
    const auto pins = std::span(batch.pins).first(batch.is_out ? batch.count : 0);
    return std::any_of(pins.begin(), pins.end(),
                       [record](const store::ReadPin& pin) { return pin.record == record; });
  });
}

}  // namespace simm::moves
