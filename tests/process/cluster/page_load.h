// PageLoad: clients of node daemons that write and read versioned pages all the time, and do not
// care whether they are answered, only that no byte is wrong and no call too long.
// Thread: the test's.
#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "simm/client.h"
#include "tests/process/cluster/cluster_processes.h"
#include "tests/process/cluster/versioned_pages.h"

namespace cluster_processes {

// A call ends by its deadline plus the fence grace of the daemon: the longest that it may last. The
// grace is that of a machine on which a process waits for its turn.
constexpr int kFenceGraceMs = 1000;
inline const std::string kEngineKeys =
    ", \"engine\": {\"fence_grace_ms\": " + std::to_string(kFenceGraceMs) + "}";

class PageLoad {
public:
  static constexpr int kPagesEach = 24;
  // Longer than what travels inside a request.
  static constexpr std::size_t kLongPageBytes = 96 * 1024;

  ~PageLoad() { end(); }

  // Writes pages of that prefix, and reads them: a reader who has seen a put end sees it, or a
  // miss.
  void write(const DaemonProcess& node, const std::string& prefix,
             std::size_t page_bytes = VersionedPages::kPageBytes) {
    auto pages = connect(node, prefix, page_bytes);
    threads_.emplace_back([this, pages] {
      for (int step = 0; !is_over_; ++step) {
        // Others want to find out as well.
        if (!pages->put(step % kPagesEach)) ::usleep(1000);
        for (int i = 0; i < 4; ++i) pages->get_own((step * 5 + i * 7) % kPagesEach);
      }
    });
  }
  // Reads the pages of a writer at another node.
  void read(const DaemonProcess& node, const std::string& prefix,
            std::size_t page_bytes = VersionedPages::kPageBytes) {
    auto pages = connect(node, prefix, page_bytes);
    threads_.emplace_back([this, pages] {
      for (int step = 0; !is_over_; ++step) pages->get_other(step % kPagesEach);
    });
  }

  // Ends, and says what was found.
  void check() {
    end();
    for (const std::string& wrong : findings.wrong) MESSAGE(wrong);
    CHECK(findings.wrong.empty());
    CHECK(findings.hits > 0);
    CHECK(findings.puts > 0);
    CHECK(findings.longest_ms <= VersionedPages::kTimeoutMs + kFenceGraceMs);
    MESSAGE("puts " << findings.puts.load() << ", hits " << findings.hits.load() << ", misses "
                    << findings.misses.load() << ", failed: " << findings.failures_text()
                    << "; longest call " << findings.longest_ms.load() << " ms");
  }

  Findings findings;

private:
  void end() {
    is_over_ = true;
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  std::shared_ptr<VersionedPages> connect(const DaemonProcess& node, const std::string& prefix,
                                          std::size_t page_bytes) {
    simm::ClientOptions options;
    options.socket_path = node.socket();
    auto client = simm::Client::connect(options);
    REQUIRE(client.has_value());
    auto region = client->allocate_region(2 * page_bytes);
    REQUIRE(region.has_value());
    return std::make_shared<VersionedPages>(std::move(*client), std::move(*region), prefix,
                                            findings, page_bytes);
  }

  std::atomic<bool> is_over_{false};
  std::vector<std::thread> threads_;
};

}  // namespace cluster_processes
