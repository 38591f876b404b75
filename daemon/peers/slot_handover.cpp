#include "daemon/peers/slot_handover.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/base/json_text.h"

namespace simm::control {
namespace {

using cluster::DrainCourse;
using cluster::DrainState;

constexpr base::TimeNs kDrainTurnNs = 10 * base::kNsPerMs;
// A step is worth so much of a second at the bounded rate, or less where there are many.
constexpr std::uint64_t kStepsPerSecond = 8;

std::uint64_t less(std::uint64_t from, std::uint64_t by) noexcept {
  return from > by ? from - by : 0;
}

}  // namespace

SlotHandover::SlotHandover(ClusterAccess& access, Hooks hooks, std::uint64_t whole_bytes,
                           std::uint64_t bytes_per_s)
    : access_(access),
      hooks_(std::move(hooks)),
      whole_bytes_(whole_bytes),
      bytes_per_s_(bytes_per_s),
      timer_(access.io) {}

// ---- drains ----

cluster::Answer SlotHandover::take(const cluster::Question& question) {
  if (is_stopping_) return {0, Status::invalid_state, "this daemon is stopping"};
  return question.topic == cluster::Topic::drain ? begin(question) : cancel();
}

cluster::Answer SlotHandover::begin(const cluster::Question& question) {
  if (whole_bytes_ == 0) {
    return {0, Status::invalid_argument, "this daemon has no pool and so no slots"};
  }
  if (course_.is_cancelled()) {
    return {0, Status::invalid_state,
            "its last drain is being cancelled: ask again when `simmctl moves` does not say "
            "cancelling any more"};
  }
  if (course_.state() == DrainState::draining) {
    return {0, Status::invalid_state,
            "it drains already, " + std::to_string(hooks_.slots_here()) +
                " slots are left: see `simmctl moves`, or end it with `simmctl drain --cancel`"};
  }
  if (course_.is_on()) {
    return {0, Status::invalid_state,
            "it has drained already: stop the daemon, or give it slots again with `simmctl drain "
            "--cancel`"};
  }
  if (bytes_per_s_ == 0) {
    return {0, Status::invalid_state,
            "its cluster.move_bytes_per_s is 0, so all objects would be dropped: set it, or stop "
            "the daemon"};
  }
  const Left has = held();
  const auto steps = static_cast<std::uint32_t>(std::min<std::uint64_t>(
      has.bytes / std::max<std::uint64_t>(bytes_per_s_ / kStepsPerSecond, 1) + 1,
      DrainCourse::kStepsMax));
  const base::TimeNs now_ns = access_.clock.now_ns();
  const base::TimeNs ends_ns = question.deadline_ms == 0
                                   ? base::kNoDeadline
                                   : now_ns + question.deadline_ms * base::kNsPerMs;
  const std::uint32_t slots = hooks_.slots_here();
  course_.begin(whole_bytes_, slots == 0 ? 0 : steps, ends_ns);
  begun_ns_ = now_ns;
  ended_ns_ = 0;
  lost_ = {};
  drained_before_ = moved();
  access_.events.tell(base::EventKind::drain_begun, {{"slots", slots},
                                                     {"objects", has.objects},
                                                     {"bytes", has.bytes},
                                                     {"deadline_ms", question.deadline_ms}});
  hooks_.want_weight(course_.weight_bytes());
  look();
  return {0, Status::ok, base::json_text(report())};
}

cluster::Answer SlotHandover::cancel() {
  if (!course_.is_on()) {
    return {0, Status::invalid_state, "it does not drain: there is nothing to cancel"};
  }
  timer_.cancel();
  course_.cancel();
  look();
  return {0, Status::ok, base::json_text(report())};
}

void SlotHandover::stop() {
  is_stopping_ = true;
  timer_.cancel();
}

void SlotHandover::look() {
  const DrainCourse::Seen seen{hooks_.weight_in_map(), hooks_.has_moved_all()};
  switch (course_.look(access_.clock.now_ns(), seen)) {
    case DrainCourse::Next::wait:
      break;
    case DrainCourse::Next::want_less:
      hooks_.want_weight(course_.weight_bytes());
      break;
    case DrainCourse::Next::drop_rest:
      lost_ = held();
      hooks_.drop_rest();
      hooks_.want_weight(course_.weight_bytes());
      break;
    case DrainCourse::Next::take_back:
      end_drain("cancelled");
      course_.forget();
      return hooks_.want_weight(whole_bytes_);
    case DrainCourse::Next::end:
      return end_drain(cluster::drain_state_name(course_.state()));
  }
  timer_.after(kDrainTurnNs, [this] { look(); });
}

// Of one that was over already only the state changes.
void SlotHandover::end_drain(const char* how) {
  if (ended_ns_ == 0) ended_ns_ = access_.clock.now_ns();
  const Moved has = moved_since();
  access_.events.tell(base::EventKind::drain_ended, {{"how", how},
                                                     {"objects", has.objects},
                                                     {"bytes", has.bytes},
                                                     {"refused", has.refused},
                                                     {"lost_objects", lost_.objects},
                                                     {"lost_bytes", lost_.bytes}});
}

// ---- moves ----

void SlotHandover::begin_moves() {
  moves_ = true;
  moved_before_ = moved();
  const std::uint64_t departing = hooks_.slots_departing();
  const std::uint64_t slots = std::max<std::uint64_t>(departing + hooks_.slots_here(), 1);
  const Left has = held();
  to_move_ = {has.objects * departing / slots, has.bytes / slots * departing};
  if (course_.is_on()) return;
  begun_ns_ = access_.clock.now_ns();
  ended_ns_ = 0;
}

SlotHandover::Moved SlotHandover::end_moves() {
  moves_ = false;
  if (!course_.is_on()) ended_ns_ = access_.clock.now_ns();
  return moved_since(moved_before_);
}

SlotHandover::Moved SlotHandover::moved() const {
  return {hooks_.sum("moves", "objects"), hooks_.sum("moves", "bytes"),
          hooks_.sum("moves", "refused"), hooks_.sum("moves", "cold_slots")};
}

SlotHandover::Moved SlotHandover::moved_since() const {
  return moved_since(course_.is_on() ? drained_before_ : moved_before_);
}

SlotHandover::Moved SlotHandover::moved_since(const Moved& then) const {
  const Moved now = moved();
  return {now.objects - then.objects, now.bytes - then.bytes, now.refused - then.refused,
          now.cold_slots - then.cold_slots};
}

SlotHandover::Left SlotHandover::held() const {
  return {hooks_.sum("store", "objects"), hooks_.sum("store", "payload_bytes")};
}

SlotHandover::Left SlotHandover::left() const {
  const bool is_whole = course_.is_on() && !course_.is_cancelled();
  if (is_whole && course_.state() == DrainState::draining) return held();
  if (is_whole || !moves_) return {};
  const Moved has = moved_since(moved_before_);
  return {less(to_move_.objects, has.objects + has.refused), less(to_move_.bytes, has.bytes)};
}

nlohmann::ordered_json SlotHandover::report() const {
  const base::TimeNs now_ns = access_.clock.now_ns();
  const bool drains = course_.state() == DrainState::draining;
  const char* const state = course_.is_cancelled() ? "cancelling"
                            : course_.is_on()      ? cluster::drain_state_name(course_.state())
                            : moves_               ? "moving"
                                                   : "still";
  const Left rest = left();
  const Moved has = moved_since();
  const base::TimeNs until_ns = ended_ns_ == 0 ? now_ns : ended_ns_;
  const base::TimeNs took_ns = begun_ns_ == 0 ? 0 : until_ns - begun_ns_;
  const std::uint64_t took_ms = took_ns / base::kNsPerMs;
  const std::uint64_t rate = took_ms == 0 ? 0 : has.bytes * 1000 / took_ms;
  nlohmann::ordered_json out;
  out["daemon"] = access_.self.name;
  out["state"] = state;
  out["slots"] = hooks_.slots_here();
  out["departing_slots"] = hooks_.slots_departing();
  out["left_objects"] = rest.objects;
  out["left_bytes"] = rest.bytes;
  out["moved_objects"] = has.objects;
  out["moved_bytes"] = has.bytes;
  out["refused"] = has.refused;
  out["cold_slots"] = has.cold_slots;
  out["elapsed_ms"] = took_ms;
  out["bytes_per_s"] = rate;
  // Null: nobody can say yet, or nothing is left.
  const bool has_eta = rest.bytes > 0 && rate > 0;
  out["eta_ms"] = has_eta ? nlohmann::ordered_json(rest.bytes * 1000 / rate) : nullptr;
  const bool has_end = drains && course_.ends_ns() != base::kNoDeadline;
  out["deadline_ms"] =
      has_end ? nlohmann::ordered_json(less(course_.ends_ns(), now_ns) / base::kNsPerMs) : nullptr;
  out["lost_objects"] = lost_.objects;
  out["lost_bytes"] = lost_.bytes;
  return out;
}

}  // namespace simm::control
