#include "daemon/tools/simm-bench/trace_generator.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <queue>
#include <random>

namespace simm::bench {
namespace {

constexpr std::uint64_t kTickMs = 3'000;
constexpr double kConversationsPerTick = 6.25;
constexpr std::uint64_t kTokensMax = 126'195;

// An observed distribution: the values at these ranks, linear in between.
constexpr std::array kRanks = {0.0,  0.01, 0.025, 0.05,  0.075, 0.10,  0.125, 0.15,  0.20, 0.25,
                               0.30, 0.35, 0.40,  0.45,  0.50,  0.55,  0.60,  0.65,  0.70, 0.75,
                               0.80, 0.85, 0.90,  0.925, 0.95,  0.975, 0.99,  0.995, 1.0};
using Quantiles = std::array<double, kRanks.size()>;

constexpr Quantiles kFirstPromptTokens = {891,   894,   895,   897,    900,   905,   916,   943,
                                          1092,  1336,  1757,  2767,   3913,  4587,  5264,  6188,
                                          7418,  8828,  10771, 13056,  15871, 19437, 25559, 30511,
                                          38494, 58637, 89868, 111632, 126195};
// Tokens of a turn's new message: what the prompt grew by beyond the previous answer. Below zero:
// the service shortened what it kept.
constexpr Quantiles kMessageTokens = {-1291, -305, -74,  -21,  -9,   -4,    4,     6,     7,    9,
                                      11,    13,   16,   20,   26,   33,    52,    88,    172,  356,
                                      694,   2543, 4194, 5315, 6921, 10324, 16705, 22204, 91467};
constexpr Quantiles kThinkTimeS = {0,   12,  21,  30,  36,  42,   45,   51,   60,  66,
                                   75,  84,  96,  108, 123, 138,  162,  189,  222, 264,
                                   318, 390, 483, 546, 615, 1050, 1900, 2500, 3300};
constexpr Quantiles kAnswerTokens = {1,   3,   3,   10,  17,  24,  32,   46,   100, 156,
                                     213, 256, 291, 322, 350, 375, 399,  423,  447, 472,
                                     504, 543, 597, 639, 698, 835, 1119, 1568, 2000};
// A turn that keeps only a leading part: how much of the previous prompt, and how many new blocks.
constexpr Quantiles kKeptPart = {0.01, 0.03, 0.04, 0.05, 0.06, 0.07, 0.07, 0.08, 0.10, 0.11,
                                 0.13, 0.15, 0.17, 0.19, 0.21, 0.25, 0.29, 0.34, 0.40, 0.45,
                                 0.52, 0.68, 0.83, 0.88, 0.91, 0.93, 0.96, 0.96, 0.99};
constexpr Quantiles kNewBlocks = {1,  1,  2,  2,  3,  4,  7,  8,  10, 12, 14, 16, 17, 18, 19,
                                  20, 22, 24, 27, 30, 32, 34, 39, 48, 52, 60, 77, 91, 186};

// The chance that a conversation goes on after its n-th turn; after the last entry it stays there.
// A first prompt that is little more than the system's, or a very long one, is rarely followed up.
constexpr std::array kGoesOn = {0.415, 0.455, 0.53, 0.60, 0.61, 0.70, 0.77, 0.75, 0.80, 0.83};
constexpr std::uint64_t kShortPromptTokens = 1'000;
constexpr double kShortPromptGoesOn = 0.012;
constexpr std::uint64_t kLongPromptTokens = 32'000;
constexpr double kLongPromptGoesOn = 0.27;

// A few documents are asked about again and again, each time with something else behind them.
constexpr double kPopularChance = 0.0012;
constexpr double kPopularGoesOn = 0.96;
constexpr double kPopularPace = 0.3;  // of the think time of one person

enum class Turn { first, dialogue, partial, popular };

// The chance that the turn after one of this kind keeps only a leading part of it.
double partial_chance(Turn previous) {
  switch (previous) {
    case Turn::first:
      return 0.146;
    case Turn::dialogue:
      return 0.06;
    case Turn::partial:
      return 0.69;
    case Turn::popular:
      return 1;
  }
  return 0;
}

double goes_on_chance(Turn kind, std::size_t turns, std::uint64_t prompt_tokens) {
  if (kind == Turn::popular) return kPopularGoesOn;
  if (turns == 1 && prompt_tokens < kShortPromptTokens) return kShortPromptGoesOn;
  if (turns == 1 && prompt_tokens > kLongPromptTokens) return kLongPromptGoesOn;
  return kGoesOn[std::min(turns, kGoesOn.size()) - 1];
}

// The distributions of <random> differ between libraries; these do not.
class Random {
public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  double unit() { return static_cast<double>(engine_() >> 11) * 0x1.0p-53; }
  bool chance(double probability) { return unit() < probability; }
  double draw(const Quantiles& quantiles) {
    const double rank = unit();
    const auto above = std::upper_bound(kRanks.begin() + 1, kRanks.end() - 1, rank);
    const auto i = static_cast<std::size_t>(above - kRanks.begin());
    const double part = (rank - kRanks[i - 1]) / (kRanks[i] - kRanks[i - 1]);
    return quantiles[i - 1] + part * (quantiles[i] - quantiles[i - 1]);
  }
  // Knuth, The Art of Computer Programming, volume 2, 3.4.1.
  int poisson(double mean) {
    const double limit = std::exp(-mean);
    double product = unit();
    int count = 0;
    while (product > limit) {
      product *= unit();
      ++count;
    }
    return count;
  }

private:
  std::mt19937_64 engine_;
};

// A conversation that waits for its next turn.
struct Pending {
  std::uint64_t due_ms = 0;
  std::uint64_t order = 0;  // ties are served in the order they were made
  Turn kind = Turn::first;  // of the previous turn
  std::size_t turns = 0;
  std::size_t document_blocks = 0;  // what the previous turn kept of its own; 0 = it kept all
  TraceRequest request;             // the previous one

  bool operator<(const Pending& other) const {
    return due_ms != other.due_ms ? due_ms > other.due_ms : order > other.order;
  }
};

class Generator {
public:
  explicit Generator(const TraceGeneratorOptions& options)
      : random_(options.seed), requests_(options.requests) {}

  Trace run() {
    trace_.reserve(requests_);
    for (std::uint64_t now_ms = 0; trace_.size() < requests_; now_ms += kTickMs) {
      for (int i = random_.poisson(kConversationsPerTick); i > 0; --i) begin(now_ms);
      while (!pending_.empty() && pending_.top().due_ms <= now_ms) {
        Pending next = pending_.top();
        pending_.pop();
        resume(std::move(next), now_ms);
      }
    }
    trace_.resize(requests_);
    return std::move(trace_);
  }

private:
  static std::size_t blocks_of(std::uint64_t tokens) {
    return static_cast<std::size_t>((tokens + kTraceBlockTokens - 1) / kTraceBlockTokens);
  }

  // Fills the block list up to the length of the prompt with blocks never seen before.
  void add_new_blocks(TraceRequest& request) {
    while (request.block_ids.size() < blocks_of(request.input_tokens)) {
      request.block_ids.push_back(next_block_++);
    }
  }

  // Puts one request into the trace and decides whether and when another turn follows it.
  void emit(Pending turn, std::uint64_t now_ms) {
    turn.turns += 1;
    turn.request.timestamp_ms = now_ms;
    turn.request.output_tokens = static_cast<std::uint64_t>(random_.draw(kAnswerTokens));
    trace_.push_back(turn.request);
    const double chance = goes_on_chance(turn.kind, turn.turns, turn.request.input_tokens);
    if (!random_.chance(chance)) return;
    const double pace = turn.kind == Turn::popular ? kPopularPace : 1;
    const auto think_ms = static_cast<std::uint64_t>(random_.draw(kThinkTimeS) * pace * 1'000);
    turn.due_ms = now_ms + std::max(think_ms, kTickMs);
    turn.order = order_++;
    pending_.push(std::move(turn));
  }

  void begin(std::uint64_t now_ms) {
    Pending turn;
    turn.kind = random_.chance(kPopularChance) ? Turn::popular : Turn::first;
    turn.request.input_tokens = static_cast<std::uint64_t>(random_.draw(kFirstPromptTokens));
    turn.request.block_ids.push_back(0);
    add_new_blocks(turn.request);
    emit(std::move(turn), now_ms);
  }

  void resume(Pending turn, std::uint64_t now_ms) {
    if (random_.chance(partial_chance(turn.kind))) {
      if (turn.kind != Turn::popular) turn.kind = Turn::partial;
      keep_leading_part(turn);
    } else {
      turn.kind = Turn::dialogue;
      turn.document_blocks = 0;
      append_message(turn.request);
    }
    add_new_blocks(turn.request);
    emit(std::move(turn), now_ms);
  }

  // A prompt is cut down to a document once; the turns after that keep the document whole.
  void keep_leading_part(Pending& turn) {
    TraceRequest& request = turn.request;
    const std::size_t blocks = request.block_ids.size();
    if (turn.document_blocks == 0) {
      const double kept = random_.draw(kKeptPart) * static_cast<double>(blocks);
      turn.document_blocks = std::clamp<std::size_t>(static_cast<std::size_t>(kept), 2, blocks);
    }
    request.block_ids.resize(std::min(turn.document_blocks, blocks));
    const auto added = static_cast<std::uint64_t>(random_.draw(kNewBlocks));
    const std::uint64_t tokens = (request.block_ids.size() + added) * kTraceBlockTokens -
                                 static_cast<std::uint64_t>(random_.unit() * 511);
    request.input_tokens = std::min(tokens, kTokensMax);
    request.block_ids.resize(std::min(request.block_ids.size(), blocks_of(request.input_tokens)));
  }

  // The last block was partial, or is about to be followed by something: it changes.
  void append_message(TraceRequest& request) {
    request.block_ids.resize(std::max<std::size_t>(request.block_ids.size() - 1, 1));
    const double tokens = static_cast<double>(request.input_tokens + request.output_tokens) +
                          random_.draw(kMessageTokens);
    const double least = static_cast<double>(request.block_ids.size() * kTraceBlockTokens + 1);
    request.input_tokens =
        static_cast<std::uint64_t>(std::clamp(tokens, least, static_cast<double>(kTokensMax)));
  }

  Random random_;
  std::uint64_t requests_;
  std::uint64_t next_block_ = 1;
  std::uint64_t order_ = 0;
  std::priority_queue<Pending> pending_;
  Trace trace_;
};

}  // namespace

Trace generate_trace(const TraceGeneratorOptions& options) {
  return Generator(options).run();
}

}  // namespace simm::bench
