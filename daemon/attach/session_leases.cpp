#include "daemon/attach/session_leases.h"

#include <utility>

#include "ipc/cuda/gpu_name.h"

namespace simm::control {

namespace {

// How often the answer of a helper is looked for.
constexpr base::TimeNs kLookNs = base::kNsPerMs;
// A helper that says nothing for so long is dead soon after.
constexpr base::TimeNs kLendNs = 3'000 * base::kNsPerMs;

ipc::LeaseReply refusal(std::uint64_t request_id, const Outcome& why) {
  return {request_id, why.status(), 0, why.error().context};
}

}  // namespace

SessionLeases::SessionLeases(Environment& environment, JobThread& adopter, RegionOpener& opener,
                             const Tenant& tenant, std::uint64_t session_id)
    : environment_(environment),
      adopter_(adopter),
      opener_(opener),
      tenant_(tenant),
      session_id_(session_id),
      look_(environment.io) {}

Outcome SessionLeases::check(const ipc::GpuLend& wanted, const std::string& gpu) const {
  if (!tenant_.may_lend(gpu)) {
    return Error{Status::permission_denied,
                 "gpu = " + gpu + ": tenant " + tenant_.name +
                     " may not lend memory of this GPU: name it in tenants[].gpu_lend of the "
                     "daemon's configuration"};
  }
  if (gpus_.count(gpu) == 0) {
    return Error{Status::permission_denied,
                 "gpu = " + gpu +
                     ": this session has registered no memory of this GPU: register some first, "
                     "which may be deregistered before it lends"};
  }
  if (wanted.notice_ms == 0 || wanted.notice_ms > kNoticeMsMax) {
    return Error{Status::invalid_argument, "notice_ms = " + std::to_string(wanted.notice_ms) +
                                               ": from 1 to " + std::to_string(kNoticeMsMax)};
  }
  if (leases_.size() == kLeasesMax) {
    return Error{Status::out_of_memory, "this session has " + std::to_string(kLeasesMax) +
                                            " leases: reclaim one, or lend more in one"};
  }
  return Done{};
}

void SessionLeases::lend(const ipc::GpuLend& wanted, Answer answer) {
  const std::string gpu = ipc::gpu_name(wanted.uuid);
  if (const Outcome fits = check(wanted, gpu); !fits) {
    return answer(refusal(wanted.request_id, fits));
  }
  const bool queued = adopter_.submit(
      [this, wanted, answer] {
        auto made = std::make_shared<Made>();
        auto lease = opener_.lend(wanted.uuid, tenant_.id, wanted.bytes);
        if (lease) {
          made->lease = std::move(*lease);
          made->order = made->lease->begin();
        } else {
          made->outcome = std::move(lease).error();
        }
        boost::asio::post(environment_.io,
                          [this, made = std::move(made), wanted, answer]() mutable {
                            on_lent(made, wanted, std::move(answer));
                          });
      },
      tenant_.id.value);
  if (queued) return;
  answer(refusal(wanted.request_id,
                 Error{Status::out_of_memory,
                       "too many requests of tenant " + tenant_.name + " are waiting, try again"}));
}

void SessionLeases::on_lent(const std::shared_ptr<Made>& made, const ipc::GpuLend& wanted,
                            Answer answer) {
  if (is_over_) return;  // and so is the lease
  if (!made->outcome) return answer(refusal(wanted.request_id, made->outcome));
  await(made->order, environment_.clock.fresh_ns() + kLendNs,
        [this, made, wanted, answer = std::move(answer)](memory::GpuOrder::State state) {
          if (state == memory::GpuOrder::State::done) {
            made->outcome = made->lease->fits();
          } else {
            made->outcome = Error{Status::unreachable,
                                  "the helper of this GPU does not answer: lend again when "
                                  "simmctl gpus shows that one runs"};
          }
          keep(made, wanted, answer);
        });
}

void SessionLeases::keep(const std::shared_ptr<Made>& made, const ipc::GpuLend& wanted,
                         const Answer& answer) {
  if (!made->outcome) return answer(refusal(wanted.request_id, made->outcome));
  tell(base::EventKind::gpu_lent, *made->lease, "lent");
  const std::uint64_t number = next_number_++;
  leases_.emplace(number, Lease{std::move(made->lease), wanted.notice_ms});
  answer({wanted.request_id, Status::ok, number, {}});
}

void SessionLeases::reclaim(const ipc::GpuReclaim& wanted, Answer answer) {
  const auto found = leases_.find(wanted.lease);
  if (found == leases_.end()) {
    return answer(refusal(wanted.request_id,
                          Error{Status::invalid_argument,
                                "lease = " + std::to_string(wanted.lease) +
                                    ": this session has no such lease, or reclaimed it before"}));
  }
  const base::TimeNs until_ns =
      environment_.clock.fresh_ns() + found->second.notice_ms * base::kNsPerMs;
  const std::unique_ptr<memory::GpuLease> lease = std::move(found->second.lease);
  leases_.erase(found);
  tell(base::EventKind::gpu_reclaimed, *lease, "reclaimed");
  const std::uint64_t request_id = wanted.request_id;
  // Here and now: the adopter may be waiting for the helper of another GPU.
  await(lease->reclaim(), until_ns,
        [request_id, answer = std::move(answer)](memory::GpuOrder::State state) {
          const bool is_back = state != memory::GpuOrder::State::pending;
          answer({request_id, is_back ? Status::ok : Status::timeout, 0,
                  is_back ? ""
                          : "the lease is over, and its memory is not free yet: the helper of this "
                            "GPU hangs, and is killed for that soon"});
        });
}

void SessionLeases::await(memory::GpuOrder order, base::TimeNs until_ns, Then then) {
  const memory::GpuOrder::State state = order.state();
  if (state != memory::GpuOrder::State::pending || environment_.clock.fresh_ns() >= until_ns) {
    return then(state);
  }
  look_.after(kLookNs,
              [this, order = std::move(order), until_ns, then = std::move(then)]() mutable {
                await(std::move(order), until_ns, std::move(then));
              });
}

void SessionLeases::end() {
  is_over_ = true;
  look_.cancel();
  for (const auto& [number, lease] : leases_) {
    tell(base::EventKind::gpu_reclaimed, *lease.lease, "session_over");
  }
  leases_.clear();
}

void SessionLeases::tell(base::EventKind kind, const memory::GpuLease& lease, const char* cause) {
  environment_.events.tell(kind, {{"session", session_id_},
                                  {"tenant", tenant_.name},
                                  {"gpu", ipc::gpu_name(lease.uuid())},
                                  {"bytes", lease.bytes()},
                                  {"cause", cause}});
}

}  // namespace simm::control
