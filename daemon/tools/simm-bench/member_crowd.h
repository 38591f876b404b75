// MemberCrowd: many daemons of a cluster in one thread, as far as their manager sees them: each has
// a connection of its own, joins, sends heartbeats and takes maps. None has a pool or clients.
// Owned by the benchmark of the manager. Thread: the one that calls run_until().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "simm/expected.h"

namespace simm::bench {

class MemberCrowd {
public:
  // `address`: of the manager, in a cluster without a secret.
  explicit MemberCrowd(std::string address);
  ~MemberCrowd();
  MemberCrowd(const MemberCrowd&) = delete;
  MemberCrowd& operator=(const MemberCrowd&) = delete;

  // So many more daemons dial the manager.
  void add(std::uint32_t count);
  // The first so many of those that have slots want none any more; they stay connected.
  void drain(std::uint32_t count);

  // Runs all until `done`, and returns for how many seconds. timeout: not within `longest_s`.
  Expected<double> run_until(const std::function<bool()>& done, double longest_s);
  void run_for(double seconds);

  [[nodiscard]] bool all_joined() const;
  // All of them have one map, and it has so many owners.
  [[nodiscard]] bool all_have_a_map_of(std::uint32_t owners) const;
  // So far, of all.
  [[nodiscard]] std::uint64_t heartbeats() const;

private:
  struct Shared;
  class Member;
  const std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Member>> members_;
};

}  // namespace simm::bench
