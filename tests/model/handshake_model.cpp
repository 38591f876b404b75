#include "tests/model/handshake_model.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

namespace handshake_model {
namespace {

enum Var : std::uint8_t { kTail = 0, kWaiting = 1 };
enum ProducerAt : std::uint8_t { kPublish, kLook, kTake, kWake, kClear, kProducerDone };
enum ConsumerAt : std::uint8_t {
  kRead,
  kAnnounce,
  kLookAgain,
  kCancel,
  kSleep,
  kAsleep,
  kConsumerDone
};

constexpr std::size_t kBufferMax = 8;

struct Buffer {
  std::uint8_t size = 0;
  std::array<std::uint8_t, kBufferMax> var{};
  std::array<std::uint8_t, kBufferMax> value{};
};

// Bytes only, zero where unused, so that states compare and order as bytes.
struct State {
  std::uint8_t memory[2] = {0, 0};
  std::uint8_t producer = kPublish;
  std::uint8_t consumer = kRead;
  std::uint8_t published = 0;
  std::uint8_t read = 0;
  std::uint8_t saw_waiting = 0;  // look_before_publish: what the early look saw
  std::uint8_t announced = 0;    // announcements that reached memory
  std::uint8_t wakes = 0;
  Buffer buffers[2];

  bool operator<(const State& other) const { return std::memcmp(this, &other, sizeof *this) < 0; }
};
static_assert(std::has_unique_object_representations_v<State>);

class Checker {
public:
  explicit Checker(const Options& options) : options_(options) {}

  Result run() {
    visit(State{});
    while (!todo_.empty()) {
      const State state = todo_.back();
      todo_.pop_back();
      successors_ = 0;
      step_producer(state);
      step_consumer(state);
      step_buffers(state);
      const bool ended = state.producer == kProducerDone && state.consumer == kConsumerDone;
      if (successors_ == 0 && !ended) result_.lost_wakeup = true;
    }
    result_.states = seen_.size();
    return result_;
  }

private:
  bool is(Variant variant) const { return options_.variant == variant; }

  void visit(const State& state) {
    ++successors_;
    if (!seen_.insert(state).second) return;
    todo_.push_back(state);
    if (state.wakes > state.announced) result_.wake_without_announcement = true;
  }

  static std::uint8_t load(const State& s, int side, Var var) {
    const Buffer& buffer = s.buffers[side];
    for (std::size_t i = buffer.size; i-- > 0;) {
      if (buffer.var[i] == var) return buffer.value[i];
    }
    return s.memory[var];
  }
  static void write(State& s, Var var, std::uint8_t value) {
    s.memory[var] = value;
    if (var == kWaiting && value == 1) ++s.announced;
  }
  void plain_store(State& s, int side, Var var, std::uint8_t value) const {
    if (!options_.store_buffers) return write(s, var, value);
    Buffer& buffer = s.buffers[side];
    buffer.var[buffer.size] = var;
    buffer.value[buffer.size] = value;
    ++buffer.size;
  }
  static bool drained(const State& s, int side) { return s.buffers[side].size == 0; }
  bool has_space(const State& s, int side) const { return s.buffers[side].size < kBufferMax; }

  void step_buffers(const State& state) {
    for (int side = 0; side < 2; ++side) {
      if (drained(state, side)) continue;
      State s = state;
      Buffer& buffer = s.buffers[side];
      write(s, static_cast<Var>(buffer.var[0]), buffer.value[0]);
      for (std::size_t i = 1; i < buffer.size; ++i) {
        buffer.var[i - 1] = buffer.var[i];
        buffer.value[i - 1] = buffer.value[i];
      }
      --buffer.size;
      buffer.var[buffer.size] = buffer.value[buffer.size] = 0;
      visit(s);
    }
  }

  void next_item(State& s) const {
    s.saw_waiting = 0;
    s.producer = s.published == options_.items ? kProducerDone : kPublish;
    if (is(Variant::look_before_publish) && s.producer == kPublish) s.producer = kLook;
  }

  void step_producer(const State& state) {
    constexpr int kSide = 0;
    State s = state;
    switch (state.producer) {
      case kPublish: {
        const auto next = static_cast<std::uint8_t>(state.published + 1);
        if (is(Variant::plain_publication)) {
          if (!has_space(state, kSide)) return;
          plain_store(s, kSide, kTail, next);
        } else {
          if (!drained(state, kSide)) return;
          write(s, kTail, next);
        }
        s.published = next;
        if (!is(Variant::look_before_publish)) {
          s.producer = kLook;
        } else if (s.saw_waiting != 0) {
          s.producer = kTake;
        } else {
          next_item(s);
        }
        return visit(s);
      }
      case kLook:
        s.saw_waiting = load(state, kSide, kWaiting);
        if (is(Variant::look_before_publish)) {
          s.producer = kPublish;
        } else if (s.saw_waiting == 0) {
          next_item(s);
        } else {
          s.producer = is(Variant::clear_after_wake) ? kWake : kTake;
        }
        return visit(s);
      case kTake:
        if (!drained(state, kSide)) return;
        s.producer = kWake;
        if (state.memory[kWaiting] == 0) next_item(s);
        write(s, kWaiting, 0);
        return visit(s);
      case kWake:
        if (!drained(state, kSide)) return;
        if (state.consumer == kAsleep) s.consumer = kRead;
        ++s.wakes;
        next_item(s);
        if (is(Variant::clear_after_wake)) s.producer = kClear;
        return visit(s);
      case kClear:
        if (!has_space(state, kSide)) return;
        plain_store(s, kSide, kWaiting, 0);
        next_item(s);
        return visit(s);
      default:
        return;
    }
  }

  void step_consumer(const State& state) {
    constexpr int kSide = 1;
    State s = state;
    switch (state.consumer) {
      case kRead:
        if (load(state, kSide, kTail) != state.read) {
          ++s.read;
          if (s.read == options_.items) s.consumer = kConsumerDone;
        } else {
          s.consumer = kAnnounce;
        }
        return visit(s);
      case kAnnounce:
        if (is(Variant::plain_announcement)) {
          if (!has_space(state, kSide)) return;
          plain_store(s, kSide, kWaiting, 1);
        } else {
          if (!drained(state, kSide)) return;
          write(s, kWaiting, 1);
        }
        s.consumer = is(Variant::no_second_look) ? kSleep : kLookAgain;
        return visit(s);
      case kLookAgain:
        s.consumer = load(state, kSide, kTail) != state.read ? kCancel : kSleep;
        return visit(s);
      case kCancel:
        if (!has_space(state, kSide)) return;
        plain_store(s, kSide, kWaiting, 0);
        s.consumer = kRead;
        return visit(s);
      case kSleep: {
        // The kernel compares and queues the sleeper in one step.
        if (!drained(state, kSide)) return;
        const bool sleeps = is(Variant::sleep_on_tail) ? state.memory[kTail] == state.read
                                                       : state.memory[kWaiting] == 1;
        s.consumer = sleeps ? kAsleep : kRead;
        return visit(s);
      }
      default:
        return;
    }
  }

  const Options options_;
  Result result_;
  std::set<State> seen_;
  std::vector<State> todo_;
  std::uint64_t successors_ = 0;
};

}  // namespace

Result check(const Options& options) {
  return Checker(options).run();
}

}  // namespace handshake_model
