// ClusterSecret: what the daemons of one cluster know and nobody else does. From it they prove
// themselves to each other (HELLO.md). Without one there is a well-known key in its place: the
// hello then still checks identity and version, but proves nothing. Such a daemon must listen on
// loopback only (socket_address.h sees to that).
// Immutable after loading; cleared from memory when it goes. Thread: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "daemon/base/secret_file.h"
#include "simm/expected.h"

struct evp_md_ctx_st;  // OpenSSL's

namespace simm::cluster {

// HMAC-SHA-256 (RFC 2104, FIPS 180-4), the only primitive of the hello and its frames.
inline constexpr std::size_t kMacBytes = 32;
using Mac = std::array<std::byte, kMacBytes>;

// HMAC-SHA-256 of `parts`, one after the other. The caller makes the split unambiguous.
Mac mac_of(std::span<const std::byte> key,
           std::initializer_list<std::span<const std::byte>> parts) noexcept;

// A key for many messages: what HMAC makes of the key alone is made once. Thread: any, one at a
// time.
class MacKey {
public:
  explicit MacKey(const Mac& key) noexcept;

  // The same as mac_of() with that key.
  [[nodiscard]] Mac mac_of(std::initializer_list<std::span<const std::byte>> parts) const noexcept;

private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  using Hash = std::unique_ptr<evp_md_ctx_st, Free>;

  static Hash begin(const Mac& key, std::byte pad) noexcept;

  Hash inner_;  // behind the first block of either hash
  Hash outer_;
};

// In time that does not depend on where the two differ.
[[nodiscard]] bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) noexcept;

class ClusterSecret {
public:
  // From a file, under the rules of daemon/base/secret_file.h.
  static Expected<ClusterSecret> load(const std::string& path,
                                      std::string_view credentials_directory = {});
  // For tests and the simulation; the same rules for its size.
  static Expected<ClusterSecret> from_text(std::string_view text);
  static ClusterSecret none();

  ClusterSecret(ClusterSecret&& other) noexcept;
  ClusterSecret& operator=(ClusterSecret&& other) noexcept;
  ~ClusterSecret();

  // False: the well-known key. Nothing is proved with it.
  [[nodiscard]] bool is_secret() const noexcept { return is_secret_; }
  [[nodiscard]] std::span<const std::byte> key() const noexcept { return key_; }

  // Both ends compare this value in the hello. Daemons with different hash seeds would look for
  // each other's objects in the wrong slots, so they never meet. Tells nothing of the seed.
  [[nodiscard]] std::uint64_t fingerprint_of(std::uint64_t hash_seed) const noexcept;

  // The hash seed of a cluster whose configuration names none: from its secret and its name, so
  // that these are all that its daemons have to share. Without a secret anybody can compute it.
  [[nodiscard]] std::uint64_t hash_seed_of(std::string_view cluster_name) const noexcept;

private:
  ClusterSecret(std::span<const std::byte> text, bool is_secret) noexcept;

  Mac key_{};
  bool is_secret_;
};

}  // namespace simm::cluster
