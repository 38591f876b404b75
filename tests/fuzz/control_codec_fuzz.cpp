// Attach messages: whatever the bytes are, both decoders return; what they accept can be encoded
// again and reads the same, so nothing that breaks a limit gets in.
#include "ipc/control_codec.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "simm/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto packet = std::as_bytes(std::span(data, size));
  if (const auto message = simm::ipc::decode_client_message(packet)) {
    const auto again = simm::ipc::encode(message.value());
    SIMM_CHECK(again.has_value());
    const auto decoded = simm::ipc::decode_client_message(again.value());
    SIMM_CHECK(decoded.has_value() && decoded.value() == message.value());
  }
  if (const auto message = simm::ipc::decode_daemon_message(packet)) {
    const auto again = simm::ipc::encode(message.value());
    SIMM_CHECK(again.has_value());
    const auto decoded = simm::ipc::decode_daemon_message(again.value());
    SIMM_CHECK(decoded.has_value() && decoded.value() == message.value());
  }
  return 0;
}
