// PageChecker: a client that writes pages whose every byte says which page it is, and looks at
// every byte that it gets. Thread: the test's.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "simm/client.h"
#include "tests/support/daemon_process.h"

namespace process_tests {

class PageChecker {
public:
  static constexpr std::size_t kPageBytes = 33'000;  // the end of no memory page

  // Keys are `before` and a number and `after`. `timeout_ms`: how long a call waits at most.
  explicit PageChecker(const simm::test_support::DaemonProcess& daemon,
                       std::string before = "page/", std::string after = "",
                       std::uint32_t timeout_ms = simm::ClientOptions().sync_timeout_ms)
      : client_(connect(daemon, timeout_ms)),
        region_(allocate()),
        before_(std::move(before)),
        after_(std::move(after)) {}

  simm::Status put(int page) {
    fill(0, page);
    return client_.put(key(page), simm::View(region_, 0, kPageBytes)).status;
  }
  // not_found is a miss; a hit with a wrong byte fails the test.
  simm::Status get(int page) {
    std::memset(region_.data() + kPageBytes, 0xee, kPageBytes);
    const auto got = client_.get(key(page), simm::View(region_, kPageBytes, kPageBytes));
    if (got.status != simm::Status::ok) return got.status;
    fill(0, page);
    CHECK(got.bytes == kPageBytes);
    CHECK(std::memcmp(region_.data(), region_.data() + kPageBytes, kPageBytes) == 0);
    return simm::Status::ok;
  }
  simm::Status remove(int page) { return client_.remove(key(page)); }
  // How many of the first `pages` pages answer so.
  int count(int pages, simm::Status status) {
    return count_of(pages, status, [this](int page) { return get(page); });
  }
  int put_all(int pages, simm::Status status) {
    return count_of(pages, status, [this](int page) { return put(page); });
  }
  // What the pages of the last count answered: " ok ok unreachable".
  [[nodiscard]] const std::string& answers() const noexcept { return answers_; }

private:
  template <typename Call>
  int count_of(int pages, simm::Status status, const Call& call) {
    answers_.clear();
    int counted = 0;
    for (int page = 0; page < pages; ++page) {
      const simm::Status answer = call(page);
      answers_ += ' ';
      answers_ += simm::status_name(answer);
      counted += answer == status ? 1 : 0;
    }
    return counted;
  }
  static simm::Client connect(const simm::test_support::DaemonProcess& daemon,
                              std::uint32_t timeout_ms) {
    simm::ClientOptions options;
    options.sync_timeout_ms = timeout_ms;
    options.socket_path = daemon.socket();
    auto client = simm::Client::connect(options);
    REQUIRE(client.has_value());
    return std::move(*client);
  }
  simm::Region allocate() {
    auto region = client_.allocate_region(2 * kPageBytes);
    REQUIRE(region.has_value());
    return std::move(*region);
  }
  std::string key(int page) const { return before_ + std::to_string(page) + after_; }
  void fill(std::size_t at, int page) {
    for (std::size_t i = 0; i < kPageBytes; ++i) {
      region_.data()[at + i] =
          static_cast<std::byte>((static_cast<std::size_t>(page) * 131 + i * 7) >> 3);
    }
  }

  simm::Client client_;
  simm::Region region_;
  const std::string before_;
  const std::string after_;
  std::string answers_;
};

}  // namespace process_tests
