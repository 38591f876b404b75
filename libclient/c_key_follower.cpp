// The C interface of simm/key_follower.h.
#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "libclient/c_handles.h"

int simm_follow_keys(simm_client* client, const simm_namespace* name_space, uint32_t flags,
                     simm_key_follower** out) {
  if (client == nullptr || out == nullptr) return simm::detail::null_argument("client or out");
  *out = nullptr;
  if (!simm::detail::known_flags(flags, SIMM_FOLLOW_PRESENT, "SIMM_FOLLOW_PRESENT")) {
    return SIMM_INVALID_ARGUMENT;
  }
  return simm::detail::guarded([&] {
    simm::FollowOptions options;
    options.present = (flags & SIMM_FOLLOW_PRESENT) != 0;
    auto made = client->client.follow_keys(
        name_space == nullptr ? simm::Namespace() : name_space->name_space, options);
    if (!made) return simm::detail::code(made.status());
    *out = new simm_key_follower{std::move(*made)};
    return SIMM_OK;
  });
}
int simm_key_follower_read(simm_key_follower* follower, simm_key_event* events, size_t count,
                           uint32_t timeout_ms, size_t* got) {
  if (follower == nullptr || events == nullptr || got == nullptr) {
    return simm::detail::null_argument("follower, events or got");
  }
  *got = 0;
  return simm::detail::guarded([&] {
    std::array<simm::KeyEvent, 256> read;
    auto done =
        follower->follower.read(std::span(read).first(std::min(count, read.size())), timeout_ms);
    if (!done) return simm::detail::code(done.status());
    for (std::size_t i = 0; i < *done; ++i) {
      events[i] = {static_cast<std::uint32_t>(read[i].change),
                   0,
                   {read[i].token.low, read[i].token.high},
                   read[i].bytes};
    }
    *got = *done;
    return SIMM_OK;
  });
}
int simm_key_follower_token(const simm_key_follower* follower, const void* key, size_t key_bytes,
                            simm_key_token* out) {
  if (follower == nullptr || key == nullptr || out == nullptr) {
    return simm::detail::null_argument("follower, key or out");
  }
  simm::KeyToken token;
  const std::string_view text(static_cast<const char*>(key), key_bytes);
  if (!follower->follower.token(text, token)) {
    return simm::detail::code(simm::detail::fail(simm::Status::invalid_state,
                                                 "follower: nothing was read yet: read before"));
  }
  *out = {token.low, token.high};
  return SIMM_OK;
}
void simm_key_follower_free(simm_key_follower* follower) {
  delete follower;
}
