#include "daemon/store/eviction/policy_contest.h"

#include <algorithm>

#include "simm/check.h"

namespace simm::store {

namespace {

// Hits fade: half of what they count is gone after 2,800 uses of the sample, one or two turnovers
// of the simulated caches.
constexpr float kFading = 1 - 1.0f / 4096;
// One leads when it has so many hits more, and so many standard deviations more than chance makes
// of those that only one of the two had.
constexpr float kLeadMin = 24;
constexpr float kDeviations = 2;
// Age is the safe choice, so worth has to lead in most blocks of so many uses. The hits of a loop
// come in bursts: whenever the loop comes to the part that worth has kept. One burst says nothing
// of the time between two of them. So the lead also has to be clear beside the variance of the
// blocks' leads. A lead that is the same in each block has none.
constexpr std::uint32_t kBlockUses = 512;

}  // namespace

void PolicyContest::play(std::uint64_t mixed, std::uint8_t uses, std::uint32_t groups,
                         const ReuseModel& model, base::TimeNs now_ns) noexcept {
  follow(groups);
  if (!in_sample(sample_of(mixed))) return;  // the sample has just been halved
  const auto tag = static_cast<std::uint32_t>(mixed >> 12);
  std::uint32_t name = find(tag);
  if (name == kNone) {
    name = make(tag, sample_of(mixed));
  } else {
    has_hit_ = true;
    judge(names_[name].aged, names_[name].rated);
  }
  fade();
  const auto group_class = static_cast<std::uint8_t>(ReuseModel::class_of(uses));
  use_by_age(name);
  use_by_worth(name, group_class);
  names_[name].used_ns = now_ns;
  while (aged_ > capacity_) evict_by_age();
  while (rated_ > capacity_) evict_by_worth(model, now_ns);
}

void PolicyContest::judge(bool hit_by_age, bool hit_by_worth) noexcept {
  if (hit_by_age == hit_by_worth) return;
  const float more = hit_by_age ? 1.0f : -1.0f;
  lead_ += more;
  block_lead_ += more;
  differing_ += 1;
  const float squares = block_squares_ + block_lead_ * block_lead_;
  const float of_blocks = squares - lead_ * lead_ / (blocks_ + 1);
  const float variance = lead_ > 0 ? differing_ : std::max(differing_, of_blocks);
  if (lead_ * lead_ <= std::max(kLeadMin * kLeadMin, kDeviations * kDeviations * variance)) return;
  prefers_age_ = lead_ > 0;
}

void PolicyContest::fade() noexcept {
  lead_ *= kFading;
  differing_ *= kFading;
  block_squares_ *= kFading;
  blocks_ *= kFading;
  if (++uses_ % kBlockUses != 0) return;
  block_squares_ += block_lead_ * block_lead_;
  block_lead_ = 0;
  blocks_ += 1;
}

// The sample is as large as fits. Its caches grow and shrink with the tenant's part, by one for
// each use: a moment in which much is leased changes little.
void PolicyContest::follow(std::uint32_t groups) noexcept {
  constexpr std::uint32_t kMaskMax = (1 << 20) - 1;
  const auto sampled = [&] { return groups / (sample_mask_ + 1); };
  if (sampled() > kContestGroupsMax && sample_mask_ < kMaskMax) {
    sample_mask_ = sample_mask_ << 1 | 1;
    capacity_ /= 2;
    for (std::uint32_t n = 1; n <= names_.highest(); ++n) {
      const Name& name = names_[n];  // one that was released is of sample 0
      if (in_sample(name.sample)) continue;
      if (name.aged) drop_by_age(n);
      if (name.rated) drop_by_worth(n);
      release_unused(n);
    }
  } else if (sampled() < kContestGroupsMax / 8) {
    sample_mask_ >>= 1;
  }
  const std::uint32_t wanted = sampled() + 1;
  if (capacity_ < wanted) ++capacity_;
  if (capacity_ > wanted) --capacity_;
}

std::uint32_t PolicyContest::find(std::uint32_t tag) const noexcept {
  std::uint32_t name = chains_[tag % kChains];
  while (name != kNone && names_[name].tag != tag) name = names_[name].chain;
  return name;
}

std::uint32_t PolicyContest::make(std::uint32_t tag, std::uint32_t sample) noexcept {
  const std::uint32_t name = names_.allocate();
  SIMM_CHECK(name != kNone);  // each cache has two names too many at most, for a moment
  names_[name].tag = tag;
  names_[name].sample = sample;
  names_[name].chain = chains_[tag % kChains];
  chains_[tag % kChains] = name;
  return name;
}

void PolicyContest::release_unused(std::uint32_t number) noexcept {
  const Name& name = names_[number];
  if (name.aged || name.rated) return;
  std::uint32_t* link = &chains_[name.tag % kChains];
  while (*link != number) link = &names_[*link].chain;
  *link = name.chain;
  names_.release(number);
}

void PolicyContest::use_by_age(std::uint32_t name) noexcept {
  if (names_[name].aged) {
    by_age_.move_to_back(names_, name);
    return;
  }
  by_age_.push_back(names_, name);
  names_[name].aged = true;
  ++aged_;
}

void PolicyContest::use_by_worth(std::uint32_t name, std::uint8_t group_class) noexcept {
  if (names_[name].rated) drop_by_worth(name);
  names_[name].group_class = group_class;
  by_worth_[group_class].push_back(names_, name);
  names_[name].rated = true;
  ++rated_;
}

void PolicyContest::evict_by_age() noexcept {
  const std::uint32_t name = by_age_.front();
  drop_by_age(name);
  release_unused(name);
}

void PolicyContest::evict_by_worth(const ReuseModel& model, base::TimeNs now_ns) noexcept {
  std::uint32_t cheapest = kNone;
  float least = 0;
  const auto offer = [&](std::uint32_t name, std::uint32_t group_class) {
    const base::TimeNs used_ns = names_[name].used_ns;
    const float worth = model.worth(group_class, now_ns > used_ns ? now_ns - used_ns : 0);
    if (cheapest != kNone && worth >= least) return;
    cheapest = name;
    least = worth;
  };
  for (std::uint32_t c = 0; c < ReuseModel::kClasses; ++c) {
    if (by_worth_[c].empty()) continue;
    offer(by_worth_[c].front(), c);
    if (ReuseModel::offers_newest(c)) offer(by_worth_[c].back(names_), c);
  }
  drop_by_worth(cheapest);
  release_unused(cheapest);
}

void PolicyContest::drop_by_age(std::uint32_t name) noexcept {
  by_age_.remove(names_, name);
  names_[name].aged = false;
  --aged_;
}

void PolicyContest::drop_by_worth(std::uint32_t name) noexcept {
  by_worth_[names_[name].group_class].remove(names_, name);
  names_[name].rated = false;
  --rated_;
}

}  // namespace simm::store
