// SimQueuePair: a simulated reliable connection. Two halves: what it asks for (works, their packets
// and the answers to them), and what it answers (requests of the other end, receives).
// Thread: the one simulated thread.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "daemon/transport/rdma/device/queue_pair.h"
#include "tests/sim/rdma/sim_packet.h"

namespace simm::sim {

class SimRdmaFabric;
class SimRdmaPort;

class SimQueuePair final : public transport::QueuePair {
public:
  SimQueuePair(SimRdmaPort& port, SimRdmaDevice& device, const transport::QueuePairConfig& config);
  ~SimQueuePair() override;

  [[nodiscard]] const transport::QueuePairAddress& address() const noexcept override {
    return address_;
  }
  Outcome connect(const transport::QueuePairAddress& far) override;
  [[nodiscard]] std::uint32_t reads_max() const noexcept override {
    return static_cast<std::uint32_t>(reads_out_max_);
  }
  [[nodiscard]] std::size_t post(std::span<const transport::Work> works) noexcept override;
  [[nodiscard]] bool post_receive(std::uint64_t id,
                                  const transport::LocalPart& part) noexcept override;
  void fail() noexcept override;
  void destroy() noexcept override;
  [[nodiscard]] bool try_destroy() noexcept override;

private:
  friend class SimRdmaDevice;
  friend class SimRdmaFabric;
  friend class SimRdmaPort;

  enum class State : std::uint8_t { made, connected, failed, destroyed };
  enum class Taken : std::uint8_t { yes, dropped, not_yet };

  struct Asked {
    transport::Work work;
    std::uint32_t bytes = 0;
    std::uint32_t sent = 0;
  };
  struct Receive {
    std::uint64_t id = 0;
    transport::LocalPart part;
  };
  struct Ended {
    std::uint64_t index = 0;
    transport::Completion completion;
    bool is_reported = true;
  };
  struct Answer {
    PacketKind kind = PacketKind::acknowledge;  // read_response, acknowledge or refuse
    std::uint64_t work = 0;
    transport::RemotePart remote;
    std::uint32_t bytes = 0;
    std::uint32_t sent = 0;
    transport::WorkStatus why = transport::WorkStatus::ok;
  };

  [[nodiscard]] bool has_work() const noexcept {
    const bool is_asking = state_ == State::connected && !(works_.empty() && answers_.empty());
    return is_asking || !ended_.empty() || !ended_receives_.empty();
  }
  // A moment passes: sends, answers, completes; how much was done.
  int turn();
  int ask();
  int answer();
  SimPacket next_piece(Asked& write, std::uint64_t index);
  SimPacket next_piece(Answer& read);
  std::uint32_t piece_bytes(std::uint32_t left);
  int complete(std::deque<Ended>& ended);
  int grow_impatient();

  Taken on_packet(const SimPacket& packet);
  Taken on_request(const SimPacket& packet);
  Taken on_late_packet(const SimPacket& packet);
  Taken on_send(const SimPacket& packet);
  void on_answer(const SimPacket& packet);
  void refuse(std::uint64_t work, transport::WorkStatus why);
  void place(const transport::Work& work, const SimPacket& packet);

  std::vector<std::byte> gather(const transport::Work& work, std::uint64_t offset,
                                std::uint64_t bytes) const;
  // The works before `work` have ended well.
  void end_before(std::uint64_t work);
  void end_first(transport::WorkStatus status);
  // The first outstanding work ends with `status`; the rest, and the receives, are flushed.
  void fail_with(transport::WorkStatus status);
  void heard() noexcept { silence_steps_ = 0; }

  SimRdmaPort& port_;
  SimRdmaDevice& device_;
  SimRdmaFabric& fabric_;
  const transport::QueuePairConfig config_;
  transport::QueuePairAddress address_;
  transport::QueuePairAddress far_;
  std::uint64_t serial_ = 0;
  State state_ = State::made;

  std::deque<Asked> works_;       // not ended
  std::uint64_t first_work_ = 0;  // the index of works_.front()
  std::size_t next_to_send_ = 0;  // in works_
  std::uint64_t known_to_have_ended_ = 0;
  std::size_t reads_out_ = 0;
  std::size_t reads_out_max_ = 0;
  std::uint32_t silence_steps_ = 0;
  std::uint32_t patience_steps_ = 0;
  std::size_t posts_left_ = std::numeric_limits<std::size_t>::max();
  std::map<std::uint64_t, transport::Work> late_reads_;  // flushed with answers under way
  std::deque<Ended> ended_;

  std::deque<Receive> receives_;
  std::uint64_t receives_posted_ = 0;
  std::uint64_t receives_polled_ = 0;
  std::deque<Ended> ended_receives_;
  std::deque<Answer> answers_;
  bool has_refused_ = false;
  std::uint32_t full_steps_ = 0;
  std::uint32_t late_packets_left_ = 0;  // that it still places though it has failed
};

}  // namespace simm::sim
