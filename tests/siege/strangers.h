// Strangers: what somebody who knows no secret does at ports. At most some hundred connections are
// open at one time; the pace is as high as one thread can go.
// Thread: the test's, and those of an Assault; each attack returns soon after it is over.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace simm::siege {

using IsOver = std::function<bool()>;

// Each of these on a thread of its own, until this ends. They have a CPU behind everybody else.
class Assault {
public:
  explicit Assault(const std::vector<std::function<void(const IsOver&)>>& attacks);
  ~Assault();
  Assault(const Assault&) = delete;
  Assault& operator=(const Assault&) = delete;

private:
  std::atomic<bool> is_over_{false};
  std::vector<std::thread> threads_;
};

// Ports of a cluster: silent ones, halves of a hello, garbage and resets.
void attack_as_strangers(const std::vector<std::string>& addresses, const IsOver& is_over);

// Ports of HTTP: silent ones, those that are gone without a word, garbage, requests and bodies that
// come a byte at a time, headers that are too long.
void attack_by_http(const std::vector<std::string>& addresses, const IsOver& is_over);

// The same ports: pages are asked for without end, and nobody reads them.
void attack_by_pages(const std::vector<std::string>& addresses, const IsOver& is_over);

// Whole requests, whose answers are read: as many as one reader can ask for.
void attack_by_requests(const std::string& address, const std::string& request,
                        const IsOver& is_over);

// Whether an honest reader gets the metrics page there, in one attempt. It waits a minute at most.
[[nodiscard]] bool reads_metrics(const std::string& address);

}  // namespace simm::siege
