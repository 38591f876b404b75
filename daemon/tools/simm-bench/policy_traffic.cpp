#include "daemon/tools/simm-bench/policy_traffic.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <span>
#include <utility>

namespace simm::bench {
namespace {

constexpr std::uint64_t kPagesOfTurnMax = 4;
constexpr std::size_t kConversationPagesMax = 200;
constexpr double kDayS = 24 * kHourS;
constexpr double kNightS = 8 * kHourS;  // the first hours of each day

}  // namespace

double PolicyTraffic::lognormal(double median, double sigma) {
  const double angle = 2 * std::numbers::pi * unit();
  return median * std::exp(sigma * std::sqrt(-2 * std::log(1 - unit())) * std::cos(angle));
}

double PolicyTraffic::gap(double rate) {
  return -std::log(1 - unit()) / (rate * crowd_);
}

int PolicyTraffic::part_of(int count) const {
  return std::max(1, static_cast<int>(count * crowd_));
}

void PolicyTraffic::extend(PolicyRequest& request, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) request.pages.push_back(next_++);
}

std::vector<std::uint64_t> PolicyTraffic::shared(int count) {
  PolicyRequest pages;
  extend(pages, static_cast<std::uint64_t>(count));
  return pages.pages;
}

void PolicyTraffic::ask(const PolicyRequest& request) {
  requests_.push_back(request);
  requests_.back().answer = answers_++;
}

// The pages of the ranks are apart: each number is multiplied, and those of one rank never meet.
void PolicyTraffic::ask(const PolicyRequest& request, std::uint32_t ranks) {
  if (ranks == 1) return ask(request);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    PolicyRequest one = request;
    one.at_s += 0.004 * rank;
    one.answer = answers_;
    for (std::uint64_t& page : one.pages) page = page * ranks + rank;
    requests_.push_back(std::move(one));
  }
  ++answers_;
}

void PolicyTraffic::chat(const Chat& how) {
  constexpr int kPolls = 150;
  constexpr double kPollEveryS = 2;
  const std::vector<std::uint64_t> system = shared(3);
  std::uint32_t first_prompts = 0;
  for (double at = how.from_s; (at += gap(how.rate)) < how.until_s;) {
    PolicyRequest turn;
    turn.at_s = at;
    turn.tenant = how.tenant;
    turn.page_units = how.page_units;
    turn.pages = system;
    extend(turn, static_cast<std::uint64_t>(lognormal(10, 0.9)) + 1);
    if (how.polled_one_in > 0 && ++first_prompts % how.polled_one_in == 0) {
      PolicyRequest poll = turn;
      poll.probe = true;
      poll.counts = false;
      for (int i = 0; i < kPolls && (poll.at_s += kPollEveryS) < how.until_s; ++i) ask(poll);
    }
    while (turn.at_s < how.until_s) {
      ask(turn, how.ranks);
      if (unit() >= how.goes_on || turn.pages.size() > kConversationPagesMax) break;
      turn.at_s += 5 + lognormal(how.think_s, 1.0);
      extend(turn, 1 + random_.below(kPagesOfTurnMax));
    }
  }
}

void PolicyTraffic::agents(double until_s) {
  const std::vector<std::uint64_t> system = shared(5);
  for (double at = 0; (at += gap(0.01)) < until_s;) {
    PolicyRequest one;
    one.at_s = at;
    one.pages = system;
    extend(one, 4);
    agent(std::move(one), 50 + static_cast<int>(random_.below(251)), until_s, true);
  }
}

void PolicyTraffic::agent(PolicyRequest request, int turns, double until_s, bool forks) {
  constexpr std::size_t kCompactedAt = 80;
  constexpr std::size_t kKept = 5;
  constexpr std::uint64_t kSummary = 8;
  double owed = 0;  // tokens that do not fill a page yet
  for (int turn = 0; turn < turns && request.at_s < until_s; ++turn) {
    ask(request);
    if (forks && random_.one_in(25)) {
      const std::uint64_t ways = 1 + random_.below(10);
      for (std::uint64_t way = 0; way < ways; ++way) {
        PolicyRequest child = request;
        child.at_s += 1 + 3 * unit();
        extend(child, 1);
        agent(std::move(child), 3 + static_cast<int>(random_.below(8)), until_s, false);
      }
    }
    request.at_s += 2 + lognormal(10, 0.8);
    owed += 0.25 + 1.75 * unit();
    extend(request, static_cast<std::uint64_t>(owed));
    owed -= std::floor(owed);
    if (request.pages.size() < kCompactedAt) continue;
    request.pages.resize(kKept);
    extend(request, kSummary);
  }
}

void PolicyTraffic::retrieval(const Retrieval& how) {
  constexpr double kRate = 2.5;
  const auto documents = static_cast<std::size_t>(part_of(3000));
  const std::vector<std::uint64_t> system = shared(8);
  std::vector<std::vector<std::uint64_t>> contents(documents);
  for (auto& pages : contents) pages = shared(10 + static_cast<int>(random_.below(31)));
  std::vector<double> popular_until(documents);
  double sum = 0;
  for (std::size_t i = 0; i < documents; ++i) {
    sum += std::pow(static_cast<double>(i + 1), -how.skew);
    popular_until[i] = sum;
  }
  bool permuted = how.permuted_at_s == 0;
  for (double at = how.from_s; (at += gap(kRate)) < how.until_s;) {
    if (!permuted && at >= how.permuted_at_s) {
      for (std::size_t i = documents; i > 1; --i) {
        std::swap(contents[i - 1], contents[random_.below(i)]);
      }
      permuted = true;
    }
    const auto chosen = std::lower_bound(popular_until.begin(), popular_until.end(), unit() * sum);
    const auto& document = contents[static_cast<std::size_t>(
        std::min(chosen - popular_until.begin(), std::ptrdiff_t(documents - 1)))];
    PolicyRequest one;
    one.at_s = at;
    one.pages = system;
    one.pages.insert(one.pages.end(), document.begin(), document.end());
    extend(one, 1);
    ask(one);
  }
}

void PolicyTraffic::diurnal(int days) {
  const std::vector<std::uint64_t> system = shared(3);
  const int users = part_of(3000);
  for (int user = 0; user < users; ++user) {
    PolicyRequest one;
    one.at_s = kDayS * unit();
    one.pages = system;
    extend(one, static_cast<std::uint64_t>(lognormal(10, 0.9)) + 1);
    while (one.at_s < days * kDayS) {
      if (std::fmod(one.at_s, kDayS) < kNightS) {
        one.at_s += kNightS;  // sleeps
        continue;
      }
      const std::uint64_t turns = 1 + random_.below(6);
      for (std::uint64_t turn = 0; turn < turns; ++turn) {
        ask(one);
        one.at_s += 5 + lognormal(90, 1.0);
        extend(one, 1 + random_.below(kPagesOfTurnMax));
      }
      if (one.pages.size() > kConversationPagesMax) {
        one.pages = system;
        extend(one, static_cast<std::uint64_t>(lognormal(10, 0.9)) + 1);
      }
      one.at_s += lognormal(8 * kHourS, 1.0);
    }
  }
}

void PolicyTraffic::loop(double from_s, int prompts, int times, double rate, std::uint32_t tenant) {
  constexpr std::uint64_t kOwn = 5;
  const int count = part_of(prompts);
  const std::vector<std::uint64_t> system = shared(3);
  const std::uint64_t first = next_;
  next_ += kOwn * static_cast<std::uint64_t>(count);
  for (int i = 0; i < count * times; ++i) {
    PolicyRequest one;
    one.at_s = from_s + i / (rate * crowd_);
    one.tenant = tenant;
    one.pages = system;
    const std::uint64_t own = first + kOwn * static_cast<std::uint64_t>(i % count);
    for (std::uint64_t page = own; page < own + kOwn; ++page) one.pages.push_back(page);
    ask(one);
  }
}

void PolicyTraffic::batch(double from_s, int prompts) {
  const int count = part_of(prompts);
  const std::vector<std::uint64_t> system = shared(4);
  for (int i = 0; i < count; ++i) {
    PolicyRequest one;
    one.at_s = from_s + i / (25 * crowd_);
    one.counts = false;
    one.pages = system;
    extend(one, 3);
    ask(one);
  }
}

void PolicyTraffic::returning(double until_s, double every_s, int count, double delay_s) {
  for (double at = 0; at < until_s; at += every_s) {
    PolicyRequest one;
    one.at_s = at;
    one.counts = false;
    extend(one, static_cast<std::uint64_t>(part_of(count)));
    ask(one);
    one.at_s += delay_s;
    if (one.at_s < until_s) ask(one);
  }
}

void PolicyTraffic::probed(double until_s) {
  for (double at = 0; at < until_s; at += 10) {
    PolicyRequest one;
    one.at_s = at;
    one.counts = false;
    extend(one, static_cast<std::uint64_t>(part_of(60)));
    ask(one);
    one.probe = true;
    for (int i = 0; i < 4; ++i) ask(one);
    while ((one.at_s += 60 + 60 * unit()) < until_s) ask(one);
  }
}

void PolicyTraffic::burst(double until_s) {
  for (double at = 0; at < until_s; at += 1 / (2 * crowd_)) {
    PolicyRequest one;
    one.at_s = at;
    one.counts = false;
    extend(one, 20);
    for (int i = 0; i < 3; ++i, one.at_s += 10) ask(one);
  }
}

void PolicyTraffic::ignore(std::uint32_t tenant) {
  for (PolicyRequest& one : requests_) one.counts = one.counts && one.tenant != tenant;
}

void PolicyTraffic::sort() {
  std::stable_sort(requests_.begin(), requests_.end(),
                   [](const PolicyRequest& a, const PolicyRequest& b) { return a.at_s < b.at_s; });
}

}  // namespace simm::bench
