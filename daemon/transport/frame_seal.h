// FrameSeal: what proves the messages of one direction of one link. Both ends have derived a key
// from the hello of the link. A message carries a tag: a keyed function of its header and its
// number. So a message that was made, changed, repeated, moved or left out by somebody on the way
// ends its link, and nobody acts upon it. A body is covered through its digest in the header, whose
// seed is secret, too.
//
// Without a key, messages carry plain digests. Those find damage and keep nobody out. So it is
// between daemons without a cluster secret, and where one of both is of an older release.
// Owned by one end of a link. Thread: the data agent. No allocation.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "daemon/base/hash.h"
#include "daemon/base/siphash.h"

namespace simm::transport {

struct FrameKey {
  base::SipKey tag;
  std::uint64_t digest_seed = 0;  // 0: there is no key

  [[nodiscard]] bool is_set() const noexcept { return digest_seed != 0; }
};

// Of one link, as its agent uses them: the other end has them the other way round.
struct LinkKeys {
  FrameKey send;
  FrameKey receive;
};

class FrameSeal {
public:
  FrameSeal() = default;
  explicit FrameSeal(const FrameKey& key) noexcept : key_(key) {}

  [[nodiscard]] bool has_key() const noexcept { return key_.is_set(); }

  // The tag of the message that is sent, or expected, next; uses up its number. Only with a key.
  // `words`: the header, the digest of the body where the header does not have it, and room for
  // the number.
  template <std::size_t kWords>
  [[nodiscard]] std::uint64_t next_tag(std::array<std::uint64_t, kWords>& words) noexcept {
    words[kWords - 1] = number_++;
    return base::SipHash::of(key_.tag, words);
  }

  [[nodiscard]] std::uint64_t digest(const void* body, std::size_t bytes) const noexcept {
    return base::seeded_digest(body, bytes, key_.digest_seed);
  }

private:
  FrameKey key_;
  std::uint64_t number_ = 0;
};

}  // namespace simm::transport
