#include "tests/siege/victim.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "simm/client.h"
#include "tests/siege/precedence.h"

namespace simm::siege {

namespace {

constexpr std::size_t kPages = 16;
constexpr std::uint64_t kPageBytes = 24 * 1024 + 8;

void fill(std::byte* page, std::uint64_t version) {
  auto word = version * 0x9e3779b97f4a7c15 + 1;
  for (std::uint64_t i = 0; i < kPageBytes; ++i) {
    word = word * 6364136223846793005 + 1442695040888963407;
    page[i] = static_cast<std::byte>(word >> 56);
  }
}

}  // namespace

Victim::Victim(const std::string& socket_path, std::vector<pid_t> daemons)
    : thread_([this, socket_path, daemons = std::move(daemons)] { run(socket_path, daemons); }) {}

void Victim::stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

bool Victim::does_rounds(std::uint64_t count) const {
  const std::uint64_t wanted = rounds_ + count;
  for (int tries = 0; tries < 60'000 && rounds_ < wanted; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return rounds_ >= wanted;
}

void Victim::fail(const char* what, Status why) {
  ++failed_;
  const std::lock_guard<std::mutex> lock(mutex_);
  ++failures_[std::string(what) + ": " + std::string(status_name(why))];
}

std::string Victim::take_failures() {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::string text;
  for (const auto& [what, times] : failures_) text += what + " " + std::to_string(times) + "x, ";
  failures_.clear();
  return text;
}

void Victim::note(std::chrono::steady_clock::time_point began) {
  const auto took = std::chrono::steady_clock::now() - began;
  const std::lock_guard<std::mutex> lock(mutex_);
  rounds_us_.push_back(static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(took).count()));
}

Course Victim::take_course() {
  std::vector<std::uint64_t> took;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    took.swap(rounds_us_);
  }
  if (took.empty()) return {};
  std::sort(took.begin(), took.end());
  return {took.size(), took[took.size() / 2], took[took.size() * 99 / 100], took.back()};
}

void Victim::run(const std::string& socket_path, const std::vector<pid_t>& daemons) {
  if (!daemons.empty()) has_precedence_ = take_precedence(daemons);
  ClientOptions options;
  options.socket_path = socket_path;
  options.name = "victim";
  options.sync_timeout_ms = 10'000;
  options.connect_timeout_ms = 60'000;
  auto client = Client::connect(options);
  auto region = client ? client->allocate_region(2 * kPages * kPageBytes)
                       : Expected<Region>(Error{client.status(), "no client"});
  if (!region) {
    fail("to attach", region.status());
    return;
  }
  std::vector<std::byte> expected(kPageBytes);
  for (std::uint64_t round = 0; !stop_; ++round) {
    std::vector<std::string> keys;
    std::vector<Item> puts;
    std::vector<Item> gets;
    for (std::size_t i = 0; i < kPages; ++i) {
      keys.push_back("victim/" + std::to_string(round) + "/" + std::to_string(i));
    }
    for (std::size_t i = 0; i < kPages; ++i) {
      fill(region->data() + i * kPageBytes, round * kPages + i);
      puts.push_back({keys[i], View(*region, i * kPageBytes, kPageBytes)});
      gets.push_back({keys[i], View(*region, (kPages + i) * kPageBytes, kPageBytes)});
    }
    std::vector<PageResult> stored(kPages);
    std::vector<PageResult> fetched(kPages);
    const auto began = std::chrono::steady_clock::now();
    const Status put = client->put(puts, stored);
    const Status got = client->get(gets, fetched);
    note(began);
    if (put != Status::ok) fail("a put's call", put);
    if (got != Status::ok) fail("a get's call", got);
    for (std::size_t i = 0; i < kPages; ++i) {
      const Status its = stored[i].status;
      if (its != Status::ok && its != Status::no_space) fail("a put", its);
      if (fetched[i].status == Status::not_found) continue;
      if (fetched[i].status != Status::ok) {
        fail("a get", fetched[i].status);
        continue;
      }
      fill(expected.data(), round * kPages + i);
      if (!std::equal(expected.begin(), expected.end(),
                      region->data() + (kPages + i) * kPageBytes)) {
        ++wrong_;
      }
    }
    ++rounds_;
    // With precedence it leaves time to everybody else.
    if (has_precedence_) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace simm::siege
