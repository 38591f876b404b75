#include "ipc/attach_rules.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "ipc/text_list.h"

namespace simm::ipc {
namespace {

// Does "host:port" name the machine that it is said on?
bool names_loopback(std::string_view address) noexcept {
  const std::string_view host = address.substr(0, address.rfind(':'));
  return host == "localhost" || host == "[::1]" || host == "0.0.0.0" || host.starts_with("127.");
}

// A daemon without a manager is a cluster of its own. Engines are told to look for the manager on
// this machine: to them, such a daemon is the one.
bool is_the_manager(const std::string& wanted, const DaemonFacts& daemon) {
  if (daemon.manager_address.empty()) return names_loopback(wanted);
  // Both sides may name several: one that both name is enough.
  const std::vector<std::string> names = text_list(daemon.manager_address);
  const std::vector<std::string> of_client = text_list(wanted);
  return std::find_first_of(of_client.begin(), of_client.end(), names.begin(), names.end()) !=
         of_client.end();
}

// "1", or "1 to 3".
std::string layouts_text(std::uint32_t oldest, std::uint32_t newest) {
  std::string text = std::to_string(oldest);
  if (newest != oldest) text += " to " + std::to_string(newest);
  return text;
}

// Libraries that know no range say none.
std::uint32_t newest_layout(const Hello& hello) noexcept {
  return std::max(hello.layout_version, hello.layout_version_max);
}

}  // namespace

std::uint32_t common_layout(const Hello& hello, const DaemonFacts& daemon) noexcept {
  const std::uint32_t newest = std::min(newest_layout(hello), daemon.layout_version);
  const std::uint32_t oldest = std::max(hello.layout_version, daemon.layout_version_min);
  return oldest <= newest ? newest : 0;
}

Outcome check_hello(const Hello& hello, const DaemonFacts& daemon) {
  if (common_layout(hello, daemon) == 0) {
    const bool old = hello.layout_version < daemon.layout_version;
    return Error{Status::incompatible,
                 "client library " + hello.library_version + " speaks session layout " +
                     layouts_text(hello.layout_version, newest_layout(hello)) + ", daemon " +
                     daemon.version + " speaks layout " +
                     layouts_text(daemon.layout_version_min, daemon.layout_version) +
                     ": upgrade the " + (old ? "client library" : "daemon")};
  }
  const std::uint32_t unknown = hello.feature_bits & ~daemon.feature_bits;
  if (unknown != 0) {
    return Error{Status::incompatible, "client library " + hello.library_version +
                                           " needs feature bits " + std::to_string(unknown) +
                                           " that daemon " + daemon.version +
                                           " does not have: upgrade the daemon"};
  }
  if (!hello.manager_address.empty() && !is_the_manager(hello.manager_address, daemon)) {
    const std::string own = daemon.manager_address.empty() ? "none" : daemon.manager_address;
    return Error{Status::invalid_argument, "client asks for manager " + hello.manager_address +
                                               ", this daemon's manager is " + own +
                                               ": attach to that cluster's daemon or leave the "
                                               "client's manager address empty"};
  }
  return Done{};
}

Outcome check_welcome(const Welcome& welcome) {
  if (welcome.layout_version < kLayoutVersionMin || welcome.layout_version > kLayoutVersion) {
    return Error{Status::incompatible, "daemon " + welcome.daemon_version +
                                           " speaks session layout " +
                                           std::to_string(welcome.layout_version) +
                                           ", this client library speaks layout " +
                                           layouts_text(kLayoutVersionMin, kLayoutVersion)};
  }
  const std::uint32_t unknown = welcome.feature_bits & ~kFeatureBits;
  if (unknown != 0) {
    return Error{Status::incompatible,
                 "daemon needs feature bits " + std::to_string(unknown) + " of its clients"};
  }
  const bool lanes_fit = welcome.lane_count >= 1 && welcome.lane_count <= kLanesMax;
  if (!lanes_fit || welcome.session_bytes != session_bytes(welcome.lane_count)) {
    return Error{Status::incompatible, "daemon offers a session of " +
                                           std::to_string(welcome.session_bytes) + " bytes with " +
                                           std::to_string(welcome.lane_count) + " lanes"};
  }
  return Done{};
}

std::uint32_t granted_lanes(std::uint32_t wanted, std::uint32_t default_lanes,
                            std::uint32_t most) noexcept {
  const std::uint32_t limit = std::clamp(most, 1u, kLanesMax);
  return std::clamp(wanted == 0 ? default_lanes : wanted, 1u, limit);
}

}  // namespace simm::ipc
