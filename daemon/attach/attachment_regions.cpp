// The requests of an attachment that are about memory regions, and about what is lent of GPUs.
#include <memory>
#include <utility>

#include "daemon/attach/attachment.h"
#include "daemon/attach/region_release.h"
#include "daemon/base/sanitize.h"
#include "ipc/cuda/gpu_name.h"

namespace simm::control {

void Attachment::on_register_region(const ipc::RegisterRegion& wanted,
                                    std::vector<ipc::UniqueFd> fds) {
  Environment& environment = services_.environment;
  state_ = State::busy;
  request_id_ = wanted.request_id;
  request_name_ = base::sanitize(wanted.name, 100);
  const bool is_gpu = wanted.kind == ipc::RegionRequestKind::gpu;
  request_gpu_ = is_gpu ? ipc::gpu_name(wanted.gpu_uuid) : std::string();
  if (wanted.has_fd && fds.empty()) {  // it came, and was no memory
    return reply(ipc::RegionReply{
        request_id_, Status::invalid_argument, ipc::kNoRegion, wanted.kind,
        is_gpu ? "the descriptor is not of memory of a GPU"
               : "the descriptor is not a file of tmpfs or hugetlbfs: only memory can be shared"});
  }
  auto request = std::make_shared<RegionRequest>();
  request->wanted = wanted;
  if (!fds.empty()) request->fd = std::move(fds.front());
  request->account = account_;
  request->session_id = session_id_;
  registering_ = true;
  // The job holds the attachment, so the identity it checks stays valid; the answer comes back to
  // the control thread before anything of the attachment is touched.
  JobThread& thread = RegionOpener::asks_helper(wanted) ? services_.adopter : environment.registrar;
  const bool queued = thread.submit(
      [self = shared_from_this(), request] {
        auto answer =
            std::make_shared<RegionAnswer>(self->services_.opener.open(std::move(*request)));
        boost::asio::post(self->services_.environment.io,
                          [self, answer] { self->on_region_ready(std::move(*answer)); });
      },
      tenant_.id.value);
  if (queued) return;
  registering_ = false;
  close_elsewhere(std::move(request));
  meet(base::Limit::registrar_jobs);
  reply(ipc::RegionReply{
      request_id_, Status::out_of_memory, ipc::kNoRegion, wanted.kind,
      "too many registrations of tenant " + tenant_.name + " are waiting, try again"});
}

void Attachment::on_region_ready(RegionAnswer answer) {
  registering_ = false;
  if (state_ != State::busy) {  // it went away meanwhile
    free_region(std::move(answer.memory));
    if (state_ == State::closed) finish();
    return;
  }
  if (answer.memory == nullptr) {
    if (answer.status == Status::out_of_memory) {
      meet(base::Limit::region_pin_bytes);
    }
    return reply(
        ipc::RegionReply{request_id_, answer.status, ipc::kNoRegion, answer.kind, answer.reason});
  }
  const memory::Region& region = answer.memory->region();
  adding_region_ = region.id;
  RegionView view{ipc::kNoRegion, region.length, region.can_fault,        request_gpu_,
                  answer.kind,    request_name_, std::move(answer.reason)};
  if (!request_gpu_.empty()) leases_.on_region(request_gpu_);
  const bool fresh = regions_.emplace(region.id, std::move(view)).second;
  SIMM_CHECK(fresh);
  services_.plane.add_region(session_id_, std::move(answer.memory));
}

void Attachment::on_region_added(ipc::RegionHandle handle,
                                 std::unique_ptr<memory::RegionMemory> refused) {
  free_region(std::move(refused));
  const auto found = regions_.find(adding_region_);
  if (state_ != State::busy || found == regions_.end()) return;
  RegionView& view = found->second;
  ipc::RegionReply answer{request_id_, Status::ok, handle, view.kind, view.reason};
  if (handle != ipc::kNoRegion) {
    view.handle = handle;
  } else {
    answer.status = Status::out_of_memory;
    answer.reason = "the session's region table is full";
    meet(base::Limit::regions_per_session);
    regions_.erase(found);
  }
  reply(answer);
}

void Attachment::on_deregister_region(const ipc::DeregisterRegion& wanted) {
  state_ = State::busy;
  request_id_ = wanted.request_id;
  services_.plane.remove_region(session_id_, wanted.handle);
}

void Attachment::on_region_removed(std::unique_ptr<memory::RegionMemory> region) {
  const Status status = region != nullptr ? Status::ok : Status::invalid_argument;
  if (region != nullptr) regions_.erase(region->region().id);
  free_region(std::move(region));
  if (state_ == State::busy) reply(ipc::DeregisterReply{request_id_, status});
}

SessionLeases::Answer Attachment::lease_answer() {
  state_ = State::busy;
  return [self = shared_from_this()](const ipc::LeaseReply& answer) {
    if (self->state_ == State::busy) self->reply(answer);
  };
}

void Attachment::free_region(std::unique_ptr<memory::RegionMemory> region) {
  if (region == nullptr) return;
  RegionRelease::Regions regions;
  regions.push_back(std::move(region));
  RegionRelease::start(releaser(), tenant_.id.value, std::move(regions),
                       [account = account_]() mutable { account.reset(); });
}

JobThread& Attachment::releaser() const {
  // The adopter revives workers of private memory now and then, and these refer to the account. It
  // alone talks to helpers of GPUs. A registration is not under way now, so nobody writes `owner`.
  const bool has_helpers = account_->owner.copier != nullptr || account_->owner.has_gpu_regions;
  return has_helpers ? services_.adopter : services_.environment.registrar;
}

}  // namespace simm::control
