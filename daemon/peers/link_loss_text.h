// The causes of a lost link between daemons, for counters and for people. Thread: any.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "daemon/transport/link_loss.h"

namespace simm::control {

inline constexpr std::array<std::string_view, transport::kLinkLossCount> kLinkLossNames = {
    "closed",  "io_error", "protocol", "silent",     "reset",
    "dropped", "refused",  "given_up", "superseded", "stalled"};

inline constexpr std::array<std::string_view, transport::kLinkLossCount> kLinkLossTexts = {
    "the peer closed the connection",
    "the connection broke",
    "what came is not what a daemon of this version sends",
    "the peer did not answer in time",
    "a request on it had to be fenced",
    "the peer is not in the map any more",
    "the data agent has no room for another connection",
    "the peer said over another connection that it has given this one up",
    "another life of the peer's daemon has connected",
    "payload did not get on, or was still under way long after its request's deadline"};

[[nodiscard]] constexpr std::string_view link_loss_text(transport::LinkLoss loss) noexcept {
  return kLinkLossTexts[static_cast<std::size_t>(loss)];
}

}  // namespace simm::control
