// RdmaPeer: the other end of a link as a test plays it: an honest queue pair, and whatever bytes
// the test wants to send over it. Thread: the one simulated thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "daemon/transport/rdma/device/rdma_device.h"
#include "daemon/transport/rdma/message_codec.h"
#include "daemon/transport/rdma/rdma_config.h"
#include "simm/check.h"
#include "tests/sim/rdma/sim_rdma_fabric.h"

namespace support {

using RdmaBytes = std::vector<std::byte>;

// A message of one part, as it travels: `envelope` sealed, with body_bytes and part_bytes of the
// body unless they are set already.
inline RdmaBytes rdma_message(simm::transport::wire::Envelope envelope,
                              const RdmaBytes& body = {}) {
  const auto bytes = static_cast<std::uint32_t>(body.size());
  if (envelope.body_bytes == 0) envelope.body_bytes = bytes;
  envelope.part_bytes = bytes;
  RdmaBytes message(sizeof envelope);
  message.insert(message.end(), body.begin(), body.end());
  simm::transport::FrameSeal plain;
  simm::transport::seal_envelope(envelope, plain, message.data());
  return message;
}

class RdmaPeer {
public:
  RdmaPeer(simm::transport::RdmaDevice& device, bool is_requester)
      : memory_((kReceives + kSends) * kBytes),
        registration_(device
                          .register_memory({memory_.data(), memory_.size(), -1, 0},
                                           simm::transport::RemoteAccess::none)
                          .value()),
        port_(device.make_port(1024).value()) {
    simm::transport::QueuePairConfig config;
    config.sends_max = kSends;
    config.receives_max = kReceives;
    config.is_requester = is_requester;
    queue_pair_ = port_->make_queue_pair(config).value();
  }
  ~RdmaPeer() { queue_pair_->destroy(); }
  RdmaPeer(const RdmaPeer&) = delete;
  RdmaPeer& operator=(const RdmaPeer&) = delete;

  // Both ways; then it takes what comes.
  void connect(simm::transport::QueuePair& far) {
    SIMM_CHECK(far.connect(queue_pair_->address()).has_value());
    SIMM_CHECK(queue_pair_->connect(far.address()).has_value());
    for (std::size_t i = 0; i < kReceives; ++i) post_receive(i);
  }
  void send(const RdmaBytes& message) {
    SIMM_CHECK(message.size() <= kBytes);
    SIMM_CHECK(sent_ < kSends);  // a test says less
    std::byte* const at = memory_.data() + (kReceives + sent_) * kBytes;
    std::copy(message.begin(), message.end(), at);
    simm::transport::Work work;
    work.id = sent_++;
    work.part_count = message.empty() ? 0 : 1;
    work.parts[0] = {at, static_cast<std::uint32_t>(message.size()), registration_->local_key};
    SIMM_CHECK(queue_pair_->post({&work, 1}) == 1);
  }
  // The messages that have come since the last call.
  std::vector<RdmaBytes> take() {
    std::vector<RdmaBytes> messages;
    std::array<simm::transport::Completion, 16> completions;
    while (const std::size_t count = port_->poll(completions)) {
      for (std::size_t i = 0; i < count; ++i) {
        const auto& one = completions[i];
        if (!one.is_receive || one.status != simm::transport::WorkStatus::ok) continue;
        const std::byte* const at = memory_.data() + one.id * kBytes;
        messages.emplace_back(at, at + one.bytes);
        post_receive(one.id);
      }
    }
    return messages;
  }
  // Writes to memory of the other end, until its end is known.
  simm::transport::WorkStatus write(const simm::transport::RemotePart& to, std::uint32_t bytes,
                                    simm::sim::SimRdmaFabric& fabric) {
    simm::transport::Work work;
    work.id = kWriteId;
    work.kind = simm::transport::WorkKind::write;
    work.is_signaled = true;
    work.part_count = 1;
    work.parts[0] = {memory_.data(), bytes, registration_->local_key};
    work.remote = to;
    SIMM_CHECK(queue_pair_->post({&work, 1}) == 1);
    for (int i = 0; i < 100'000; ++i) {
      fabric.step();
      simm::transport::Completion completion;
      if (port_->poll({&completion, 1}) == 1 && completion.id == kWriteId) return completion.status;
    }
    SIMM_CHECK(false);  // every work has an end
    return simm::transport::WorkStatus::flushed;
  }
  [[nodiscard]] simm::transport::QueuePair& queue_pair() { return *queue_pair_; }

private:
  static constexpr std::uint64_t kWriteId = 1 << 20;
  static constexpr std::size_t kReceives = 64;
  static constexpr std::size_t kSends = 64;
  static constexpr std::size_t kBytes = 2 * simm::transport::kPartBufferBytes;

  void post_receive(std::uint64_t id) {
    const simm::transport::LocalPart part{memory_.data() + id * kBytes, kBytes,
                                          registration_->local_key};
    SIMM_CHECK(queue_pair_->post_receive(id, part));
  }

  RdmaBytes memory_;
  std::unique_ptr<simm::transport::Registration> registration_;
  std::unique_ptr<simm::transport::RdmaPort> port_;
  std::unique_ptr<simm::transport::QueuePair> queue_pair_;
  std::size_t sent_ = 0;
};

}  // namespace support
