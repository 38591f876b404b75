// MinimalRequester, MinimalResponder: the least that the seam of transports asks for, as a proof of
// the recipe in CONTRIBUTING: this folder, and a world beside it, which is the one line more that
// the suite needs. Both ends are on one thread, and each request is a path of its own. Whoever
// makes a transport can begin with a copy. This one allocates, which a transport of the product may
// not. Thread: the test's.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "daemon/base/hash.h"
#include "daemon/transport/mover.h"
#include "daemon/transport/transport.h"

namespace minimal {

// A request under way. Both ends know it until its requester has heard of its end.
struct Asked final : simm::transport::Incoming {
  simm::transport::RequestToken token = 0;
  bool is_served = false;  // its server has it
  bool is_over = false;    // answered or aborted
  bool is_aborted = false;
  bool wants_cancel = false;
  bool wants_reset = false;
  bool was_reset = false;  // by its requester
  std::deque<simm::transport::Move> moves;
  simm::base::PayloadDigest stream;
  std::vector<simm::transport::PageReply> replies;
};

// In the order in which they were posted.
using Requests = std::vector<std::unique_ptr<Asked>>;

class MinimalRequester final : public simm::transport::Requester {
public:
  MinimalRequester(Requests& requests, simm::transport::Route route, std::uint32_t credits)
      : requests_(requests), route_(route), credits_(credits) {}

  void connect(simm::transport::RequesterEvents& events,
               simm::transport::RegionFaults* faults) noexcept override {
    events_ = &events;
    faults_ = faults;
  }
  simm::Status post(simm::transport::Route route, simm::transport::RequestToken token,
                    const simm::transport::Request& request) noexcept override;
  void cancel(simm::transport::Route route, simm::transport::RequestToken token) noexcept override;
  void reset(simm::transport::Route route, simm::transport::RequestToken culprit) noexcept override;
  int do_work() noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override;

private:
  Asked* find(simm::transport::RequestToken token) noexcept;

  Requests& requests_;
  const simm::transport::Route route_;
  const std::uint32_t credits_;
  simm::transport::RequesterEvents* events_ = nullptr;
  simm::transport::RegionFaults* faults_ = nullptr;
};

class MinimalResponder final : public simm::transport::Responder {
public:
  MinimalResponder(Requests& requests, simm::transport::Mover& mover)
      : requests_(requests), mover_(mover) {}

  void connect(simm::transport::ResponderEvents& events) noexcept override { events_ = &events; }
  void pull(simm::transport::Incoming& incoming, std::uint16_t page,
            std::span<std::byte> extent) noexcept override;
  void push(simm::transport::Incoming& incoming, std::uint16_t page,
            std::span<const std::byte> bytes, bool whole_digest) noexcept override;
  void reply(simm::transport::Incoming& incoming,
             std::span<const simm::transport::PageReply> pages) noexcept override;
  void drop_all() noexcept override;
  int do_work() noexcept override;
  int run_moves() noexcept override;
  [[nodiscard]] bool prepare_sleep() noexcept override;

private:
  int take(Asked& asked);
  int move_some(Asked& asked);
  void order(simm::transport::Incoming& incoming, simm::transport::Move move);

  Requests& requests_;
  simm::transport::Mover& mover_;
  simm::transport::ResponderEvents* events_ = nullptr;
};

}  // namespace minimal
