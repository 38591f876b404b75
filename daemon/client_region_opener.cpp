#include "daemon/client_region_opener.h"

#include <memory>
#include <string>
#include <utility>

#include "daemon/memory/region_memory.h"
#include "ipc/memory_file.h"

namespace simm {
namespace {

using ipc::RegionRequestKind;

control::RegionAnswer refusal(Status status, RegionRequestKind kind, std::string reason) {
  control::RegionAnswer answer;
  answer.status = status;
  answer.kind = kind;
  answer.reason = std::move(reason);
  return answer;
}

}  // namespace

control::RegionAnswer ClientRegionOpener::open(control::RegionRequest request) {
  const RegionRequestKind wanted = request.wanted.kind;
  if (wanted == RegionRequestKind::gpu) {
    return refusal(Status::not_implemented, wanted, "device memory is not supported yet");
  }
  if (request.wanted.has_fd &&
      (wanted == RegionRequestKind::automatic || wanted == RegionRequestKind::shared)) {
    return open_shared(request);
  }
  if (wanted == RegionRequestKind::shared) {
    return refusal(Status::invalid_argument, wanted, "a shared region comes with its descriptor");
  }
  return refusal(Status::ok, RegionRequestKind::staged, "private memory of the client");
}

control::RegionAnswer ClientRegionOpener::open_shared(control::RegionRequest& request) {
  auto file = ipc::MemoryFile::inspect(std::move(request.fd));
  if (!file) {
    return refusal(file.status(), RegionRequestKind::shared, std::move(file.error().context));
  }
  auto charge = request.budgets->pins.charge(request.wanted.length);
  if (!charge) {
    return refusal(charge.status(), RegionRequestKind::shared, std::move(charge.error().context));
  }
  memory::RegionMemory::Spec spec;
  spec.kind = memory::RegionKind::shared;
  spec.file_offset = request.wanted.fd_offset;
  spec.length = request.wanted.length;
  spec.id = next_region_id_.fetch_add(1);
  spec.session_id = request.session_id;
  spec.client_address = request.wanted.address;
  auto memory = memory::RegionMemory::map(std::move(*file), spec, request.budgets->touches,
                                          std::move(*charge));
  if (!memory) {
    return refusal(memory.status(), RegionRequestKind::shared, std::move(memory.error().context));
  }
  control::RegionAnswer answer;
  answer.kind = RegionRequestKind::shared;
  answer.reason = "shared memory file";
  answer.memory = std::move(*memory);
  return answer;
}

}  // namespace simm
