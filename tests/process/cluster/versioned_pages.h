// VersionedPages: a writer of pages whose every byte says which page and which version of it they
// are, and a reader that looks at every byte and knows which versions it may find. A page has one
// writer. What is found wrong is collected, for the test's own thread to report.
// Thread: one; Findings: any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "simm/client.h"

namespace cluster_processes {

struct Findings {
  void add(const std::string& what) {
    const std::lock_guard<std::mutex> guard(mutex);
    if (wrong.size() < 20) wrong.push_back(what);
  }
  void add_failure(const char* call, simm::Status status) {
    ++failed;
    const std::lock_guard<std::mutex> guard(mutex);
    ++failures[std::string(call) + ": " + std::string(simm::status_name(status))];
  }
  // "none", or each kind with its number.
  std::string failures_text() {
    const std::lock_guard<std::mutex> guard(mutex);
    std::string text;
    for (const auto& [kind, count] : failures) {
      text += (text.empty() ? "" : ", ") + kind + " " + std::to_string(count);
    }
    return text.empty() ? "none" : text;
  }
  std::atomic<std::uint64_t> hits{0};
  std::atomic<std::uint64_t> misses{0};
  std::atomic<std::uint64_t> puts{0};
  std::atomic<std::uint64_t> failed{0};  // calls with another result than those
  std::atomic<std::uint64_t> failed_gets{0};
  // Of one call, in milliseconds.
  std::atomic<std::int64_t> longest_ms{0};
  std::mutex mutex;
  std::vector<std::string> wrong;
  std::map<std::string, std::uint64_t> failures;
};

class VersionedPages {
public:
  static constexpr std::size_t kPageBytes = 8192;

  // Of every call.
  static constexpr std::uint32_t kTimeoutMs = 500;

  // `client` is connected; `region` has room for two pages; `prefix` names this writer's pages.
  VersionedPages(simm::Client client, simm::Region region, std::string prefix, Findings& findings,
                 std::size_t page_bytes = kPageBytes)
      : client_(std::move(client)),
        region_(std::move(region)),
        prefix_(std::move(prefix)),
        findings_(findings),
        page_bytes_(page_bytes) {}
  // Memory that pages of that length need.
  static constexpr std::size_t kRegionBytes = 2 * kPageBytes;

  // The next version of a page. Whatever becomes of it, later gets may find it.
  bool put(int page) {
    Known& known = known_[page];
    const std::uint64_t version = ++known.attempted;
    std::vector<std::uint64_t> words(page_bytes_ / sizeof(std::uint64_t));
    for (std::size_t i = 0; i < words.size(); ++i) words[i] = word(page, version, i);
    std::memcpy(region_.data(), words.data(), page_bytes_);
    simm::CallOptions options;
    options.mode = simm::PutMode::replace;
    options.timeout_ms = kTimeoutMs;
    const auto start = Clock::now();
    const auto result = client_.put(key(page), simm::View(region_, 0, page_bytes_), options);
    took(start);
    if (result.ok()) {
      ++findings_.puts;
      known.completed = version;
    } else {
      findings_.add_failure("put", result.status);
    }
    return result.ok();
  }
  // A page of this writer: the last version whose put has completed, or a later one.
  void get_own(int page) {
    const Known& known = known_[page];
    get(page, known.completed, known.attempted);
  }
  // A page of another writer on another node: any version, but whole.
  void get_other(int page) { get(page, 1, ~std::uint64_t{0}); }

private:
  using Clock = std::chrono::steady_clock;
  struct Known {
    std::uint64_t attempted = 0;
    std::uint64_t completed = 0;
  };

  void took(Clock::time_point start) {
    const auto took_ms =
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
    std::int64_t longest_ms = findings_.longest_ms;
    while (took_ms > longest_ms &&
           !findings_.longest_ms.compare_exchange_weak(longest_ms, took_ms)) {
    }
  }
  std::string key(int page) const { return prefix_ + std::to_string(page); }
  // The first word is the version.
  static std::uint64_t word(int page, std::uint64_t version, std::size_t at) {
    if (at == 0) return version;
    const std::uint64_t mixed =
        (version * 0x9e3779b97f4a7c15u) ^ (static_cast<std::uint64_t>(page) << 32) ^ at;
    return mixed * 0xbf58476d1ce4e5b9u;
  }

  void get(int page, std::uint64_t oldest, std::uint64_t newest) {
    std::memset(region_.data() + page_bytes_, 0xee, page_bytes_);
    simm::CallOptions options;
    options.timeout_ms = kTimeoutMs;
    const auto start = Clock::now();
    const auto got = client_.get(key(page), simm::View(region_, page_bytes_, page_bytes_), options);
    took(start);
    if (got.status == simm::Status::not_found) {
      ++findings_.misses;
      return;
    }
    if (!got.ok()) {
      ++findings_.failed_gets;
      findings_.add_failure("get", got.status);
      return;
    }
    ++findings_.hits;
    std::vector<std::uint64_t> words(page_bytes_ / sizeof(std::uint64_t));
    std::memcpy(words.data(), region_.data() + page_bytes_, page_bytes_);
    const std::uint64_t version = words[0];
    std::string what;
    if (got.bytes != page_bytes_) what = "has " + std::to_string(got.bytes) + " bytes";
    if (version < oldest || version > newest) {
      what = "is version " + std::to_string(version) + ", not " + std::to_string(oldest) + " to " +
             std::to_string(newest);
    }
    for (std::size_t i = 1; i < words.size() && what.empty(); ++i) {
      if (words[i] != word(page, version, i)) what = "is wrong at word " + std::to_string(i);
    }
    if (!what.empty()) findings_.add(key(page) + " " + what);
  }

  simm::Client client_;
  simm::Region region_;
  const std::string prefix_;
  Findings& findings_;
  const std::size_t page_bytes_;
  std::map<int, Known> known_;
};

}  // namespace cluster_processes
