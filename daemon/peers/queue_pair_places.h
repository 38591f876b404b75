// QueuePairPlaces: who has how many places for queue pairs at one agent that serves. A Place is one
// of them, and is given back with whatever holds it. A place that another requester is to get
// counts as that one's, so that several attempts make one place each, and no more. Owned by
// QueuePairLinks, and outlives its places. Thread: control.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "daemon/peers/rail_share.h"

namespace simm::control {

class QueuePairPlaces {
public:
  class Place {
  public:
    Place() = default;
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place() { give_back(); }

    [[nodiscard]] bool is_taken() const noexcept { return of_ != nullptr; }
    // It is that requester's, and nobody else is to get it.
    [[nodiscard]] bool is_kept_by(const std::string& name) const {
      return is_taken() && !is_passed_on_ && name_ == name;
    }
    void take(QueuePairPlaces& of, std::string name) {
      give_back();
      of_ = &of;
      name_ = std::move(name);
      ++of_->taken_;
      ++of_->held_[name_];
    }
    void pass_to(const std::string& name) {
      of_->drop(name_);
      name_ = name;
      is_passed_on_ = true;
      ++of_->held_[name_];
    }
    void give_back() {
      if (of_ == nullptr) return;
      --of_->taken_;
      of_->drop(name_);
      of_ = nullptr;
      is_passed_on_ = false;
    }

  private:
    QueuePairPlaces* of_ = nullptr;
    std::string name_;
    bool is_passed_on_ = false;
  };

  // As that requester finds them, and who has most.
  [[nodiscard]] Places found_by(const std::string& name, std::size_t room,
                                std::string& greediest) const {
    const auto own = held_.find(name);
    Places places;
    places.room = room;
    places.taken = taken_;
    places.own = own == held_.end() ? 0 : own->second;
    places.requesters = held_.size() + (own == held_.end() ? 1 : 0);
    for (const auto& [holder, count] : held_) {
      if (count <= places.most) continue;
      places.most = count;
      greediest = holder;
    }
    return places;
  }

private:
  void drop(const std::string& name) {
    const auto found = held_.find(name);
    if (--found->second == 0) held_.erase(found);
  }

  std::size_t taken_ = 0;
  std::map<std::string, std::size_t> held_;  // by full name
};

}  // namespace simm::control
