// TestCertificates: certificates in a directory of their own, made by openssl: of authorities, and
// of whom they vouch for. Each is NAME.pem, with its key in NAME.key. Thread: the test's.
#pragma once

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/support/temporary_directory.h"

namespace simm::test_support {

class TestCertificates {
public:
  // With "authority", and "server" and "client" signed by it; the server is 127.0.0.1. None has a
  // common name: an etcd with users refuses a client that has one.
  TestCertificates() {
    add_authority("authority");
    add("server", "authority");
    add("client", "authority");
  }

  void add_authority(const std::string& name) { make(name, ""); }
  void add(const std::string& name, const std::string& authority) {
    make(name, signed_by(authority));
  }
  void add_with_common_name(const std::string& name, const std::string& authority) {
    make(name, signed_by(authority), "/CN=");
  }
  // `to` and its key become copies of `from`.
  void replace(const std::string& to, const std::string& from) const {
    constexpr auto kOver = std::filesystem::copy_options::overwrite_existing;
    std::filesystem::copy_file(file(from), file(to), kOver);
    std::filesystem::copy_file(key(from), key(to), kOver);
  }
  // The public half of NAME.key, as NAME.pub.
  void add_public(const std::string& name) const {
    run("openssl pkey -in " + key(name) + " -pubout -out " + (directory_ / (name + ".pub")));
  }

  [[nodiscard]] const std::string& directory() const { return directory_.path(); }
  [[nodiscard]] std::string file(const std::string& name) const {
    return directory_ / (name + ".pem");
  }
  [[nodiscard]] std::string key(const std::string& name) const {
    return directory_ / (name + ".key");
  }

private:
  [[nodiscard]] std::string signed_by(const std::string& authority) const {
    return " -addext subjectAltName=IP:127.0.0.1 -CA " + file(authority) + " -CAkey " +
           key(authority);
  }
  void make(const std::string& name, const std::string& more,
            const std::string& subject = "/O=") const {
    run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj " +
        subject + name + " -keyout " + key(name) + " -out " + file(name) + more);
  }
  static void run(const std::string& command) {
    INFO(command);
    REQUIRE(std::system((command + " >/dev/null 2>&1").c_str()) == 0);
  }

  const TemporaryDirectory directory_;
};

}  // namespace simm::test_support
