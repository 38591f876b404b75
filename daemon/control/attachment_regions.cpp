// The requests of an attachment that are about memory regions.
#include <memory>
#include <utility>

#include "daemon/base/sanitize.h"
#include "daemon/control/attachment.h"

namespace simm::control {

void Attachment::on_register_region(const ipc::RegisterRegion& wanted,
                                    std::vector<ipc::UniqueFd> fds) {
  Environment& environment = services_.environment;
  state_ = State::busy;
  request_id_ = wanted.request_id;
  request_name_ = base::sanitize(wanted.name, 100);
  auto request = std::make_shared<RegionRequest>();
  request->wanted = wanted;
  if (!fds.empty()) request->fd = std::move(fds.front());
  request->peer = &peer_;
  request->budgets = budgets_;
  request->session_id = session_id_;
  registering_ = true;
  // The job holds the attachment, so the identity it checks stays valid; the answer comes back to
  // the control thread before anything of the attachment is touched.
  const bool queued = environment.registrar.submit([self = shared_from_this(), request] {
    auto answer = std::make_shared<RegionAnswer>(self->services_.opener.open(std::move(*request)));
    boost::asio::post(self->services_.environment.io,
                      [self, answer] { self->on_region_ready(std::move(*answer)); });
  });
  if (queued) return;
  registering_ = false;
  environment.limits.reached(base::Limit::registrar_jobs);
  reply(ipc::RegionReply{request_id_, Status::out_of_memory, ipc::kNoRegion, wanted.kind,
                         "too many registrations are waiting, try again"});
}

void Attachment::on_region_ready(RegionAnswer answer) {
  registering_ = false;
  if (state_ != State::busy) {  // it went away meanwhile
    free_region(std::move(answer.open));
    if (state_ == State::closed) finish();
    return;
  }
  if (answer.open == nullptr) {
    if (answer.status == Status::out_of_memory) {
      services_.environment.limits.reached(base::Limit::region_pin_bytes);
    }
    return reply(
        ipc::RegionReply{request_id_, answer.status, ipc::kNoRegion, answer.kind, answer.reason});
  }
  const memory::Region& region = answer.open->region();
  adding_region_ = region.id;
  const bool fresh =
      regions_
          .emplace(region.id, RegionEntry{std::move(answer.open), ipc::kNoRegion, answer.kind,
                                          request_name_, std::move(answer.reason)})
          .second;
  SIMM_CHECK(fresh);
  services_.plane.add_region(session_id_, region);
}

void Attachment::on_region_added(Status status, ipc::RegionHandle handle) {
  const auto found = regions_.find(adding_region_);
  if (state_ != State::busy || found == regions_.end()) return;
  RegionEntry& entry = found->second;
  ipc::RegionReply answer{request_id_, status, handle, entry.kind, entry.reason};
  if (status == Status::ok) {
    entry.handle = handle;
  } else {
    answer.reason = "the session's region table is full";
    services_.environment.limits.reached(base::Limit::regions_per_session);
    free_region(std::move(entry.open));
    regions_.erase(found);
  }
  reply(answer);
}

void Attachment::on_deregister_region(const ipc::DeregisterRegion& wanted) {
  state_ = State::busy;
  request_id_ = wanted.request_id;
  services_.plane.remove_region(session_id_, wanted.handle);
}

void Attachment::on_region_removed(const memory::Region* region) {
  const auto found = region == nullptr ? regions_.end() : regions_.find(region->id);
  const bool existed = found != regions_.end();
  if (existed) {
    free_region(std::move(found->second.open));
    regions_.erase(found);
  }
  if (state_ != State::busy) return;
  reply(ipc::DeregisterReply{request_id_, existed ? Status::ok : Status::invalid_argument});
}

void Attachment::free_region(std::unique_ptr<OpenRegion> region) {
  if (region == nullptr) return;
  // Unmapping many pages takes long.
  std::shared_ptr<OpenRegion> last(std::move(region));
  services_.environment.registrar.submit_release(
      [last = std::move(last)]() mutable { last.reset(); });
}

std::vector<Attachment::RegionView> Attachment::regions() const {
  std::vector<RegionView> all;
  for (const auto& [id, entry] : regions_) {
    const memory::Region& region = entry.open->region();
    all.push_back(
        {id, entry.handle, region.length, entry.kind, entry.name, entry.reason, region.can_fault});
  }
  return all;
}

}  // namespace simm::control
