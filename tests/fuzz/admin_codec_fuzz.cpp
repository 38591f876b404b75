// Admin messages: whatever the bytes are, both decoders return; what they accept can be encoded
// again and reads the same.
#include "ipc/admin_codec.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "simm/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto packet = std::as_bytes(std::span(data, size));
  if (const auto request = simm::ipc::decode_admin_request(packet)) {
    const auto again = simm::ipc::encode(request.value());
    SIMM_CHECK(again.has_value());
    SIMM_CHECK(simm::ipc::decode_admin_request(again.value()).value() == request.value());
  }
  if (const auto reply = simm::ipc::decode_admin_reply(packet)) {
    const auto again = simm::ipc::encode(reply.value());
    SIMM_CHECK(again.has_value());
    SIMM_CHECK(simm::ipc::decode_admin_reply(again.value()).value() == reply.value());
  }
  return 0;
}
