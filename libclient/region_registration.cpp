#include "libclient/region_registration.h"

#include <cinttypes>
#include <string>

#include "libclient/log.h"

namespace simm::detail {
namespace {

RegionRequest request(const RegionRecord& record, RegionKind kind) {
  const RegionMemory& memory = record.memory();
  RegionRequest result;
  result.message.kind = static_cast<ipc::RegionRequestKind>(kind);
  result.message.address = reinterpret_cast<std::uintptr_t>(memory.address);
  result.message.length = memory.length;
  result.message.fd_offset = memory.fd_offset;
  result.message.has_fd = memory.fd.valid();
  result.message.name = memory.name;
  result.message.gpu_uuid = memory.gpu_uuid;
  result.message.gpu_allocation_bytes = memory.gpu_allocation_bytes;
  result.fd = memory.fd.get();
  return result;
}

// Nobody but the daemon's helper can copy memory of a GPU: there is no other kind to fall back to.
Expected<std::optional<RegionRequest>> take_gpu_refusal(RegionRecord& record,
                                                        const ipc::RegionReply& reply,
                                                        bool restoring) {
  const RegionMemory& memory = record.memory();
  record.set_wire(0, ipc::kNoRegion, RegionKind::gpu, "refused by the daemon: " + reply.reason);
  if (restoring) {
    Log::note(LogLevel::warning,
              "region '%s' of %" PRIu64
              " bytes on a GPU: calls with it fail: register it again: %s",
              memory.name.c_str(), memory.length, reply.reason.c_str());
    return std::optional<RegionRequest>();
  }
  const bool is_old = reply.status == Status::not_implemented || reply.status == Status::ok;
  return Error{is_old ? Status::unsupported : reply.status,
               "a region of kind gpu: " +
                   (reply.reason.empty() ? std::string("the daemon can not do it") : reply.reason)};
}

}  // namespace

static_assert(static_cast<int>(RegionKind::gpu) == static_cast<int>(ipc::RegionRequestKind::gpu));
static_assert(static_cast<int>(RegionKind::staged) ==
              static_cast<int>(ipc::RegionRequestKind::staged));

std::optional<RegionRequest> first_request(const RegionRecord& record) {
  const RegionMemory& memory = record.memory();
  if (memory.wish == RegionKind::gpu) return request(record, RegionKind::gpu);
  if (memory.fd.valid()) return request(record, RegionKind::shared);
  // A daemon adopts what is at the address, and there our pages are no longer those of the file.
  if (memory.wish == RegionKind::staged || record.taken_back()) return std::nullopt;
  return request(record, memory.wish);
}

Expected<std::optional<RegionRequest>> take_reply(RegionRecord& record, std::uint32_t generation,
                                                  const ipc::RegionReply& reply, bool restoring) {
  const RegionMemory& memory = record.memory();
  const bool mapped = reply.status == Status::ok && reply.handle != ipc::kNoRegion &&
                      reply.kind != ipc::RegionRequestKind::staged;
  if (mapped) {
    record.set_wire(generation, reply.handle, static_cast<RegionKind>(reply.kind), reply.reason);
    return std::optional<RegionRequest>();
  }
  // A reply to the request for foreign memory is known by what the record is by now.
  const bool asked_foreign = record.kind() == RegionKind::foreign;
  if (memory.wish == RegionKind::gpu) return take_gpu_refusal(record, reply, restoring);
  const std::string reason = reply.status == Status::ok
                                 ? reply.reason
                                 : "staged: the daemon answered " +
                                       std::string(status_name(reply.status)) + ": " + reply.reason;
  if (memory.wish == RegionKind::automatic && memory.allow_foreign && !asked_foreign) {
    record.set_wire(0, ipc::kNoRegion, RegionKind::foreign, reason);
    return std::optional<RegionRequest>(request(record, RegionKind::foreign));
  }
  record.set_wire(0, ipc::kNoRegion, RegionKind::staged, reason);
  // The daemon sees a memory file, and says that this process had better copy.
  const bool may_share = memory.wish == RegionKind::shared && reply.status == Status::ok;
  if (memory.wish == RegionKind::automatic || may_share || restoring) {
    Log::note(restoring ? LogLevel::warning : LogLevel::info,
              "region '%s' of %" PRIu64 " bytes: from now on libsimm copies: %s",
              memory.name.c_str(), memory.length, reason.c_str());
    return std::optional<RegionRequest>();
  }
  const Status status = reply.status == Status::ok ? Status::unsupported : reply.status;
  return Error{status,
               std::string("a region of kind ") + region_kind_name(memory.wish) + ": " +
                   (reply.reason.empty() ? std::string("the daemon can not do it") : reply.reason)};
}

}  // namespace simm::detail
