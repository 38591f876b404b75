// Turns: calls of many connections that are ready at one time, some of them and then some more. In
// between the loop looks at everybody else. Without that, somebody who comes behind a hundred
// hellos or handshakes waits for all of them.
//
// What is called is bounded work of some ten microseconds; nothing bounds a single call here.
// Owned by who gives the turns. Thread: control.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "daemon/base/clock.h"
#include "daemon/control/asio.h"

namespace simm::control {

class Turns {
public:
  // So long calls follow each other. The last one may take longer.
  static constexpr base::TimeNs kTurnNs = base::kNsPerMs / 2;

  Turns(boost::asio::io_context& io, const base::Clock& clock) : io_(io), clock_(clock) {}
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  // In its turn, behind those that wait; not any more when `whose` has ended, or this object. A
  // first one comes soon, but not in here. `is_urgent`: before all others that are not: where time
  // is short, some get ready, and not all of them too late.
  void take(std::weak_ptr<const void> whose, std::function<void()> call, bool is_urgent = false) {
    (is_urgent ? urgent_ : waiting_).push_back({std::move(whose), std::move(call)});
    if (!std::exchange(is_under_way_, true)) go_on_later();
  }
  [[nodiscard]] std::size_t waiting() const noexcept { return urgent_.size() + waiting_.size(); }

private:
  struct Call {
    std::weak_ptr<const void> whose;
    std::function<void()> call;
  };

  void go_on_later() {
    boost::asio::post(io_, [this, alive = std::weak_ptr<bool>(alive_)] {
      if (!alive.expired()) go_on();
    });
  }

  void go_on() {
    const std::weak_ptr<bool> alive = alive_;
    const base::TimeNs until_ns = clock_.now_ns() + kTurnNs;
    do {
      std::deque<Call>& next = urgent_.empty() ? waiting_ : urgent_;
      const Call now = std::move(next.front());
      next.pop_front();
      if (!now.whose.expired()) now.call();
      if (alive.expired()) return;
    } while (waiting() > 0 && clock_.now_ns() < until_ns);
    is_under_way_ = waiting() > 0;
    if (is_under_way_) go_on_later();
  }

  boost::asio::io_context& io_;
  const base::Clock& clock_;
  std::deque<Call> urgent_;
  std::deque<Call> waiting_;
  bool is_under_way_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace simm::control
