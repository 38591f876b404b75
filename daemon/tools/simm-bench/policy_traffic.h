// PolicyTraffic: requests of pages in virtual time, made by small generators with a seed. They are
// kinds of traffic for which nobody tuned an eviction policy; policy_workloads.h puts them
// together. Times are in seconds, lengths in pages. Lognormal times are said by their median.
// `crowd` is the part of the users, documents and jobs that come: all times stay what they are.
// Thread: any one; no shared state.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/base/random.h"

namespace simm::bench {

inline constexpr double kHourS = 3600;

// What one process asks for: it reads its pages, and puts what was missing.
struct PolicyRequest {
  double at_s = 0;
  std::uint32_t tenant = 1;
  std::uint32_t page_units = 1;  // length of each page
  std::uint32_t answer = 0;      // ranks of one answer share its number; the worst rank counts
  bool counts = true;            // for the hits
  bool probe = false;            // only asks which pages are there
  std::vector<std::uint64_t> pages;
};

// How people talk with a service.
struct Chat {
  double from_s = 0;
  double until_s = 0;
  double rate = 1;      // conversations that begin in a second
  double think_s = 90;  // until the next turn, beside 5 s: the median
  double goes_on = 0.6;
  std::uint32_t tenant = 1;
  std::uint32_t page_units = 1;
  std::uint32_t ranks = 1;          // each has keys of its own, and asks 4 ms after the one before
  std::uint32_t polled_one_in = 0;  // so many first prompts have one that is polled; 0: none
};

// Questions about documents that many ask about.
struct Retrieval {
  double from_s = 0;
  double until_s = 0;
  double skew = 1;           // of Zipf's law
  double permuted_at_s = 0;  // others are popular from then on; 0: never
};

class PolicyTraffic {
public:
  PolicyTraffic(std::uint64_t seed, double crowd) : random_(seed), crowd_(crowd) {}

  // A system prompt of 3 shared pages, a first prompt, then other turns, 1 to 4 pages longer each.
  void chat(const Chat& how);
  // Sessions of many turns that read their whole prefix and add little, are compacted at 80 pages,
  // and fork into other sessions.
  void agents(double until_s);
  // 2.5 requests a second: 8 shared pages, one of 3,000 documents, and a page of its own.
  void retrieval(const Retrieval& how);
  // 3,000 users who come back after 8 hours or so, but not at night.
  void diurnal(int days);
  // `prompts` of 3 shared and 5 own pages each, so many times in the same order.
  void loop(double from_s, int prompts, int times, double rate, std::uint32_t tenant = 1);
  // `prompts` of 4 shared and 3 own pages each, once, 25 a second; they do not count.
  void batch(double from_s, int prompts);
  // Each `every_s` `count` pages are put, and put again after `delay_s`; they do not count.
  void returning(double until_s, double every_s, int count, double delay_s);
  // Each 10 s 60 pages are put, probed 4 times at once, and then each minute or two.
  void probed(double until_s);
  // 2 jobs a second, 20 pages each, that come back after 10 and 20 s; they do not count.
  void burst(double until_s);
  // By time, when all has been made.
  void sort();

  // Nothing of a tenant counts.
  void ignore(std::uint32_t tenant);
  [[nodiscard]] const std::vector<PolicyRequest>& requests() const noexcept { return requests_; }
  [[nodiscard]] std::uint32_t answers() const noexcept { return answers_; }

private:
  double unit() { return static_cast<double>(random_.below(1u << 30)) / (1u << 30); }
  double lognormal(double median, double sigma);
  double gap(double rate);  // until the next of so many a second
  int part_of(int count) const;
  // New pages at the end.
  void extend(PolicyRequest& request, std::uint64_t count);
  std::vector<std::uint64_t> shared(int count);
  void ask(const PolicyRequest& request);
  void ask(const PolicyRequest& request, std::uint32_t ranks);
  void agent(PolicyRequest request, int turns, double until_s, bool forks);

  base::SeededRandom random_;
  double crowd_;
  std::uint64_t next_ = 0;  // the next page that nobody has seen
  std::uint32_t answers_ = 0;
  std::vector<PolicyRequest> requests_;
};

}  // namespace simm::bench
