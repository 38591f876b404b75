#include "tests/siege/known_member.h"

namespace simm::siege {

KnownMember::KnownMember(const KnownDaemon& manager, const cluster::DaemonIdentity& who)
    : peer_(manager, who, {cluster::HelloPurpose::control, {}, 0, 0}) {
  if (peer_.is_welcome()) sealer_.emplace(peer_.send_key());
}

bool KnownMember::say(const std::vector<std::byte>& message) {
  return sealer_ && peer_.say(sealer_->seal(message).value());
}

bool KnownMember::hears() const {
  return peer_.hears();
}

}  // namespace simm::siege
