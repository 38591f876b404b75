// HelloPlaces: how many connections of a cluster port may be in their hello, and who goes for a
// newer one. How far a hello has come decides: a silent connection never takes the place of a
// daemon that has said its hello, and neither that of one that has proved itself. So a thousand
// daemons behind one address get in, whoever else calls from there.
//
// Of connections that have come equally far the oldest goes of the source address that has most.
// Each has a chance first: many round trips of a hello, and a second for who has proved itself and
// proves its path. There are so many places that no flood that a daemon can accept takes them all
// within that chance, so nobody waits for it.
// Owned by a ClusterListener. Thread: control.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "daemon/base/clock.h"

namespace simm::control {

// How long an unauthenticated connection is safe from newer ones: many round trips of a hello.
inline constexpr base::TimeNs kHelloChanceNs = 25 * base::kNsPerMs;

// How far a hello has come.
enum class HelloStage : std::uint8_t {
  silent,   // it has not said whole who it is
  greeted,  // it has, and owes the proof
  proved,   // a daemon of this cluster; what is left is the proof of the path
};
inline constexpr std::size_t kHelloStages = 3;

class HelloPlaces {
public:
  // Connections get rising numbers, so the least one is the oldest.
  using Id = std::uint64_t;
  using Source = std::uint64_t;  // an IPv4 address, or an IPv6 network of 64 bits

  // Who goes for a newer connection.
  struct Room {
    std::array<std::optional<Id>, kHelloStages> going;
    base::TimeNs wait_ns = 0;  // not 0: nobody may go yet, so the newer one waits
  };

  // At each stage; fewer where the process may open few files, because others need some.
  explicit HelloPlaces(std::size_t places) : places_(places) {}
  static std::size_t places_of(std::size_t descriptors) noexcept;

  void add(Id id, Source source, base::TimeNs now_ns);
  // One that is there; never back.
  void advance(Id id, HelloStage stage);
  void remove(Id id);

  [[nodiscard]] bool is_full() const noexcept;
  [[nodiscard]] Room room(base::TimeNs now_ns) const;

private:
  struct Place {
    HelloStage stage = HelloStage::silent;
    Source source = 0;
    base::TimeNs since_ns = 0;
  };
  struct Stage {
    std::size_t count = 0;
    // Of each source, the oldest one first.
    std::map<Source, std::map<Id, base::TimeNs>> of_source;
  };

  void leave(Id id, const Place& place);

  const std::size_t places_;
  std::map<Id, Place> all_;
  std::array<Stage, kHelloStages> stages_;
};

}  // namespace simm::control
