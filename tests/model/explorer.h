// Explorer: runs a small concurrent scenario under every interleaving of its shared accesses, with
// store buffers as x86 has them (total store order). The code under test is the production code
// with the Access policy below: each access first gives control back to the explorer.
//
// A thread is a fiber. Besides its fibers, each fiber's store buffer is an actor of its own, whose
// step writes the oldest buffered store to memory. A store that is not sequentially consistent goes
// to the buffer; loads look there first; sequentially consistent stores, exchanges and system calls
// wait until it is empty. (Release, acquire and relaxed need no more than that on x86.)
//
// Executions are enumerated depth first, by replaying a schedule from the start. Sleep sets
// (Godefroid, "Partial-order methods for the verification of concurrent systems", 1996) leave out
// schedules that only swap independent accesses, so each different behaviour is run once.
//
// Not for use by two threads at once. A scenario may not own memory on a fiber's stack: executions
// are abandoned half way.
#pragma once

#include <ucontext.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace explorer {

class Explorer {
public:
  struct Options {
    // Treat sequentially consistent stores as plain ones: what happens if somebody weakens them.
    bool weaken_seq_cst_stores = false;
    std::uint64_t executions_max = 2'000'000;
  };
  struct Outcome {
    std::uint64_t executions = 0;  // complete ones
    std::uint64_t redundant = 0;   // given up because they only repeat another one
    std::string failure;           // empty: none; else what went wrong and the schedule
  };

  // What one execution consists of. `reset` restores the shared memory and makes the objects;
  // `fibers` run concurrently; `check` looks at the end and returns what is wrong, or nothing.
  struct Scenario {
    std::function<void()> reset;
    std::vector<std::function<void()>> fibers;
    std::function<std::string()> check;
  };

  explicit Explorer(Options options) : options_(options) {}

  // Runs the scenario until all behaviours were seen or one fails.
  Outcome explore(const Scenario& scenario);

  // For fibers: the explorer whose execution is running; null outside of one.
  static Explorer* current() noexcept { return current_; }

  // --- called on fibers ---
  std::uint64_t load(const void* address, std::size_t bytes) noexcept;
  void store(void* address, std::uint64_t value, std::size_t bytes, bool seq_cst) noexcept;
  std::uint64_t exchange(void* address, std::uint64_t value, std::size_t bytes) noexcept;
  void wake(const void* address) noexcept;
  void wait(const void* address, std::uint32_t value) noexcept;
  // Stands for polling: the fiber goes on when `ready`, which reads `address`, is true.
  void await(const void* address, const std::function<bool()>& ready);
  // Ends the execution as failed.
  void fail(const std::string& what);

private:
  enum class Kind : std::uint8_t { start, load, store, exchange, wake, wait, await };
  struct Access {
    Kind kind = Kind::start;
    const void* address = nullptr;
  };
  struct Buffered {
    void* address;
    std::uint64_t value;
    std::size_t bytes;
  };
  struct Fiber {
    ucontext_t context{};
    std::unique_ptr<unsigned char[]> stack;
    std::function<void()> body;
    bool finished = false;
    bool needs_empty_buffer = false;
    const void* asleep_on = nullptr;
    std::function<bool()> ready;  // of await
    Access next;
    std::deque<Buffered> buffer;
    void* sanitizer_fiber = nullptr;
  };
  // Actors 0..n-1 are the fibers, n..2n-1 their buffers.
  struct Node {
    std::vector<std::uint32_t> enabled;
    std::vector<Access> accesses;      // parallel to enabled
    std::vector<std::uint32_t> sleep;  // actors not to be chosen here
    std::vector<std::uint32_t> done;   // already explored from here
    std::uint32_t chosen = 0;
  };

  enum class End : std::uint8_t { complete, redundant, failed };
  End run_once(const Scenario& scenario);
  bool backtrack();
  void start_fibers(const Scenario& scenario);
  void resume(std::uint32_t fiber);
  void flush(Fiber& fiber);
  void yield(Kind kind, const void* address, bool needs_empty_buffer) noexcept;
  void list_enabled(Node& node) const;
  [[nodiscard]] bool is_enabled(const Fiber& fiber) const;
  [[nodiscard]] static bool independent(const Access& a, const Access& b) noexcept;
  [[nodiscard]] static const Access& access_of(const Node& node, std::uint32_t actor);
  void inherit_sleep(const Node& parent, Node& child) const;
  [[nodiscard]] std::string schedule() const;
  static void fiber_main();

  static inline Explorer* current_ = nullptr;

  const Options options_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Node> path_;
  ucontext_t main_{};
  void* main_sanitizer_fiber_ = nullptr;
  std::uint32_t running_ = 0;
  std::string failure_;
};

// The Access policy for the production templates. Outside of an execution it accesses directly.
struct ExploredAccess {
  template <typename Word>
  static Word load(const Word* word, std::memory_order) noexcept {
    Explorer* const e = Explorer::current();
    return e == nullptr ? *word : static_cast<Word>(e->load(word, sizeof(Word)));
  }
  template <typename Word>
  static void store(Word* word, Word value, std::memory_order order) noexcept {
    Explorer* const e = Explorer::current();
    if (e == nullptr) {
      *word = value;
    } else {
      e->store(word, value, sizeof(Word), order == std::memory_order_seq_cst);
    }
  }
  template <typename Word>
  static Word exchange(Word* word, Word value, std::memory_order) noexcept {
    Explorer* const e = Explorer::current();
    if (e != nullptr) return static_cast<Word>(e->exchange(word, value, sizeof(Word)));
    const Word old = *word;
    *word = value;
    return old;
  }
  static void wake(std::uint32_t* word) noexcept { Explorer::current()->wake(word); }
  static bool wait(std::uint32_t* word, std::uint32_t value, std::uint64_t) noexcept {
    Explorer::current()->wait(word, value);
    return true;
  }
};

}  // namespace explorer
