#include "daemon/cluster/secret.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "ipc/fd.h"
#include "simm/check.h"

namespace simm::cluster {
namespace {

constexpr std::string_view kKeyLabel = "simm cluster key 1";
constexpr std::string_view kSeedLabel = "simm hash seed 1";
constexpr std::string_view kDerivedSeedLabel = "simm derived hash seed 1";
constexpr mode_t kOthers = 0077;
constexpr mode_t kOthersButGroupRead = 0037;

std::span<const std::byte> bytes_of(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::uint64_t first_word(const Mac& mac) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, mac.data(), sizeof(word));
  return word;
}

Error unusable(Status status, const std::string& path, const std::string& what) {
  return {status, "cluster.secret_file: " + path + what};
}

// Whoever may read the file may join the cluster, so it must be ours alone.
Outcome check_owner(const std::string& path, const struct stat& info, bool is_credential) {
  if (!S_ISREG(info.st_mode)) {
    return unusable(Status::invalid_argument, path, " is not a regular file; name a file");
  }
  if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
    return unusable(Status::permission_denied, path,
                    " belongs to user " + std::to_string(info.st_uid) + "; chown it to user " +
                        std::to_string(::geteuid()) + " or root");
  }
  if ((info.st_mode & (is_credential ? kOthersButGroupRead : kOthers)) != 0) {
    return unusable(Status::permission_denied, path,
                    " can be used by others than its owner; chmod 600 it, and make a new secret if "
                    "somebody may have read it");
  }
  return Done{};
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
  // Not blocking: a pipe of that name must not hold the daemon's start.
  ipc::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) {
    return unusable(Status::invalid_argument, path,
                    std::string(": ") + std::strerror(errno) +
                        "; make one with: (umask 077; openssl rand -hex 32 > FILE), the same on "
                        "every host of the cluster");
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return system_error(path, errno);
  const bool is_credential =
      !credentials_directory.empty() &&
      path.compare(0, credentials_directory.size(), credentials_directory) == 0 &&
      path.find('/', credentials_directory.size() + 1) == std::string::npos &&
      path.size() > credentials_directory.size() && path[credentials_directory.size()] == '/';
  const Outcome ours = check_owner(path, info, is_credential);
  if (!ours) return ours.error();

  std::array<char, kBytesMax + 2> buffer{};
  std::size_t filled = 0;
  for (ssize_t got = 1; got > 0 && filled < buffer.size();) {
    got = ::read(file.get(), &buffer[filled], buffer.size() - filled);
    if (got < 0 && errno != EINTR) return system_error(path, errno);
    if (got > 0) filled += static_cast<std::size_t>(got);
    if (got < 0) got = 1;
  }
  std::string_view text(buffer.data(), filled);
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  auto secret = from_text(text);
  ::OPENSSL_cleanse(buffer.data(), buffer.size());
  if (!secret) return unusable(secret.status(), path, " " + secret.error().context);
  return secret;
}

Expected<ClusterSecret> ClusterSecret::from_text(std::string_view text) {
  if (text.size() < kBytesMin || text.size() > kBytesMax) {
    return Error{Status::invalid_argument, "holds " + std::to_string(text.size()) +
                                               " bytes, a secret has " + std::to_string(kBytesMin) +
                                               " to " + std::to_string(kBytesMax) +
                                               "; make one with: openssl rand -hex 32"};
  }
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
