// EtcdCalls: the calls of etcd that a manager needs (seam). EtcdGateway makes them; the
// simulation's etcd answers late, or never says whether a transaction took place. Owned by whoever
// keeps something in etcd. Thread: one, which may wait.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "simm/expected.h"

namespace simm::etcd {

struct EtcdValue {
  std::string bytes;
  std::int64_t created = 0;  // revisions
  std::int64_t modified = 0;
  std::int64_t lease = 0;  // 0: none
};

// What must be so for a transaction to happen.
struct EtcdCondition {
  enum class What : std::uint8_t { created, modified };
  std::string key;
  What what = What::modified;
  std::int64_t revision = 0;  // 0 for created: there is no such key
};

struct EtcdPut {
  std::string key;
  std::string bytes;
  std::int64_t lease = 0;  // 0: none
};

class EtcdCalls {
public:
  virtual ~EtcdCalls() = default;

  // nullopt: there is no such key.
  virtual Expected<std::optional<EtcdValue>> get(const std::string& key) = 0;
  // The revision of the change; 0: a condition is not met, and nothing happened. An error with
  // Status::timeout or unreachable may have happened all the same, or may yet.
  virtual Expected<std::int64_t> put_if(const std::vector<EtcdCondition>& conditions,
                                        const EtcdPut& put) = 0;
  // A lease's number.
  virtual Expected<std::int64_t> grant(std::uint32_t ttl_s) = 0;
  // False: it is over.
  virtual Expected<bool> keep(std::int64_t lease) = 0;
  // What has the lease is gone with it.
  virtual Outcome revoke(std::int64_t lease) = 0;
};

}  // namespace simm::etcd
