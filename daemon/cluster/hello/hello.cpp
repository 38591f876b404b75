#include "daemon/cluster/hello/hello.h"

#include <algorithm>

#include "simm/check.h"

namespace simm::cluster {

bool is_sent_refusal(std::uint32_t value) noexcept {
  return value >= static_cast<std::uint32_t>(HelloRefusal::version) &&
         value <= static_cast<std::uint32_t>(HelloRefusal::no_room);
}

std::string_view refusal_text(HelloRefusal refusal) noexcept {
  switch (refusal) {
    case HelloRefusal::none:
      return "welcome";
    case HelloRefusal::garbage:
      return "what came is no hello of this protocol: is something else listening on that port?";
    case HelloRefusal::impostor:
      return "the peer does not know this cluster's secret or is not the daemon that was meant: "
             "check cluster.secret_file at both ends";
    case HelloRefusal::version:
      return "no protocol version in common: upgrade the older daemon";
    case HelloRefusal::cluster_name:
      return "the peer belongs to another cluster: check cluster.name at both ends";
    case HelloRefusal::secret_missing:
      return "one end has a secret and the other one has none: set cluster.secret_file at both "
             "ends";
    case HelloRefusal::proof:
      return "the two secrets differ: put the same file at cluster.secret_file at both ends";
    case HelloRefusal::itself:
      return "the daemon reached itself: the address is its own, or somebody reflects its bytes";
    case HelloRefusal::hash_seed:
      return "the two hash seeds differ: set the same hash_seed at both ends";
    case HelloRefusal::target:
      return "another daemon, or a restarted one, lives at that address now";
    case HelloRefusal::shard:
      return "the peer has no such shard";
    case HelloRefusal::no_room:
      return "the peer has no place for another connection of this daemon: all daemons that ask it "
             "share its places. Lower cluster.connections_per_shard; this daemon asks again, "
             "every 16 s in the end";
  }
  return "unknown";
}

Status refusal_status(HelloRefusal refusal) noexcept {
  switch (refusal) {
    case HelloRefusal::none:
      return Status::ok;
    case HelloRefusal::garbage:
    case HelloRefusal::version:
      return Status::incompatible;
    case HelloRefusal::target:
    case HelloRefusal::shard:
      return Status::unreachable;
    case HelloRefusal::no_room:
      return Status::out_of_memory;
    default:
      return Status::permission_denied;
  }
}

bool is_cluster_name(std::string_view name) noexcept {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= kNameBytesMax &&
         std::all_of(name.begin(), name.end(), is_plain);
}

WireName wire_name(std::string_view name) noexcept {
  SIMM_CHECK(is_cluster_name(name));
  WireName wire{};
  std::copy(name.begin(), name.end(), wire.begin());
  return wire;
}

std::optional<std::string> name_of(const WireName& name) {
  const auto end = std::find(name.begin(), name.end(), '\0');
  if (std::any_of(end, name.end(), [](char c) { return c != '\0'; })) return std::nullopt;
  std::string text(name.begin(), end);
  if (!is_cluster_name(text)) return std::nullopt;
  return text;
}

}  // namespace simm::cluster
