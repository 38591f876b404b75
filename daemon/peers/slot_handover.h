// SlotHandover: the objects that leave this daemon with their slots: drains on request step by step
// (DrainCourse), and how far moves of any cause have come, for `simmctl moves`, metrics and events.
//
// Owned by ClusterPresence. Thread: control.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "daemon/cluster/cluster_message.h"
#include "daemon/cluster/drain_course.h"
#include "daemon/control/deadline.h"
#include "daemon/peers/cluster_access.h"

namespace simm::control {

class SlotHandover {
public:
  // What it asks of its owner.
  struct Hooks {
    // Of all shards: the sum of that counter of a section ("store", "moves").
    std::function<std::uint64_t(const char* section, const char* name)> sum;
    std::function<std::uint32_t()> slots_here;       // of the newest map
    std::function<std::uint32_t()> slots_departing;  // whose objects are on their way
    std::function<std::uint64_t()> weight_in_map;    // see ClusterMember
    std::function<bool()> has_moved_all;
    std::function<void(std::uint64_t weight_bytes)> want_weight;
    std::function<void()> drop_rest;  // objects on their way go nowhere any more
  };
  // `whole_bytes`: the weight of this daemon without a drain. `bytes_per_s`:
  // cluster.move_bytes_per_s.
  SlotHandover(ClusterAccess& access, Hooks hooks, std::uint64_t whole_bytes,
               std::uint64_t bytes_per_s);

  // A drain, or the end of one; the manager has allowed it.
  [[nodiscard]] cluster::Answer take(const cluster::Question& question);
  // The process ends: it gives its slots away without steps, and takes no drain any more.
  void stop();

  // Slots have just left, by whatever map: objects begin to move.
  void begin_moves();
  // Of what has moved so far.
  struct Moved {
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;
    std::uint64_t refused = 0;
    std::uint64_t cold_slots = 0;
  };
  // They are through, or given up. Returns what they came to.
  Moved end_moves();

  [[nodiscard]] const cluster::DrainCourse& course() const noexcept { return course_; }
  // How far it is.
  struct Left {
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;
  };
  // In a drain that is not cancelled all that it holds, else about what is on its way.
  [[nodiscard]] Left left() const;
  // What the deadline of the last drain has left behind.
  [[nodiscard]] const Left& lost() const noexcept { return lost_; }
  // The answer to Topic::moves.
  [[nodiscard]] nlohmann::ordered_json report() const;

private:
  [[nodiscard]] Moved moved() const;
  [[nodiscard]] Moved moved_since(const Moved& then) const;
  // Since the drain began, else since these moves began.
  [[nodiscard]] Moved moved_since() const;
  [[nodiscard]] Left held() const;
  [[nodiscard]] cluster::Answer begin(const cluster::Question& question);
  [[nodiscard]] cluster::Answer cancel();
  void look();
  void end_drain(const char* how);

  ClusterAccess& access_;
  const Hooks hooks_;
  const std::uint64_t whole_bytes_;
  const std::uint64_t bytes_per_s_;
  cluster::DrainCourse course_;
  Deadline timer_;
  bool is_stopping_ = false;
  bool moves_ = false;
  Moved moved_before_;         // when the moves that are under way began
  Left to_move_;               // what was to move then
  Moved drained_before_;       // when the drain began
  base::TimeNs begun_ns_ = 0;  // of the drain, else of the moves
  base::TimeNs ended_ns_ = 0;  // of the same; 0: it goes on
  Left lost_;                  // what the deadline of the drain has left behind
};

}  // namespace simm::control
