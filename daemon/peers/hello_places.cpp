#include "daemon/peers/hello_places.h"

#include <algorithm>

#include "daemon/base/limits.h"
#include "daemon/peers/cluster_access.h"
#include "simm/check.h"

namespace simm::control {
namespace {

constexpr std::array<base::TimeNs, kHelloStages> kChances = {kHelloChanceNs, kHelloChanceNs,
                                                             kHelloTimeNs};

}  // namespace

std::size_t HelloPlaces::places_of(std::size_t descriptors) noexcept {
  return std::min<std::size_t>(base::kHellosMax, descriptors / base::kHelloDescriptorsPart);
}

void HelloPlaces::add(Id id, Source source, base::TimeNs now_ns) {
  const bool is_new = all_.emplace(id, Place{HelloStage::silent, source, now_ns}).second;
  SIMM_CHECK(is_new);
  Stage& silent = stages_[0];
  ++silent.count;
  silent.of_source[source].emplace(id, now_ns);
}

void HelloPlaces::leave(Id id, const Place& place) {
  Stage& stage = stages_[static_cast<std::size_t>(place.stage)];
  const auto own = stage.of_source.find(place.source);
  own->second.erase(id);
  if (own->second.empty()) stage.of_source.erase(own);
  --stage.count;
}

void HelloPlaces::advance(Id id, HelloStage stage) {
  Place& place = all_.at(id);
  SIMM_CHECK(stage > place.stage);
  leave(id, place);
  place.stage = stage;
  Stage& next = stages_[static_cast<std::size_t>(stage)];
  ++next.count;
  next.of_source[place.source].emplace(id, place.since_ns);
}

void HelloPlaces::remove(Id id) {
  const auto found = all_.find(id);
  SIMM_CHECK(found != all_.end());
  leave(id, found->second);
  all_.erase(found);
}

bool HelloPlaces::is_full() const noexcept {
  return std::any_of(stages_.begin(), stages_.end(),
                     [this](const Stage& stage) { return stage.count >= places_; });
}

HelloPlaces::Room HelloPlaces::room(base::TimeNs now_ns) const {
  Room room;
  for (std::size_t i = 0; i < kHelloStages; ++i) {
    const Stage& stage = stages_[i];
    if (stage.count < places_) continue;
    const auto most = std::max_element(
        stage.of_source.begin(), stage.of_source.end(),
        [](const auto& one, const auto& other) { return one.second.size() < other.second.size(); });
    const auto& [oldest, since_ns] = *most->second.begin();
    const base::TimeNs age_ns = now_ns - since_ns;
    if (age_ns < kChances[i]) room.wait_ns = std::max(room.wait_ns, kChances[i] - age_ns);
    room.going[i] = oldest;
  }
  return room;
}

}  // namespace simm::control
