// A program with the C++ runtime of its distribution, and libsimm with another one inside: what
// callbacks throw goes through libsimm to the program, whole; texts and functions go both ways.
#include <simm/client.h>
#include <simm/error_code.h>

#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace {

int failed(const char* what, const std::string& said) {
  std::printf("%s: %s\n", what, said.c_str());
  return 1;
}

class OwnException : public std::runtime_error {
public:
  using std::runtime_error::runtime_error;
};

}  // namespace

int main() {
  simm::ClientOptions nowhere;
  nowhere.socket_path = "/nowhere/" + std::string(60, 'x');
  const auto refused = simm::Client::connect(nowhere);
  if (refused || refused.error().context.find(nowhere.socket_path) == std::string::npos) {
    return failed("a text of libsimm", refused ? "connected" : refused.error().context);
  }
  const std::error_code code = refused.error().status;
  if (std::string(code.category().name()) != "simm" || code.message().empty()) {
    return failed("a category of libsimm", code.category().name() + (": " + code.message()));
  }

  auto client = simm::Client::connect();
  if (!client) return failed("connect", client.error().context);
  auto region = client->allocate_region(1 << 20);
  if (!region) return failed("allocate_region", region.error().context);
  const std::string key(100, 'k');
  const std::vector<simm::Item> items = {{key, simm::View(*region, 0, 4096), 0, 0}};
  std::vector<simm::PageResult> results(1);
  for (int round = 0; round < 200; ++round) {
    const std::string thrown = "of round " + std::to_string(round) + std::string(60, '.');
    const auto ticket = client->put_async(
        items, results, {}, [&thrown](const simm::Completed&) { throw OwnException(thrown); });
    if (!ticket) return failed("put_async", ticket.error().context);
    std::string caught;
    for (int waits = 0; caught.empty() && waits < 60; ++waits) {
      try {
        client->wait(1000);
        client->poll();
      } catch (const OwnException& exception) {
        caught = exception.what();
      }
    }
    if (caught != thrown) return failed("what a callback throws", caught);
    if (!results[0].ok()) return failed("the page", std::to_string(round));
    if (std::uncaught_exceptions() != 0) return failed("exceptions under way", thrown);
  }
  return 0;
}
