#include "tests/model/explorer.h"

#include <algorithm>
#include <cstring>

#include "simm/check.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace explorer {
namespace {

constexpr std::size_t kStackBytes = 64 * 1024;

bool contains(const std::vector<std::uint32_t>& set, std::uint32_t actor) {
  return std::find(set.begin(), set.end(), actor) != set.end();
}

std::uint64_t read_memory(const void* address, std::size_t bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, address, bytes);  // little-endian: the low bytes
  return value;
}

// ThreadSanitizer has to be told which stack it is on.
void* new_sanitizer_fiber() {
#if defined(__SANITIZE_THREAD__)
  return __tsan_create_fiber(0);
#else
  return nullptr;
#endif
}
void* current_sanitizer_fiber() {
#if defined(__SANITIZE_THREAD__)
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}
void enter_sanitizer_fiber([[maybe_unused]] void* fiber) {
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(fiber, 0);
#endif
}
void end_sanitizer_fiber([[maybe_unused]] void* fiber) {
#if defined(__SANITIZE_THREAD__)
  if (fiber != nullptr) __tsan_destroy_fiber(fiber);
#endif
}

}  // namespace

// ---- on fibers ----

void Explorer::yield(Kind kind, const void* address, bool needs_empty_buffer) noexcept {
  Fiber& self = *fibers_[running_];
  self.next = {kind, address};
  self.needs_empty_buffer = needs_empty_buffer;
  enter_sanitizer_fiber(main_sanitizer_fiber_);
  swapcontext(&self.context, &main_);
}

std::uint64_t Explorer::load(const void* address, std::size_t bytes) noexcept {
  yield(Kind::load, address, false);
  const Fiber& self = *fibers_[running_];
  for (auto entry = self.buffer.rbegin(); entry != self.buffer.rend(); ++entry) {
    if (entry->address == address) return entry->value;
  }
  return read_memory(address, bytes);
}

void Explorer::store(void* address, std::uint64_t value, std::size_t bytes, bool seq_cst) noexcept {
  if (!seq_cst || options_.weaken_seq_cst_stores) {
    fibers_[running_]->buffer.push_back(
        {address, value, bytes});  // nobody else can notice: no step
    return;
  }
  yield(Kind::store, address, true);
  std::memcpy(address, &value, bytes);
}

std::uint64_t Explorer::exchange(void* address, std::uint64_t value, std::size_t bytes) noexcept {
  yield(Kind::exchange, address, true);
  const std::uint64_t old = read_memory(address, bytes);
  std::memcpy(address, &value, bytes);
  return old;
}

void Explorer::wake(const void* address) noexcept {
  yield(Kind::wake, address, true);
  for (const auto& fiber : fibers_) {
    if (fiber->asleep_on != address) continue;
    fiber->asleep_on = nullptr;
    return;
  }
}

void Explorer::wait(const void* address, std::uint32_t value) noexcept {
  yield(Kind::wait, address, true);
  if (read_memory(address, sizeof value) != value) return;
  fibers_[running_]->asleep_on = address;
  yield(Kind::wait, address, true);
}

void Explorer::await(const void* address, const std::function<bool()>& ready) {
  fibers_[running_]->ready = ready;
  yield(Kind::await, address, false);
  fibers_[running_]->ready = nullptr;
}

void Explorer::fail(const std::string& what) {
  if (failure_.empty()) failure_ = what;
}

void Explorer::fiber_main() {
  Explorer& self = *current_;
  Fiber& fiber = *self.fibers_[self.running_];
  fiber.body();
  fiber.finished = true;
  enter_sanitizer_fiber(self.main_sanitizer_fiber_);
  setcontext(&self.main_);
}

// ---- one execution ----

void Explorer::start_fibers(const Scenario& scenario) {
  fibers_.resize(scenario.fibers.size());
  for (std::size_t i = 0; i < fibers_.size(); ++i) {
    auto fiber = std::make_unique<Fiber>();
    if (fibers_[i] != nullptr) {
      fiber->stack = std::move(fibers_[i]->stack);
      end_sanitizer_fiber(fibers_[i]->sanitizer_fiber);
    } else {
      fiber->stack = std::make_unique<unsigned char[]>(kStackBytes);
    }
    fiber->body = scenario.fibers[i];
    fiber->sanitizer_fiber = new_sanitizer_fiber();
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack.get();
    fiber->context.uc_stack.ss_size = kStackBytes;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, &Explorer::fiber_main, 0);
    fibers_[i] = std::move(fiber);
  }
  // Up to their first access: what comes before is nobody else's business.
  for (std::uint32_t i = 0; i < fibers_.size(); ++i) resume(i);
}

void Explorer::resume(std::uint32_t fiber) {
  running_ = fiber;
  enter_sanitizer_fiber(fibers_[fiber]->sanitizer_fiber);
  swapcontext(&main_, &fibers_[fiber]->context);
}

void Explorer::flush(Fiber& fiber) {
  const Buffered oldest = fiber.buffer.front();
  fiber.buffer.pop_front();
  std::memcpy(oldest.address, &oldest.value, oldest.bytes);
}

bool Explorer::is_enabled(const Fiber& fiber) const {
  if (fiber.finished || fiber.asleep_on != nullptr) return false;
  if (fiber.needs_empty_buffer && !fiber.buffer.empty()) return false;
  return !fiber.ready || fiber.ready();
}

void Explorer::list_enabled(Node& node) const {
  const auto count = static_cast<std::uint32_t>(fibers_.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    if (!is_enabled(*fibers_[i])) continue;
    node.enabled.push_back(i);
    node.accesses.push_back(fibers_[i]->next);
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    if (fibers_[i]->buffer.empty()) continue;
    node.enabled.push_back(count + i);
    node.accesses.push_back({Kind::store, fibers_[i]->buffer.front().address});
  }
}

Explorer::End Explorer::run_once(const Scenario& scenario) {
  current_ = nullptr;
  scenario.reset();
  failure_.clear();
  main_sanitizer_fiber_ = current_sanitizer_fiber();
  current_ = this;
  start_fibers(scenario);
  const auto count = static_cast<std::uint32_t>(fibers_.size());
  End end = End::complete;
  for (std::size_t depth = 0;; ++depth) {
    if (depth == path_.size()) {
      Node node;
      list_enabled(node);
      if (depth > 0) inherit_sleep(path_.back(), node);
      const auto free =
          std::find_if(node.enabled.begin(), node.enabled.end(),
                       [&](std::uint32_t actor) { return !contains(node.sleep, actor); });
      if (free == node.enabled.end()) {
        if (!node.enabled.empty()) end = End::redundant;
        break;
      }
      node.chosen = *free;
      path_.push_back(std::move(node));
    }
    const std::uint32_t actor = path_[depth].chosen;
    if (actor >= count) {
      flush(*fibers_[actor - count]);
    } else {
      resume(actor);
    }
    if (!failure_.empty()) break;
  }
  current_ = nullptr;
  if (end == End::redundant) return end;
  if (failure_.empty()) {
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!fibers_[i]->finished) failure_ = "fiber " + std::to_string(i) + " sleeps for ever";
    }
  }
  if (failure_.empty()) failure_ = scenario.check();
  return failure_.empty() ? End::complete : End::failed;
}

// ---- the search ----

bool Explorer::independent(const Access& a, const Access& b) noexcept {
  const auto line = [](const void* address) {
    return reinterpret_cast<std::uintptr_t>(address) / 8;
  };
  if (line(a.address) != line(b.address)) return true;
  const auto only_reads = [](Kind kind) { return kind == Kind::load || kind == Kind::await; };
  return only_reads(a.kind) && only_reads(b.kind);
}

const Explorer::Access& Explorer::access_of(const Node& node, std::uint32_t actor) {
  const auto place = std::find(node.enabled.begin(), node.enabled.end(), actor);
  SIMM_CHECK(place != node.enabled.end());
  return node.accesses[static_cast<std::size_t>(place - node.enabled.begin())];
}

void Explorer::inherit_sleep(const Node& parent, Node& child) const {
  const Access& taken = access_of(parent, parent.chosen);
  const auto keep = [&](std::uint32_t actor) {
    if (actor == parent.chosen || contains(child.sleep, actor)) return;
    if (independent(access_of(parent, actor), taken)) child.sleep.push_back(actor);
  };
  for (const std::uint32_t actor : parent.sleep) keep(actor);
  for (const std::uint32_t actor : parent.done) keep(actor);
}

bool Explorer::backtrack() {
  while (!path_.empty()) {
    Node& node = path_.back();
    node.done.push_back(node.chosen);
    for (const std::uint32_t actor : node.enabled) {
      if (contains(node.sleep, actor) || contains(node.done, actor)) continue;
      node.chosen = actor;
      return true;
    }
    path_.pop_back();
  }
  return false;
}

std::string Explorer::schedule() const {
  std::string text;
  for (const Node& node : path_) text += std::to_string(node.chosen) + " ";
  return text;
}

Explorer::Outcome Explorer::explore(const Scenario& scenario) {
  Outcome outcome;
  path_.clear();
  do {
    const End end = run_once(scenario);
    if (end == End::redundant) {
      ++outcome.redundant;
    } else {
      ++outcome.executions;
    }
    if (end == End::failed) {
      outcome.failure = failure_ + "; schedule: " + schedule();
      break;
    }
    if (outcome.executions + outcome.redundant > options_.executions_max) {
      outcome.failure = "more executions than allowed";
      break;
    }
  } while (backtrack());
  for (const auto& fiber : fibers_) end_sanitizer_fiber(fiber->sanitizer_fiber);
  fibers_.clear();
  return outcome;
}

}  // namespace explorer
