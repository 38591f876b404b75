// FallbackRequester: two transports to the same peers, one of which is better where it works. A
// request goes over the better one unless that has no path to the peer now, or can not carry it
// (memory that its devices do not know, or not yet); then over the other one. What was posted stays
// where it is. Both say their rosters as one requester (OwnRoster), so nothing that was given up on
// one is done behind what was asked for on the other. Owned by the engine's data agent, like both.
// Thread: that agent.
#pragma once

#include <algorithm>

#include "daemon/transport/transport.h"

namespace simm::transport {

class FallbackRequester final : public Requester {
public:
  // Both outlive it. `is_second_used`: false: what the better one can not do waits, or fails.
  FallbackRequester(Requester& better, Requester& second, bool is_second_used) noexcept
      : better_(better), second_(second), is_second_used_(is_second_used) {}

  void connect(RequesterEvents& events, RegionFaults* faults) noexcept override {
    better_.connect(events, faults);
    second_.connect(events, faults);
  }
  Status post(Route route, RequestToken token, const Request& request) noexcept override {
    // What moves with its slot lies in the pool, which no device may read.
    if (request.header.is_moved) return second_.post(route, token, request);
    const Status status = better_.post(route, token, request);
    const bool is_passed_on = status == Status::unreachable || status == Status::unsupported;
    if (!is_passed_on) return status;
    if (is_second_used_) return second_.post(route, token, request);
    return status == Status::unsupported ? Status::no_space : status;
  }
  // Whoever does not have the request does nothing.
  void cancel(Route route, RequestToken token) noexcept override {
    better_.cancel(route, token);
    second_.cancel(route, token);
  }
  void abandon(Route route, RequestToken token) noexcept override {
    better_.abandon(route, token);
    second_.abandon(route, token);
  }
  void reset(Route route, RequestToken culprit) noexcept override {
    better_.reset(route, culprit);
    second_.reset(route, culprit);
  }
  [[nodiscard]] std::uint64_t moved(Route route) const noexcept override {
    return better_.moved(route) + second_.moved(route);
  }
  int do_work() noexcept override { return better_.do_work() + second_.do_work(); }
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept override {
    return std::min(better_.next_deadline_ns(), second_.next_deadline_ns());
  }
  [[nodiscard]] bool prepare_sleep() noexcept override {
    const bool may_better = better_.prepare_sleep();
    return second_.prepare_sleep() && may_better;
  }

private:
  Requester& better_;
  Requester& second_;
  const bool is_second_used_;
};

}  // namespace simm::transport
