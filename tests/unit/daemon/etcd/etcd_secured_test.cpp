// The gateway and an etcd that wants TLS, a certificate and a password: whatever is wrong, the
// error names the key, the value and the remedy; what was mended is used without a restart.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "daemon/etcd/etcd_gateway.h"
#include "ipc/fd.h"
#include "tests/support/etcd_process.h"
#include "tests/support/free_port.h"
#include "tests/support/test_certificates.h"

namespace etcd_secured_test {

using simm::Status;
using simm::etcd::EtcdConfig;
using simm::etcd::EtcdGateway;
using simm::test_support::EtcdOptions;
using simm::test_support::EtcdProcess;
using simm::test_support::TestCertificates;

simm::http::HttpEndpoint endpoint_of(const std::string& text) {
  return simm::http::HttpEndpoint::parse(text).value();
}

// Users as a person would make them; root is for the test.
void add_users(EtcdProcess& etcd) {
  for (const char* command :
       {"user add root:secret", "user grant-role root root", "user add simm:secret",
        "role add simm", "role grant-permission simm readwrite /simm/ --prefix=true",
        "user grant-role simm simm", "auth enable"}) {
    (void)etcd.control(command);
  }
  etcd.control_as(" --user=root:secret");
}

struct Secured {
  explicit Secured(const std::string& token = "simple") {
    certificates.add_public("client");
    etcd = std::make_unique<EtcdProcess>(
        EtcdOptions{1, certificates.directory(), {}, {"--auth-token", token_of(token)}, nullptr});
    add_users(*etcd);
    config.endpoints = {endpoint_of(etcd->endpoints()[0])};
    config.tls = {certificates.file("authority"), certificates.file("client"),
                  certificates.key("client")};
    config.user = "simm";
    config.password = "secret";
    config.call_ns = 60 * simm::base::kNsPerSecond;  // the machine may be busy
  }
  [[nodiscard]] std::string token_of(const std::string& token) const {
    if (token == "simple") return token;
    return "jwt,sign-method=ES256,pub-key=" + certificates.directory() +
           "/client.pub,priv-key=" + certificates.key("client") + "," + token;
  }

  TestCertificates certificates;
  std::unique_ptr<EtcdProcess> etcd;
  EtcdConfig config;
};

simm::Expected<std::int64_t> put(EtcdGateway& gateway) {
  return gateway.put_if({}, {"/simm/c/state", "x"});
}

// Whether a put of that configuration fails, and says all of these words.
void check_error(const EtcdConfig& config, std::initializer_list<std::string> words) {
  const auto gateway = EtcdGateway::make(config);
  const simm::Error error = gateway ? put(**gateway).error() : gateway.error();
  INFO(error.context);
  for (const std::string& word : words) {
    CAPTURE(word);
    CHECK(error.context.find(word) != std::string::npos);
  }
}

}  // namespace etcd_secured_test

TEST_CASE("etcd gateway: with TLS, a certificate and a password, and with each of them wrong") {
  using namespace etcd_secured_test;
  Secured secured;
  TestCertificates& files = secured.certificates;
  const EtcdConfig good = secured.config;
  CHECK(put(*EtcdGateway::make(good).value()).value() > 0);
  const std::string at = good.endpoints[0].text();
  files.add_authority("stranger");
  files.add("guest", "stranger");

  EtcdConfig bad = good;
  bad.tls.authorities = files.file("stranger");
  check_error(bad, {"manager.etcd_ca_file = " + files.file("stranger"), at,
                    "name the authority of etcd's certificate"});
  bad.tls.authorities.clear();
  check_error(bad, {"manager.etcd_ca_file = \"\"", at, "name the authority"});
  bad.tls.authorities = files.directory() + "/nowhere";
  check_error(bad, {"manager.etcd_ca_file = " + bad.tls.authorities, "name a PEM file"});
  bad = good;
  bad.tls.key = files.key("guest");
  check_error(bad, {"manager.etcd_key_file = " + files.key("guest"), "name a PEM file"});
  bad.tls.certificate = files.file("guest");
  check_error(bad, {"manager.etcd_cert_file = " + files.file("guest"), at, "--trusted-ca-file"});
  files.add_with_common_name("named", "authority");
  bad.tls.certificate = files.file("named");
  bad.tls.key = files.key("named");
  check_error(bad, {"manager.etcd_cert_file = " + files.file("named"), "has a common name",
                    "make one without CN"});
  bad.tls.certificate.clear();
  check_error(bad, {"manager.etcd_cert_file = \"\"", at, "name a certificate"});
  bad = good;
  bad.endpoints[0].host = "localhost";
  check_error(bad, {"manager.etcd = https://localhost:", "another host's", "write a name"});
  bad.endpoints[0] = good.endpoints[0];
  bad.endpoints[0].tls = false;
  check_error(bad, {"manager.etcd = http://127.0.0.1:", "write https://"});
  bad.endpoints[0].port = std::to_string(simm::test_support::free_port());
  check_error(bad, {"manager.etcd = http://127.0.0.1:" + bad.endpoints[0].port, "refused",
                    "name where it is"});
  const EtcdProcess open;
  bad.endpoints[0] = endpoint_of(open.endpoints()[0]);
  bad.endpoints[0].tls = true;
  check_error(bad, {"manager.etcd = https://", "write http://"});
  bad.endpoints[0].tls = false;
  check_error(bad, {"manager.etcd_user = simm", "is not enabled", "take the key out"});

  bad = good;
  bad.password = "wrong";
  check_error(bad,
              {"manager.etcd_user = simm", "authentication failed", "manager.etcd_password_file"});
  bad.user.clear();
  check_error(bad, {"manager.etcd_user = \"\"", "write it", "manager.etcd_password_file"});
}

TEST_CASE("etcd gateway: a server without TLS that resets the connection is told as such") {
  using namespace etcd_secured_test;
  namespace ipc = simm::ipc;
  const ipc::UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  auto* const raw = reinterpret_cast<sockaddr*>(&address);
  REQUIRE(::bind(listener.get(), raw, bytes) == 0);
  REQUIRE(::listen(listener.get(), 8) == 0);
  REQUIRE(::getsockname(listener.get(), raw, &bytes) == 0);
  std::thread server([&] {
    while (true) {
      const ipc::UniqueFd peer(::accept(listener.get(), nullptr, nullptr));
      if (peer.get() < 0) return;
      char first = 0;
      (void)::recv(peer.get(), &first, 1, 0);
      const linger at_once{1, 0};
      (void)::setsockopt(peer.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
  });
  EtcdConfig config;
  config.endpoints = {{true, "127.0.0.1", std::to_string(ntohs(address.sin_port))}};
  check_error(config, {"manager.etcd = https://127.0.0.1:", "if it does not speak TLS"});
  ::shutdown(listener.get(), SHUT_RDWR);
  server.join();
}

TEST_CASE("etcd gateway: certificates and passwords that are replaced need no restart") {
  using namespace etcd_secured_test;
  Secured secured;
  TestCertificates& files = secured.certificates;
  EtcdConfig config = secured.config;
  files.add_authority("stranger");
  files.add("mine", "stranger");
  files.add_authority("trusted");
  config.tls = {files.file("trusted"), files.file("mine"), files.key("mine")};
  std::string password = "secret";
  config.read_password = [&password] { return simm::Expected<std::string>(password); };
  const auto gateway = EtcdGateway::make(config).value();
  CHECK_FALSE(put(*gateway).has_value());
  files.replace("trusted", "authority");
  CHECK(put(*gateway).error().context.find("manager.etcd_ca_file") != std::string::npos);
  CHECK(put(*gateway).error().context.find("manager.etcd_cert_file") != std::string::npos);
  files.replace("mine", "client");
  (void)put(*gateway);  // the last one that is refused
  CHECK(put(*gateway).value() > 0);

  // The file has the new password later than etcd has.
  for (const char* command :
       {"user delete simm", "user add simm:new", "user grant-role simm simm"}) {
    (void)secured.etcd->control(command);
  }
  CHECK(put(*gateway).error().context.find("etcd_password_file") != std::string::npos);
  password = "new";
  CHECK(put(*gateway).value() > 0);
}

TEST_CASE("etcd gateway: a token that has ended, and one from before a change of users") {
  using namespace etcd_secured_test;
  Secured secured("ttl=2s");
  const auto gateway = EtcdGateway::make(secured.config).value();
  CHECK(put(*gateway).value() > 0);
  std::this_thread::sleep_for(std::chrono::seconds(3));  // longer than a token lives
  CHECK(put(*gateway).value() > 0);
  (void)secured.etcd->control("user add another:secret");
  CHECK(put(*gateway).value() > 0);
}
