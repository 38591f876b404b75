// KeyFollower: what becomes of the keys of one namespace of this tenant, as the daemon of this node
// tells it: what is stored in its part of the pool, and what leaves that for whatever reason. Made
// by Client::follow_keys(). A key itself is never told, its token is: token() computes that of a
// key.
//
//   auto follower = client->follow_keys();
//   std::array<simm::KeyEvent, 256> events;
//   auto count = follower->read(events, 100);   // waits for 100 ms at most
//
// Who keeps an index of keys follows three rules: `unsure` empties it, `stored` and `present` add a
// key, all others remove one. Then the index never has for long what is not there. With
// FollowOptions::present it also lacks nothing from `complete` on, until the next `unsure`.
//
// The daemon keeps a bounded number of events, and waits for nobody: who reads too slowly is told
// `unsure`. It forgets a follower that has not read for 10 s; then read() subscribes anew, and
// tells `unsure`. In a cluster each daemon tells of its own part.
//
// The daemon's configuration decides whether anything is told: events.keys is off by default.
//
// Thread: one at a time. No exception leaves a method.
#pragma once

#include "simm/compiler.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "simm/expected.h"

namespace simm {

namespace detail {
class Core;
class KeyFollowing;
}  // namespace detail

// Of a key, in one life of the daemon: 128 bits.
struct KeyToken {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  bool operator==(const KeyToken&) const = default;
};

enum class KeyChange : std::uint8_t {
  stored = 0,    // visible now; it may have taken the place of an older one
  removed = 1,   // somebody asked for that
  evicted = 2,   // its room was needed
  expired = 3,   // its time to live was over
  moved = 4,     // it is with another daemon, or nowhere
  damaged = 5,   // its bytes were not what was stored
  present = 6,   // it is there, and was before it was followed
  unsure = 7,    // of no key: nothing is certain any more, and tokens of before mean nothing
  complete = 8,  // of no key: all keys that are there have been told since the last `unsure`
};

struct KeyEvent {
  KeyChange change = KeyChange::stored;
  KeyToken token;
  std::uint64_t bytes = 0;  // of the object
};

struct FollowOptions {
  bool present = false;  // behind each `unsure` the keys that are there are told, then `complete`
};

class KeyFollower {
public:
  KeyFollower(KeyFollower&& other) noexcept;
  KeyFollower& operator=(KeyFollower&& other) noexcept;
  // It follows no more. Waits for nothing.
  ~KeyFollower();

  // The next events: how many of `events` are filled. Waits for the first one, at most so long; 0:
  // for nothing. The first event of all is `unsure`.
  // unreachable: no daemon now; try again later. unsupported: the daemon is of an older release, or
  // has no pool. invalid_state: its events.keys is off. out_of_memory: too many follow. Whatever it
  // is, a later call tries again.
  Expected<std::size_t> read(std::span<KeyEvent> events, std::uint32_t timeout_ms = 0);

  // False: nothing was read yet. A token is good until `unsure` is read.
  [[nodiscard]] bool token(std::string_view key, KeyToken& out) const noexcept;

private:
  friend class Client;
  explicit KeyFollower(std::unique_ptr<detail::KeyFollowing> following) noexcept;
  std::unique_ptr<detail::KeyFollowing> following_;
};

}  // namespace simm
