// SimRdmaFabric: a network of simulated RDMA devices with the rules of reliable connections, and a
// few more of its own so that whoever relies on luck fails:
//   - works of a queue pair take effect in order at the other end; answers and completions come
//     later, after a random number of steps, in order; poll() often gives only some of them;
//   - a WRITE arrives in pieces, over several steps, and so do the bytes of a READ; a later WRITE
//     may overtake the reading of an earlier READ, as on real devices;
//   - packets that are under way outlive their sender. Only destroy() of the receiver stops them: a
//     queue pair that has merely failed still places some;
//   - memory is touched in step() and nowhere else;
//   - numbers of destroyed queue pairs come back soon;
//   - a port may be slow: then its queue pairs take turns, and what they send waits.
// What a user must not do is a CHECK: too many works, a local key that does not cover its part,
// memory deregistered while works of its own daemon use it, use after destroy().
// It outlives its devices. Thread: the one simulated thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "tests/sim/dice.h"
#include "tests/sim/rdma/sim_packet.h"
#include "tests/sim/rdma/sim_rdma_device.h"

namespace simm::sim {

class SimQueuePair;

// What has taken effect.
struct SimRdmaCounters {
  std::uint64_t sends = 0;
  std::uint64_t send_bytes = 0;
  std::uint64_t read_bytes = 0;     // of remote memory, by READ
  std::uint64_t written_bytes = 0;  // to remote memory, by WRITE
  std::uint64_t late_bytes = 0;     // of these, placed by a queue pair that had failed
  std::uint64_t dropped_packets = 0;
};

class SimRdmaFabric {
public:
  explicit SimRdmaFabric(std::uint64_t seed) : dice_(seed, 0) {}
  ~SimRdmaFabric();
  SimRdmaFabric(const SimRdmaFabric&) = delete;
  SimRdmaFabric& operator=(const SimRdmaFabric&) = delete;

  // Every device reaches every other one.
  std::unique_ptr<SimRdmaDevice> make_device(const SimDeviceConfig& config = {});

  // A moment passes; how much was done in it. None may be done though something is under way.
  int step();
  // Something was under way in the last step, though it may have waited.
  [[nodiscard]] bool is_busy() const noexcept { return is_busy_; }
  // Steps until nothing is under way that may move, no retry either.
  void settle();
  void set_seed(std::uint64_t seed) { dice_ = Dice(seed, 0); }

  // The cable of a device. While it is out nothing leaves or reaches it; who waits for an answer is
  // told `peer_lost` after some steps. What was under way goes on when it is put back earlier.
  void cut(const SimRdmaDevice& device) { cut_.insert(&device); }
  void join(const SimRdmaDevice& device) { cut_.erase(&device); }

  // Keeps the packets of one direction under way until release(). Nobody loses patience meanwhile.
  void hold(const SimRdmaDevice& from, const SimRdmaDevice& to) { held_.insert({&from, &to}); }
  void release(const SimRdmaDevice& from, const SimRdmaDevice& to) { held_.erase({&from, &to}); }

  // What is as long as that is swallowed in that direction, and with it whatever its queue pair
  // sends behind it: a path whose switches have a smaller MTU than its ports.
  void swallow(const SimRdmaDevice& from, const SimRdmaDevice& to, std::uint32_t bytes) {
    swallowed_[{&from, &to}] = bytes;
  }

  // A device that does not answer what it is asked: neither acknowledges nor sends what is READ.
  // What its own daemon says leaves. Nobody loses patience meanwhile.
  void hold_answers(const SimRdmaDevice& of) { mute_.insert(&of); }
  void release_answers(const SimRdmaDevice& of) { mute_.erase(&of); }

  // Packets under way between the two, in that direction.
  [[nodiscard]] std::size_t under_way(const SimRdmaDevice& from, const SimRdmaDevice& to) const;
  [[nodiscard]] const SimRdmaCounters& counters() const noexcept { return counters_; }

private:
  friend class SimRdmaDevice;
  friend class SimRdmaPort;
  friend class SimQueuePair;

  void add(SimQueuePair& queue_pair);
  void remove(SimQueuePair& queue_pair);
  void forget(const SimRdmaDevice& device);
  // The pipe of what a queue pair sends; `answers`: of what it answers.
  SimPipe& pipe_of(SimQueuePair& sender, bool answers);
  int deliver(SimPipe& pipe);
  [[nodiscard]] const SimRdmaDevice* device_of(const transport::QueuePairAddress& address) const;
  [[nodiscard]] bool is_held(const SimRdmaDevice* one, const SimRdmaDevice* other) const;
  [[nodiscard]] bool is_cut(const SimPipe& pipe) const;
  [[nodiscard]] bool is_swallowed(const SimPipe& pipe) const;
  // A slow port: its part of this step is used up.
  [[nodiscard]] bool is_spent(const SimPipe& pipe) const;
  void spend(const SimPipe& pipe);

  Dice dice_;
  SimRdmaCounters counters_;
  std::uint64_t serials_ = 0;
  std::uint32_t devices_made_ = 0;
  std::set<SimRdmaDevice*> devices_;
  std::map<std::uint64_t, SimQueuePair*> queue_pairs_;       // by serial
  std::map<std::pair<std::uint64_t, bool>, SimPipe> pipes_;  // by serial of the sender
  // Of slow ports: what may still leave in this step; less than 0: a packet was longer than that.
  std::map<const SimRdmaDevice*, std::int64_t> allowances_;
  std::uint64_t steps_ = 0;
  bool is_busy_ = false;
  std::set<const SimRdmaDevice*> cut_;
  std::set<const SimRdmaDevice*> mute_;
  std::set<std::pair<const SimRdmaDevice*, const SimRdmaDevice*>> held_;
  std::map<std::pair<const SimRdmaDevice*, const SimRdmaDevice*>, std::uint32_t> swallowed_;
};

}  // namespace simm::sim
