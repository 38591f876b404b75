#include "daemon/cluster/hello/secret.h"

#include <openssl/crypto.h>
#include <openssl/hmac.h>

#include <cstring>
#include <vector>

#include "daemon/base/secret_file.h"
#include "simm/check.h"

namespace simm::cluster {
namespace {

constexpr std::string_view kKeyLabel = "simm cluster key 1";
constexpr std::string_view kSeedLabel = "simm hash seed 1";
constexpr std::string_view kDerivedSeedLabel = "simm derived hash seed 1";

std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::uint64_t first_word(const Mac& mac) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, mac.data(), sizeof(word));
  return word;
}

}  // namespace

Mac mac_of(std::span<const std::byte> key,
           std::initializer_list<std::span<const std::byte>> parts) noexcept {
  // One call over one buffer: the incremental interface of this library allocates more than this.
  std::vector<unsigned char> text;
  std::size_t bytes = 0;
  for (const auto part : parts) bytes += part.size();
  text.reserve(bytes + 1);  // never null
  for (const auto part : parts) {
    const auto* from = reinterpret_cast<const unsigned char*>(part.data());
    text.insert(text.end(), from, from + part.size());
  }
  Mac mac;
  unsigned int mac_bytes = 0;
  const unsigned char* made =
      ::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()), text.data(), text.size(),
             reinterpret_cast<unsigned char*>(mac.data()), &mac_bytes);
  SIMM_CHECK(made != nullptr && mac_bytes == mac.size());
  return mac;
}

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

ClusterSecret::ClusterSecret(std::span<const std::byte> text, bool is_secret) noexcept
    : key_(mac_of(text, {bytes_of(kKeyLabel)})), is_secret_(is_secret) {}

ClusterSecret::ClusterSecret(ClusterSecret&& other) noexcept
    : key_(other.key_), is_secret_(other.is_secret_) {}

ClusterSecret& ClusterSecret::operator=(ClusterSecret&& other) noexcept {
  key_ = other.key_;
  is_secret_ = other.is_secret_;
  return *this;
}

ClusterSecret::~ClusterSecret() {
  ::OPENSSL_cleanse(key_.data(), key_.size());
}

Expected<ClusterSecret> ClusterSecret::load(const std::string& path,
                                            std::string_view credentials_directory) {
  auto text = base::read_secret_file(path, credentials_directory);
  if (!text) return Error{text.status(), "cluster.secret_file: " + text.error().context};
  auto secret = from_text(*text);
  ::OPENSSL_cleanse(text->data(), text->size());
  return secret;
}

Expected<ClusterSecret> ClusterSecret::from_text(std::string_view text) {
  const Outcome fits = base::check_secret_text(text);
  if (!fits) return fits.error();
  return ClusterSecret(bytes_of(text), true);
}

ClusterSecret ClusterSecret::none() {
  return ClusterSecret({}, false);
}

std::uint64_t ClusterSecret::fingerprint_of(std::uint64_t hash_seed) const noexcept {
  return first_word(
      mac_of(key_, {bytes_of(kSeedLabel), std::as_bytes(std::span(&hash_seed, std::size_t{1}))}));
}

std::uint64_t ClusterSecret::hash_seed_of(std::string_view cluster_name) const noexcept {
  return first_word(mac_of(key_, {bytes_of(kDerivedSeedLabel), bytes_of(cluster_name)}));
}

}  // namespace simm::cluster
