#include "daemon/base/agent_group.h"

#include <pthread.h>
#include <sched.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <string>
#include <system_error>

#include "simm/check.h"

namespace simm::base {
namespace {

Outcome pin_thread(std::thread& thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (cpu >= 0 && cpu < CPU_SETSIZE) CPU_SET(static_cast<std::size_t>(cpu), &set);
  const int failed = ::pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);
  if (failed == 0) return Done{};
  return system_error("threading.cpus: can not run on CPU " + std::to_string(cpu), failed);
}

}  // namespace

Expected<std::unique_ptr<AgentGroup>> AgentGroup::create(AgentGroupOptions options,
                                                         std::size_t slots, const Clock& clock,
                                                         CounterSet& counters) {
  SIMM_CHECK(slots > 0);
  const std::size_t threads = options.mode == Threading::shared ? 1 : slots;
  std::unique_ptr<AgentGroup> group(new AgentGroup(std::move(options)));
  for (std::size_t i = 0; i < threads; ++i) {
    Lane lane;
    lane.waiter = std::make_unique<EpollWaiter>(clock);
    if (!lane.waiter->usable()) return system_error("epoll or eventfd of a data thread", EMFILE);
    lane.runner = std::make_unique<AgentRunner>("data" + std::to_string(i), clock, *lane.waiter,
                                                group->options_.idle, counters);
    group->lanes_.push_back(std::move(lane));
  }
  return group;
}

Outcome AgentGroup::start() {
  std::latch marked(mark_ == nullptr ? 0 : static_cast<std::ptrdiff_t>(lanes_.size()));
  const auto run = [this, &marked](AgentRunner& runner, std::uint32_t thread) {
    if (mark_ == nullptr) return runner.run();
    const ipc::DeathMark::Hold hold(*mark_, thread);
    marked.count_down();
    runner.run();
  };
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    Lane& started = lanes_[i];
    AgentRunner* runner = started.runner.get();
    try {
      started.thread =
          std::thread([run, runner, i] { run(*runner, static_cast<std::uint32_t>(i)); });
    } catch (const std::system_error& failure) {
      stop();
      return system_error("can not start a data thread", failure.code().value());
    }
    ::pthread_setname_np(started.thread.native_handle(), ("simm-data" + std::to_string(i)).c_str());
    if (options_.cpus.empty()) continue;
    Outcome pinned = pin_thread(started.thread, options_.cpus[i % options_.cpus.size()]);
    if (!pinned) {
      stop();
      return pinned;
    }
  }
  marked.wait();
  return Done{};
}

void AgentGroup::stop() noexcept {
  for (Lane& lane : lanes_) lane.runner->request_stop();
  for (Lane& lane : lanes_) {
    if (lane.thread.joinable()) lane.thread.join();
  }
}

bool AgentGroup::have_all_turned() noexcept {
  bool all = true;
  for (Lane& lane : lanes_) {
    const std::uint64_t turns = lane.runner->turns();
    all = all && turns != lane.turns_seen;
    lane.turns_seen = turns;
    lane.waiter->wake();
  }
  return all;
}

AgentGroup::Lane& AgentGroup::lane(std::size_t slot) noexcept {
  return options_.mode == Threading::shared ? lanes_.front() : lanes_[slot];
}

}  // namespace simm::base
