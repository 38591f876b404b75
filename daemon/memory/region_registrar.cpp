#include "daemon/memory/region_registrar.h"

#include <algorithm>
#include <utility>

#include "ipc/memory_file.h"
#include "ipc/range.h"

namespace simm::memory {

namespace {

using Kind = ipc::RegionRequestKind;
static_assert(static_cast<int>(Kind::shared) == static_cast<int>(RegionKind::shared));
static_assert(static_cast<int>(Kind::adopted) == static_cast<int>(RegionKind::adopted));
static_assert(static_cast<int>(Kind::staged) == static_cast<int>(RegionKind::staged));
static_assert(static_cast<int>(Kind::foreign) == static_cast<int>(RegionKind::foreign));
static_assert(static_cast<int>(Kind::gpu) == static_cast<int>(RegionKind::gpu));

const char* page_words(const RegionMemory& memory) {
  if (memory.can_shrink()) return "it can shrink";
  return memory.region().can_fault ? "it can not shrink" : "sealed";
}

}  // namespace

Expected<MadeRegion> RegionRegistrar::make(RegionOwner& owner, const ipc::RegisterRegion& request,
                                           ipc::UniqueFd fd) {
  if (request.has_fd != fd.valid()) {
    return Error{Status::invalid_argument, "the message and its descriptors do not agree"};
  }
  switch (request.kind) {
    case Kind::automatic:
      return make_automatic(owner, request, std::move(fd));
    case Kind::shared:
      return make_shared(owner, request, std::move(fd));
    case Kind::adopted:
      return make_adopted(owner, request);
    case Kind::foreign:
      return make_foreign(owner, request);
    case Kind::staged:
      return MadeRegion{nullptr, Kind::staged, "staged: the client asked for it"};
    case Kind::gpu:
      return make_gpu(owner, request, std::move(fd));
  }
  return Error{Status::invalid_argument, "no such kind of region"};
}

Expected<MadeRegion> RegionRegistrar::make_automatic(RegionOwner& owner,
                                                     const ipc::RegisterRegion& request,
                                                     ipc::UniqueFd fd) {
  const bool had_fd = fd.valid();
  Expected<MadeRegion> made =
      had_fd ? make_shared(owner, request, std::move(fd)) : make_adopted(owner, request);
  if (made) return made;
  std::string why_not = (had_fd ? "not shared: " : "not adopted: ") + made.error().context;
  if (policy_.foreign && !had_fd) {
    made = make_foreign(owner, request);
    if (made) {
      made->reason += "; " + why_not;
      return made;
    }
    why_not += "; not foreign: " + made.error().context;
  }
  return MadeRegion{nullptr, Kind::staged, "staged; " + why_not};
}

Expected<std::unique_ptr<RegionMemory>> RegionRegistrar::map(RegionOwner& owner, ipc::UniqueFd fd,
                                                             RegionMemory::Spec spec) {
  Expected<ipc::MemoryFile> file = ipc::MemoryFile::inspect(std::move(fd));
  if (!file) return std::move(file).error();
  Expected<PinCharge> charge = owner.pins.charge(spec.length);
  if (!charge) return std::move(charge).error();
  spec.id = next_id_++;
  spec.tenant = owner.tenant;
  Expected<std::unique_ptr<RegionMemory>> memory =
      RegionMemory::map(std::move(file).value(), spec, owner.touches, std::move(charge).value(),
                        policy_.several_tenants ? &mapped_files_ : nullptr);
  if (memory && nics_ != nullptr) (*memory)->attach(nics_->attach((*memory)->region()));
  return memory;
}

Expected<MadeRegion> RegionRegistrar::make_shared(RegionOwner& owner,
                                                  const ipc::RegisterRegion& request,
                                                  ipc::UniqueFd fd) {
  if (!fd) return Error{Status::invalid_argument, "a shared region comes with its memory file"};
  RegionMemory::Spec spec;
  spec.kind = RegionKind::shared;
  spec.file_offset = request.fd_offset;
  spec.length = request.length;
  spec.client_address = request.address;
  Expected<std::unique_ptr<RegionMemory>> memory = map(owner, std::move(fd), spec);
  if (memory.status() == Status::unsupported) {
    return MadeRegion{nullptr, Kind::staged, "staged; not shared: " + memory.error().context};
  }
  if (!memory) return std::move(memory).error();
  const std::string reason =
      std::string("shared: the client's memory file, ") + page_words(**memory);
  return MadeRegion{std::move(memory).value(), Kind::shared, reason};
}

Expected<MadeRegion> RegionRegistrar::make_adopted(RegionOwner& owner,
                                                   const ipc::RegisterRegion& request) {
  if (!policy_.adopt) return Error{Status::permission_denied, "adoption is configured off"};
  if (policy_.several_tenants) {
    return Error{Status::unsupported,
                 "its owner can punch holes into memory that is adopted, and so hold up the other "
                 "tenants of this daemon: use allocate_region(), or give the tenant a daemon of "
                 "its own"};
  }
  if (helper_ == nullptr) return Error{Status::permission_denied, no_helper_};
  Expected<Adopted> adopted = helper_->adopt(owner.client, request.address, request.length);
  if (!adopted) return std::move(adopted).error();
  RegionMemory::Spec spec;
  spec.kind = RegionKind::adopted;
  spec.file_offset = adopted->file_offset;
  spec.length = request.length;
  spec.client_address = request.address;
  Expected<std::unique_ptr<RegionMemory>> memory = map(owner, std::move(adopted->fd), spec);
  if (!memory) return std::move(memory).error();
  const std::string reason =
      std::string("adopted: the client's own shared mapping, ") + page_words(**memory);
  return MadeRegion{std::move(memory).value(), Kind::adopted, reason};
}

Expected<MadeRegion> RegionRegistrar::make_foreign(RegionOwner& owner,
                                                   const ipc::RegisterRegion& request) {
  if (!policy_.foreign) {
    return Error{Status::permission_denied, "foreign regions are configured off"};
  }
  if (helper_ == nullptr) return Error{Status::permission_denied, no_helper_};
  Expected<PinCharge> charge = owner.pins.charge(request.length);
  if (!charge) return std::move(charge).error();
  if (owner.copier == nullptr) {
    Expected<std::unique_ptr<ForeignCopier>> copier =
        ForeignCopier::start(*helper_, owner.client, arena_);
    if (!copier) return std::move(copier).error();
    owner.copier = std::move(copier).value();
    copiers_.push_back(owner.copier);
  }
  RegionMemory::Spec spec;
  spec.kind = RegionKind::foreign;
  spec.length = request.length;
  spec.client_address = request.address;
  spec.id = next_id_++;
  return MadeRegion{RegionMemory::copied(spec, std::move(charge).value(), owner.copier),
                    Kind::foreign, "foreign: private memory, copied by a helper process"};
}

Expected<MadeRegion> RegionRegistrar::make_gpu(RegionOwner& owner,
                                               const ipc::RegisterRegion& request,
                                               ipc::UniqueFd fd) {
  if (gpus_ == nullptr) {
    return refuse_gpu(GpuRefusal::off,
                      {Status::unsupported,
                       "memory of a GPU: gpu.enabled is off in this daemon's configuration: set it "
                       "to true, or register host memory"});
  }
  if (!fd || !ipc::range_within(request.fd_offset, request.length, request.gpu_allocation_bytes)) {
    return refuse_gpu(
        GpuRefusal::memory,
        {Status::invalid_argument,
         "a region of kind gpu comes with the descriptor of its allocation, and lies in it"});
  }
  // The whole allocation is mapped, however short the region is.
  Expected<PinCharge> charge = owner.pins.charge(request.gpu_allocation_bytes);
  if (!charge) return refuse_gpu(GpuRefusal::room, std::move(charge).error());
  Expected<std::shared_ptr<GpuDevice>> device = gpus_->open(request.gpu_uuid, owner.tenant);
  if (!device) return refuse_gpu(GpuRefusal::no_gpu, std::move(device).error());
  owner.has_gpu_regions = true;
  Expected<std::unique_ptr<GpuImport>> import =
      (*device)->import(std::move(fd), request.gpu_allocation_bytes, owner.tenant);
  if (!import) {
    const Status status = import.status();
    const GpuRefusal reason = status == Status::out_of_memory ? GpuRefusal::room
                              : status == Status::unreachable ? GpuRefusal::helper
                                                              : GpuRefusal::memory;
    return refuse_gpu(reason, std::move(import).error());
  }
  RegionMemory::Spec spec;
  spec.kind = RegionKind::gpu;
  spec.length = request.length;
  spec.client_address = request.fd_offset;
  spec.id = next_id_++;
  return MadeRegion{
      RegionMemory::copied(spec, std::move(charge).value(), std::move(import).value()), Kind::gpu,
      "gpu: memory of a GPU, copied by the helper of that GPU"};
}

Error RegionRegistrar::refuse_gpu(GpuRefusal reason, Error why) {
  gpu_refused_.add(reason);
  return why;
}

void RegionRegistrar::maintain() {
  if (gpus_ != nullptr) gpus_->maintain();
  for (const std::weak_ptr<ForeignCopier>& weak : copiers_) {
    const std::shared_ptr<ForeignCopier> copier = weak.lock();
    // One that does not come back keeps answering "unreachable": its client's own loss.
    if (copier != nullptr && copier->needs_revival()) (void)copier->revive();
  }
  copiers_.erase(std::remove_if(copiers_.begin(), copiers_.end(),
                                [](const auto& weak) { return weak.expired(); }),
                 copiers_.end());
}

}  // namespace simm::memory
