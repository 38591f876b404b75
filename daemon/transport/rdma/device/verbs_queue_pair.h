// VerbsQueuePair: a reliable connection of libibverbs.
// Thread: as QueuePair says.
#pragma once

#include <bit>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "daemon/transport/rdma/device/queue_pair.h"
#include "daemon/transport/rdma/device/queue_pair_reaper.h"
#include "daemon/transport/rdma/device/verbs_device.h"
#include "daemon/transport/rdma/device/verbs_handles.h"

namespace simm::transport {

class VerbsPort;

class VerbsQueuePair final : public QueuePair {
public:
  // In a work's number on the device: it is a receive. (What failed does not say what it was.)
  static constexpr std::uint64_t kReceiveBit = std::uint64_t{1} << 63;

  static Expected<std::unique_ptr<VerbsQueuePair>> make(VerbsDevice& device, VerbsPort& port,
                                                        ibv_cq* queue,
                                                        const QueuePairConfig& config);
  ~VerbsQueuePair() override { destroy(); }

  [[nodiscard]] const QueuePairAddress& address() const noexcept override { return address_; }
  Outcome connect(const QueuePairAddress& far) override;
  [[nodiscard]] std::uint32_t reads_max() const noexcept override { return reads_max_; }
  [[nodiscard]] std::size_t post(std::span<const Work> works) noexcept override;
  [[nodiscard]] bool post_receive(std::uint64_t id, const LocalPart& part) noexcept override;
  void fail() noexcept override;
  void destroy() noexcept override;
  [[nodiscard]] bool try_destroy() noexcept override;

private:
  friend class VerbsPort;

  // Works under way in order: their users' numbers.
  struct Line {
    explicit Line(std::uint32_t at_most) : max(at_most), ids(std::bit_ceil(at_most)) {}
    [[nodiscard]] std::uint32_t room() const noexcept { return max - (posted - ended); }
    // A power of two, so that numbers may wrap around.
    std::uint64_t& id_of(std::uint32_t number) noexcept { return ids[number & (ids.size() - 1)]; }
    const std::uint32_t max;
    std::vector<std::uint64_t> ids;
    std::uint32_t posted = 0;  // of all that ever were, modulo 2^32
    std::uint32_t ended = 0;   // ... and of those that are known to have ended
  };

  VerbsQueuePair(VerbsDevice& device, VerbsPort& port, const VerbsDevice::Place& place,
                 const QueuePairConfig& config);

  Outcome to_init();
  Outcome to_ready_to_receive(const QueuePairAddress& far);
  Outcome to_ready_to_send(const QueuePairAddress& far);
  Outcome modify(ibv_qp_attr& attributes, unsigned mask, const char* what);
  // A batch that fits into fixed arrays.
  std::size_t post_batch(std::span<const Work> works) noexcept;
  std::uint64_t mark() noexcept;
  // Behind the fence: what it had of its port is the port's again. Without one its completions may
  // still come, so their room stays taken.
  void leave_port(bool is_fenced) noexcept;
  // The user's number of a work, or of a receive, that has ended.
  std::uint64_t ended(std::uint32_t number, bool is_receive) noexcept;

  VerbsDevice& device_;
  VerbsPort& port_;
  const QueuePairConfig config_;
  ibv_qp* queue_pair_ = nullptr;  // null: destroyed
  std::unique_ptr<QueuePairReaper::Job> ending_ = std::make_unique<QueuePairReaper::Job>();
  bool is_failing_ = false;
  bool is_ending_ = false;
  const VerbsDevice::Place place_;
  QueuePairAddress address_;
  std::uint32_t inline_bytes_max_ = 0;
  std::uint8_t reads_max_ = 0;
  std::optional<std::uint64_t> mark_;  // none: it has never posted
  Line sends_;
  Line receives_;
};

}  // namespace simm::transport
