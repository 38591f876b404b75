#include "libclient/staging_maker.h"

#include "ipc/futex.h"
#include "ipc/memory_file.h"
#include "libclient/region_memory.h"
#include "libclient/units.h"

namespace simm::detail {
namespace {

constexpr const char* kStagingName = "simm-staging";

Expected<StagingRequest> new_staging(std::uint64_t bytes) {
  ipc::MemoryFileSpec spec;
  spec.name = kStagingName;
  spec.bytes = bytes;
  spec.prefault = true;
  Expected<ipc::MemoryFile> file = ipc::MemoryFile::create(spec);
  if (!file) return std::move(file).error();
  ipc::MappingOptions options;
  options.dont_fork = true;
  options.dont_dump = true;
  Expected<ipc::Mapping> mapping = ipc::Mapping::map(file->fd(), 0, file->bytes(), options);
  if (!mapping) return std::move(mapping).error();
  StagingRequest made;
  made.memory = std::move(*mapping);
  made.file = file->release();
  return made;
}

}  // namespace

void StagingMaker::send(Lane& lane, StagingRequest& request) {
  const std::uint32_t generation = lane.generation();
  if (lane.staging.handle() != ipc::kNoRegion) {
    ipc::DeregisterRegion old;
    old.handle = lane.staging.handle();
    if (link_.post(old, {}, generation, Link::Reply::unwanted) == 0) return;
    lane.staging = Staging();
  }
  ipc::RegisterRegion message;
  message.kind = ipc::RegionRequestKind::shared;
  message.address = reinterpret_cast<std::uintptr_t>(request.memory.data());
  message.length = request.memory.bytes();
  message.has_fd = true;
  message.name = kStagingName;
  const int fd = request.file.get();
  request.id = link_.post(message, std::span<const int>(&fd, 1), generation, Link::Reply::wanted);
  if (request.id != 0) request.file.reset();
}

Expected<bool> StagingMaker::make(Lane& lane, std::uint64_t bytes) {
  if (!lane.staging_request) {
    Expected<StagingRequest> made = new_staging(bytes);
    if (!made) return std::move(made).error();
    lane.staging_request = std::move(*made);
    lane.staging_request->sent_ns = ipc::monotonic_now_ns();
  }
  StagingRequest& request = *lane.staging_request;
  if (lane.generation() != link_.generation()) {
    return Error{Status::unreachable, "the daemon went while staging memory was made"};
  }
  if (request.id == 0) {
    send(lane, request);
    if (request.id == 0) return false;  // the channel is in use
  }
  const std::optional<ipc::DaemonMessage> message = link_.posted_reply(request.id);
  if (!message) {
    const std::uint64_t limit_ns = answer_ms_ * kNsPerMs;
    if (ipc::monotonic_now_ns() - request.sent_ns < limit_ns) return false;
    link_.lost(lane.generation());
    lane.session->shut_down();
    return Error{Status::timeout,
                 "the daemon did not answer within " + std::to_string(answer_ms_) + " ms"};
  }
  const auto& region = std::get<ipc::RegionReply>(*message);
  StagingRequest answered = std::move(request);
  lane.staging_request.reset();
  if (region.status != Status::ok) return Error{region.status, region.reason};
  if (region.handle == ipc::kNoRegion) return Error{Status::unsupported, region.reason};
  prefault(answered.memory.data(), answered.memory.bytes());
  lane.staging = Staging(std::move(answered.memory), region.handle);
  return true;
}

}  // namespace simm::detail
