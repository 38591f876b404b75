#include "daemon/cluster/hello/secret.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <thread>

#include "daemon/cluster/hello/incarnation.h"
#include "tests/support/temporary_directory.h"

namespace secret_test {

using namespace simm;
using cluster::ClusterSecret;

const std::string kText = "a secret of 32 bytes, like these";

struct SecretDirectory {
  std::string file(const std::string& text, mode_t mode) const {
    const std::string made = path + "/secret";
    std::FILE* out = std::fopen(made.c_str(), "w");
    REQUIRE(out != nullptr);
    REQUIRE(std::fwrite(text.data(), 1, text.size(), out) == text.size());
    REQUIRE(std::fclose(out) == 0);
    REQUIRE(::chmod(made.c_str(), mode) == 0);
    return made;
  }
  const test_support::TemporaryDirectory directory;
  const std::string& path = directory.path();
};

bool same_key(const ClusterSecret& a, const ClusterSecret& b) {
  return cluster::same_bytes(a.key(), b.key());
}

// RFC 4231, test case 2.
TEST_CASE("the primitive is HMAC-SHA-256") {
  const std::string key = "Jefe";
  const std::string left = "what do ya want ";
  const std::string right = "for nothing?";
  const auto bytes = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  const cluster::Mac mac = cluster::mac_of(bytes(key), {bytes(left), bytes(right)});
  std::string hex;
  for (const std::byte byte : mac) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(byte));
    hex += digits;
  }
  CHECK(hex == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

// The context of a thread is used again.
TEST_CASE("a key leaves nothing behind for the next one, and an empty key is one") {
  const auto bytes = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  const std::string text = "text";
  const std::string key = "key";
  const cluster::Mac first = cluster::mac_of({}, {bytes(text)});
  const cluster::Mac keyed = cluster::mac_of(bytes(key), {bytes(text)});
  CHECK(keyed != first);
  CHECK(cluster::mac_of({}, {bytes(text)}) == first);
  CHECK(cluster::mac_of(bytes(key), {{}, bytes(text), {}}) == keyed);
  cluster::Mac elsewhere;
  std::thread([&] { elsewhere = cluster::mac_of(bytes(key), {bytes(text)}); }).join();
  CHECK(elsewhere == keyed);
}

TEST_CASE("a key that was made ready makes the same HMAC, for every message and beside others") {
  const auto bytes = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  cluster::Mac key;
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(7 * i + 1);
  const cluster::Mac other_key{};
  const cluster::MacKey ready(key);
  const cluster::MacKey other(other_key);
  for (std::size_t length = 0; length < 200; ++length) {
    const std::string text(length, 'x');
    CHECK(ready.mac_of({bytes(text)}) == cluster::mac_of(key, {bytes(text)}));
    CHECK(ready.mac_of({bytes("a"), {}, bytes(text)}) == cluster::mac_of(key, {bytes("a" + text)}));
    CHECK(other.mac_of({bytes(text)}) == cluster::mac_of(other_key, {bytes(text)}));
  }
}

TEST_CASE("bytes are the same when all are") {
  const cluster::Mac mac = cluster::mac_of({}, {});
  for (std::size_t i = 0; i < mac.size(); ++i) {
    cluster::Mac other = mac;
    CHECK(cluster::same_bytes(mac, other));
    other[i] ^= std::byte{0x10};
    CHECK_FALSE(cluster::same_bytes(mac, other));
    CHECK_FALSE(cluster::same_bytes(mac, std::span(mac).first(i)));
  }
}

TEST_CASE("a secret is the file's text without its line end") {
  const SecretDirectory directory;
  const auto plain = ClusterSecret::load(directory.file(kText, 0600));
  const auto lined = ClusterSecret::load(directory.file(kText + "\n", 0400));
  const auto other = ClusterSecret::load(directory.file(kText + " ", 0600));
  REQUIRE((plain && lined && other));
  CHECK(plain->is_secret());
  CHECK(same_key(*plain, *lined));
  CHECK_FALSE(same_key(*plain, *other));
  CHECK_FALSE(same_key(*plain, ClusterSecret::none()));
  CHECK_FALSE(ClusterSecret::none().is_secret());
}

TEST_CASE("a secret that others may use is refused, and the words say what to do") {
  const SecretDirectory directory;
  for (const mode_t mode : {0640u, 0620u, 0610u, 0604u, 0602u, 0601u}) {
    const auto secret = ClusterSecret::load(directory.file(kText, mode));
    CHECK(secret.status() == Status::permission_denied);
    CHECK(secret.error().context.find(directory.path + "/secret") != std::string::npos);
    CHECK(secret.error().context.find("chmod 600") != std::string::npos);
    CHECK(secret.error().context.find(kText) == std::string::npos);
  }
}

TEST_CASE("a credential of the service manager may be readable by its group, not more") {
  const SecretDirectory directory;
  CHECK(ClusterSecret::load(directory.file(kText, 0440), directory.path).has_value());
  for (const mode_t mode : {0460u, 0444u, 0442u, 0441u}) {
    CHECK(ClusterSecret::load(directory.file(kText, mode), directory.path).status() ==
          Status::permission_denied);
  }
  // Only what lies in that very directory.
  const std::string parent = directory.path.substr(0, directory.path.rfind('/'));
  CHECK_FALSE(ClusterSecret::load(directory.file(kText, 0440), parent).has_value());
  const std::string prefix = directory.path.substr(0, directory.path.size() - 1);
  CHECK_FALSE(ClusterSecret::load(directory.file(kText, 0440), prefix).has_value());
}

TEST_CASE("a secret that another user owns is refused" * doctest::skip(::geteuid() != 0)) {
  const SecretDirectory directory;
  const std::string file = directory.file(kText, 0600);
  REQUIRE(::chown(file.c_str(), 12345, 12345) == 0);
  const auto secret = ClusterSecret::load(file);
  CHECK(secret.status() == Status::permission_denied);
  CHECK(secret.error().context.find("12345") != std::string::npos);
}

TEST_CASE("a secret has a length that can not be guessed and fits") {
  const SecretDirectory directory;
  CHECK_FALSE(ClusterSecret::load(directory.file("", 0600)).has_value());
  CHECK_FALSE(ClusterSecret::load(directory.file(kText.substr(1) + "\n", 0600)).has_value());
  const std::string longest = kText + std::string(4096 - kText.size(), 'x');
  CHECK(ClusterSecret::load(directory.file(longest + "\n", 0600)).has_value());
  const auto large = ClusterSecret::load(directory.file(longest + "x\n", 0600));
  CHECK(large.status() == Status::invalid_argument);
  CHECK(large.error().context.find("openssl rand") != std::string::npos);
}

TEST_CASE("a few bytes that are repeated are no secret") {
  const SecretDirectory directory;
  const auto one = ClusterSecret::load(directory.file(std::string(64, 'a') + "\n", 0600));
  CHECK(one.status() == Status::invalid_argument);
  CHECK(one.error().context.find("has only 1 different bytes") != std::string::npos);
  std::string few;
  while (few.size() < 64) few += "secret7";
  CHECK_FALSE(ClusterSecret::load(directory.file(few, 0600)).has_value());
  CHECK(ClusterSecret::load(directory.file(few + "?!", 0600)).has_value());
}

TEST_CASE("what is no file is refused and does not hang") {
  const SecretDirectory directory;
  const std::string pipe = directory.path + "/pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(ClusterSecret::load(pipe).status() == Status::invalid_argument);
  CHECK_FALSE(ClusterSecret::load(directory.path).has_value());
  const auto missing = ClusterSecret::load(directory.path + "/none");
  CHECK(missing.error().context.find("simmctl secret create") != std::string::npos);
}

TEST_CASE("the fingerprint of a seed depends on seed and secret") {
  const auto secret = ClusterSecret::from_text(kText);
  REQUIRE(secret.has_value());
  CHECK(secret->fingerprint_of(1) == secret->fingerprint_of(1));
  CHECK(secret->fingerprint_of(1) != secret->fingerprint_of(2));
  CHECK(secret->fingerprint_of(1) != ClusterSecret::none().fingerprint_of(1));
}

TEST_CASE("an incarnation is text of 32 digits and never nobody") {
  const cluster::Incarnation known{0x0123456789abcdefu, 0xfedcba9876543210u};
  CHECK(known.text() == "0123456789abcdeffedcba9876543210");
  CHECK_FALSE(cluster::Incarnation{}.is_set());
  base::SeededRandom random(1);
  const auto first = cluster::Incarnation::draw(random);
  CHECK(first.is_set());
  CHECK(first != cluster::Incarnation::draw(random));
}

TEST_CASE("the derived hash seed is a function of secret and name, and tells neither") {
  const auto seed = [](const std::string& text, std::string_view name) {
    return ClusterSecret::from_text(text)->hash_seed_of(name);
  };
  const std::uint64_t mine = seed(kText, "simm");
  CHECK(mine == seed(kText, "simm"));
  CHECK(mine != seed(kText, "other"));
  CHECK(mine != seed(kText + "x", "simm"));
  CHECK(mine != ClusterSecret::none().hash_seed_of("simm"));
  CHECK(ClusterSecret::none().hash_seed_of("simm") == ClusterSecret::none().hash_seed_of("simm"));
  // Not what the hello shows to everybody, not even for a name of the length of a seed.
  std::uint64_t name_as_seed = 0;
  std::memcpy(&name_as_seed, "12345678", sizeof(name_as_seed));
  const auto secret = ClusterSecret::from_text(kText);
  CHECK(secret->hash_seed_of("12345678") != secret->fingerprint_of(name_as_seed));
}

}  // namespace secret_test
