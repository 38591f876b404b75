// Cluster messages and a manager's state: whatever the bytes are, every decoder returns; what it
// accepts can be encoded again and reads the same, so nothing that breaks a limit gets in.
#include "daemon/cluster/cluster_codec.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "simm/check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace simm::cluster;
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto message = decode_member_message(bytes)) {
    const auto again = encode(message.value());
    SIMM_CHECK(again.has_value());
    const auto decoded = decode_member_message(again.value());
    SIMM_CHECK(decoded.has_value() && decoded.value() == message.value());
  }
  if (const auto message = decode_manager_message(bytes)) {
    const auto again = encode(message.value());
    SIMM_CHECK(again.has_value());
    const auto decoded = decode_manager_message(again.value());
    SIMM_CHECK(decoded.has_value() && decoded.value() == message.value());
  }
  if (const auto state = decode_manager_state(bytes)) {
    const auto again = encode(state.value());
    SIMM_CHECK(again.has_value());
    const auto decoded = decode_manager_state(again.value());
    SIMM_CHECK(decoded.has_value() && *decoded->map == *state->map &&
               decoded->retired == state->retired);
  }
  return 0;
}
