#include "daemon/cluster/hello/secret.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <memory>

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

struct MacFree {
  void operator()(EVP_MAC_CTX* context) const noexcept { ::EVP_MAC_CTX_free(context); }
};
using MacContext = std::unique_ptr<EVP_MAC_CTX, MacFree>;

MacContext make_mac_context() noexcept {
  EVP_MAC* const hmac = ::EVP_MAC_fetch(nullptr, "HMAC", nullptr);
  SIMM_CHECK(hmac != nullptr);
  MacContext context(::EVP_MAC_CTX_new(hmac));
  ::EVP_MAC_free(hmac);  // the context has its own reference
  SIMM_CHECK(context != nullptr);
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      ::OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
      ::OSSL_PARAM_construct_end()};
  SIMM_CHECK(::EVP_MAC_CTX_set_params(context.get(), parameters) == 1);
  return context;
}

const unsigned char* octets(std::span<const std::byte> bytes) noexcept {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

std::uint64_t first_word(const Mac& mac) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, mac.data(), sizeof(word));
  return word;
}

}  // namespace

Mac mac_of(std::span<const std::byte> key,
           std::initializer_list<std::span<const std::byte>> parts) noexcept {
  // One for each thread, given another key each time. A new one looks its algorithm up under locks,
  // which costs four times as much as the MAC of a short message.
  thread_local const MacContext context = make_mac_context();
  // An empty key is one, but a null one would be the key of the call before.
  static constexpr unsigned char kNone = 0;
  const unsigned char* const from = key.empty() ? &kNone : octets(key);
  SIMM_CHECK(::EVP_MAC_init(context.get(), from, key.size(), nullptr) == 1);
  for (const auto part : parts) {
    if (part.empty()) continue;
    SIMM_CHECK(::EVP_MAC_update(context.get(), octets(part), part.size()) == 1);
  }
  Mac mac;
  std::size_t mac_bytes = 0;
  auto* const to = reinterpret_cast<unsigned char*>(mac.data());
  SIMM_CHECK(::EVP_MAC_final(context.get(), to, &mac_bytes, mac.size()) == 1);
  SIMM_CHECK(mac_bytes == mac.size());
  return mac;
}

void MacKey::Free::operator()(evp_md_ctx_st* context) const noexcept {
  ::EVP_MD_CTX_free(context);  // clears it
}

MacKey::MacKey(const Mac& key) noexcept
    : inner_(begin(key, std::byte{0x36})), outer_(begin(key, std::byte{0x5c})) {}

// RFC 2104, section 2: the key is filled up with zeros to a block of the hash, and mixed with one
// of two constants.
MacKey::Hash MacKey::begin(const Mac& key, std::byte pad) noexcept {
  constexpr std::size_t kBlockBytes = 64;
  static_assert(kMacBytes <= kBlockBytes, "a longer key would be hashed first");
  std::array<std::byte, kBlockBytes> block{};
  std::copy(key.begin(), key.end(), block.begin());
  for (std::byte& byte : block) byte ^= pad;
  Hash hash(::EVP_MD_CTX_new());
  SIMM_CHECK(hash != nullptr);
  SIMM_CHECK(::EVP_DigestInit_ex(hash.get(), ::EVP_sha256(), nullptr) == 1);
  SIMM_CHECK(::EVP_DigestUpdate(hash.get(), block.data(), block.size()) == 1);
  ::OPENSSL_cleanse(block.data(), block.size());
  return hash;
}

Mac MacKey::mac_of(std::initializer_list<std::span<const std::byte>> parts) const noexcept {
  thread_local const Hash hash(::EVP_MD_CTX_new());
  SIMM_CHECK(hash != nullptr);
  Mac mac;
  auto* const to = reinterpret_cast<unsigned char*>(mac.data());
  SIMM_CHECK(::EVP_MD_CTX_copy_ex(hash.get(), inner_.get()) == 1);
  for (const auto part : parts) {
    SIMM_CHECK(::EVP_DigestUpdate(hash.get(), part.data(), part.size()) == 1);
  }
  SIMM_CHECK(::EVP_DigestFinal_ex(hash.get(), to, nullptr) == 1);
  SIMM_CHECK(::EVP_MD_CTX_copy_ex(hash.get(), outer_.get()) == 1);
  SIMM_CHECK(::EVP_DigestUpdate(hash.get(), mac.data(), mac.size()) == 1);
  SIMM_CHECK(::EVP_DigestFinal_ex(hash.get(), to, nullptr) == 1);
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
