// KeyEvent: what became of an object of a shard, by the hash of its key, and by its token for the
// sessions of its tenant. The key itself is never in one. Thread: any (plain values).
#pragma once

#include <cstdint>
#include <string_view>

#include "daemon/base/ids.h"
#include "daemon/base/key_hash.h"
#include "ipc/key_news.h"

namespace simm::base {

using KeyEventKind = ipc::KeyNewsKind;
inline constexpr std::string_view kKeyEventNames =
    "stored|removed|evicted|expired|moved|damaged|present|gap";

struct KeyEvent {
  std::uint64_t sequence = 0;  // of its shard; a number that is missing is a lost event
  KeyHash hash;
  TenantId tenant;
  NamespaceId name_space;
  std::uint64_t bytes = 0;  // of the object
  KeyEventKind kind = KeyEventKind::stored;
  bool is_walk_end = false;  // no event of a key: `bytes` is where the walk stopped (KeyWalk)
  std::uint32_t walk = 0;    // KeyWalk::number; 0: of no walk
  ipc::KeyToken token{};
};

// An order to a shard: tell the objects that are there, from a record on, a bounded number of them.
// They are told between the other events, as `present`: what is told of a key behind that is newer.
struct KeyWalk {
  std::uint32_t number = 0;  // not 0: whose events they are
  TenantId tenant;
  NamespaceId name_space;
  bool has_tenant = false;      // else of all
  bool has_name_space = false;  // the same
  std::uint32_t next = 0;  // the first record to look at; where it stopped: 0: all were looked at
};

}  // namespace simm::base
