// AgentGroup: which agent runs on which thread. `shared`: all agents in one loop on one thread;
// `dedicated`: one thread each, pinned when CPUs are named. The agents do not know which.
//
//   AgentGroup group({Threading::dedicated, {2, 3}, idle}, clock, counters);
//   Agent0 a(group.waiter(0)); Agent1 b(group.waiter(1));   // waiters exist before their agents
//   group.add(0, a); group.add(1, b);
//   group.start(); ... group.stop();
//
// Thread: the one that composes the daemon. Agents must outlive stop().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/base/agent_runner.h"
#include "daemon/base/waiter.h"
#include "ipc/death_mark.h"
#include "simm/expected.h"

namespace simm::base {

enum class Threading : std::uint8_t { shared, dedicated };
inline constexpr std::string_view kThreadingNames = "shared|dedicated";

struct AgentGroupOptions {
  Threading mode = Threading::shared;
  std::vector<int> cpus;  // thread i runs on cpus[i % size]; empty: wherever the kernel likes
  IdleOptions idle;
};

class AgentGroup {
public:
  // `slots` agents (or small teams of agents that must share a thread) will be added.
  static Expected<std::unique_ptr<AgentGroup>> create(AgentGroupOptions options, std::size_t slots,
                                                      const Clock& clock, CounterSet& counters);
  ~AgentGroup() { stop(); }

  // The waiter of the thread that will run `slot`.
  [[nodiscard]] Waiter& waiter(std::size_t slot) noexcept { return *lane(slot).waiter; }
  void add(std::size_t slot, Agent& agent) { lane(slot).runner->add(agent); }

  // At set-up: start() returns when every thread has its mark. It outlives stop().
  void mark_deaths(ipc::DeathMark& mark) noexcept { mark_ = &mark; }

  // Starts the threads. Pinning to a CPU that does not exist is an error that names it; the threads
  // started so far are stopped.
  Outcome start();
  // Stops and joins all threads. Idempotent.
  void stop() noexcept;

  // True when every thread has done a turn since the last call (the first call: since its start).
  // Wakes all, so that those with nothing to do have one until the next call. Thread: one.
  bool have_all_turned() noexcept;

  [[nodiscard]] std::size_t threads() const noexcept { return lanes_.size(); }

private:
  struct Lane {
    std::unique_ptr<EpollWaiter> waiter;
    std::unique_ptr<AgentRunner> runner;
    std::thread thread;
    std::uint64_t turns_seen = 0;  // by have_all_turned()
  };
  AgentGroup(AgentGroupOptions options) : options_(std::move(options)) {}
  Lane& lane(std::size_t slot) noexcept;

  const AgentGroupOptions options_;
  std::vector<Lane> lanes_;
  ipc::DeathMark* mark_ = nullptr;  // null: nobody has to know when the threads end
};

}  // namespace simm::base
