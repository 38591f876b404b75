// LeaseRecord: what a GpuLease stands for. It keeps the session open, so that nothing but its own
// end, or the daemon's, takes the lease away. Thread: any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "simm/expected.h"

namespace simm::detail {

class Core;

class LeaseRecord {
public:
  struct Terms {
    std::array<std::uint8_t, 16> uuid{};
    std::uint64_t bytes = 0;
    std::uint32_t notice_ms = 0;
    std::uint32_t answer_ms = 0;  // for the daemon's answer beyond that
  };
  static Expected<std::unique_ptr<LeaseRecord>> lend(std::shared_ptr<Core> core,
                                                     const Terms& terms);
  ~LeaseRecord();
  LeaseRecord(const LeaseRecord&) = delete;
  LeaseRecord& operator=(const LeaseRecord&) = delete;

  [[nodiscard]] std::uint64_t bytes() const noexcept;
  Outcome reclaim();

private:
  LeaseRecord(std::shared_ptr<Core> core, const Terms& terms, std::uint32_t generation,
              std::uint64_t number) noexcept
      : core_(std::move(core)), terms_(terms), generation_(generation), number_(number) {}

  const std::shared_ptr<Core> core_;
  const Terms terms_;
  const std::uint32_t generation_;  // of the session whose lease it is
  const std::uint64_t number_;
  std::atomic<bool> is_over_{false};
};

// The UUID of a GPU that is named by its UUID, or by the number that this process gives it.
Expected<std::array<std::uint8_t, 16>> gpu_uuid_of(std::string_view gpu);

}  // namespace simm::detail
