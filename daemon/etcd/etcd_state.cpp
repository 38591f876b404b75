#include "daemon/etcd/etcd_state.h"

#include <span>
#include <utility>
#include <vector>

#include "daemon/cluster/state_envelope.h"

namespace simm::etcd {
namespace {

std::string key_of(const std::string& cluster, const char* name) {
  return "/simm/" + cluster + "/" + name;
}

}  // namespace

std::string state_key(const std::string& cluster) {
  return key_of(cluster, "state");
}

std::string leader_key(const std::string& cluster) {
  return key_of(cluster, "leader");
}

Expected<std::optional<cluster::StoredState>> EtcdState::open(
    const std::optional<EtcdValue>& value) const {
  if (!value) return std::optional<cluster::StoredState>();
  auto state = cluster::open_state(std::as_bytes(std::span(value->bytes)), "etcd's " + key_,
                                   "remove that key with etcdctl if it is nobody's: the daemons of "
                                   "the cluster bring back the map that they have");
  if (!state) return std::move(state).error();
  return std::optional(std::move(*state));
}

Expected<std::optional<cluster::StoredState>> EtcdState::load() {
  const auto value = calls_.get(key_);
  if (!value) return value.error();
  return open(*value);
}

Outcome EtcdState::store(base::Epoch expected, const cluster::StoredState& state) {
  if (!election_.leadership().leads) {
    return Error{Status::unreachable, "this manager does not lead: nothing is stored"};
  }
  const auto value = calls_.get(key_);
  if (!value) return value.error();
  const auto stored = open(*value);
  if (!stored) return stored.error();
  const base::Epoch there = stored->has_value() ? stored->value().epoch : 0;
  if (there != expected) {
    return Error{Status::invalid_state, "etcd's " + key_ + " has epoch " + std::to_string(there) +
                                            ", expected was " + std::to_string(expected)};
  }
  const std::vector<std::byte> sealed = cluster::seal_state(state);
  const std::string bytes(reinterpret_cast<const char*>(sealed.data()), sealed.size());
  const EtcdCondition same =
      value->has_value()
          ? EtcdCondition{key_, EtcdCondition::What::modified, value->value().modified}
          : EtcdCondition{key_, EtcdCondition::What::created, 0};
  const auto put = calls_.put_if({same, election_.condition()}, {key_, bytes});
  if (!put) return put.error();
  if (*put == 0) {
    return Error{Status::invalid_state, "etcd's " + key_ +
                                            " was changed, or another manager leads: nothing is "
                                            "stored"};
  }
  return Done{};
}

}  // namespace simm::etcd
