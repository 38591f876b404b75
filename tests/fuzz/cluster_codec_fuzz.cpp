// Cluster messages and a manager's state: whatever the bytes are, every decoder returns; what it
// accepts can be encoded again and reads the same, so nothing that breaks a limit gets in. What a
// delta makes of a map is a map, or an error.
#include "daemon/cluster/cluster_codec.h"

#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/cluster/slot_map_builder.h"
#include "simm/check.h"

namespace {

using namespace simm::cluster;

// Whatever the delta says of its base and its result: they are those that it would need.
void apply_to_its_base(MapDelta delta) {
  static const SlotMapPtr kBase = [] {
    MapMember one;
    one.identity = {{1, 2}, ClusterRole::storage, "a"};
    one.address = "10.0.0.7";
    one.port = 30002;
    one.weight_bytes = 1;
    MapMember two = one;
    two.identity = {{3, 4}, ClusterRole::node, "b"};
    return build_slot_map(7, {two, one}, nullptr, nullptr).value();
  }();
  delta.base_epoch = kBase->epoch();
  delta.base_digest = kBase->digest();
  const auto made = apply(delta, *kBase);
  SIMM_CHECK(!made.has_value() || made.value()->digest() == delta.digest);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
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
    if (const auto* const delta = std::get_if<MapDelta>(&message.value()))
      apply_to_its_base(*delta);
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
