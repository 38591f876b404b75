// HotKeys: which keys a shard is asked for most, by pages and by bytes, over the last minutes. Two
// sketches (space_saving.h) see samples: one in kPagesPerSample pages that are asked for, and one
// use for each kBytesPerSample bytes that are moved. So a page costs a few instructions. The
// distance to the next sample is drawn anew each time, and depends on the cluster's secret seed by
// the hashes of keys: no client can ask between the samples. Every kHalfLifeNs what was before
// counts half.
//
// Owned by the Server. Thread: its data agent, but tables(), whose reader is the control thread.
#pragma once

#include <cstdint>
#include <span>

#include "daemon/base/clock.h"
#include "daemon/base/hot_table.h"
#include "daemon/base/space_saving.h"
#include "daemon/server/owned_slots.h"
#include "daemon/transport/request.h"

namespace simm::server {

class HotKeys {
public:
  static constexpr std::uint32_t kPagesPerSample = 64;       // a power of two, on average
  static constexpr std::uint64_t kBytesPerSample = 1 << 20;  // the same
  static constexpr base::TimeNs kHalfLifeNs = 60 * base::kNsPerSecond;

  // The slots outlive it: pages of others are not counted.
  explicit HotKeys(const OwnedSlots& slots) noexcept : slots_(slots) {}

  // Pages that somebody asks for, whatever for.
  void note_request(const transport::RequestHeader& header,
                    std::span<const transport::PageRequest> pages) noexcept {
    if (pages.size() < pages_left_) {
      pages_left_ -= static_cast<std::uint32_t>(pages.size());
    } else {
      sample_pages(header, pages);
    }
  }
  // So many bytes of a page were moved.
  void note_bytes(const transport::RequestHeader& header, const transport::PageRequest& page,
                  std::uint64_t bytes) noexcept {
    if (bytes < bytes_left_) {
      bytes_left_ -= bytes;
    } else {
      sample_bytes(header, page, bytes);
    }
  }

  // Lets the past fade, and tells tables() what has changed.
  void publish(base::TimeNs now_ns) noexcept;
  [[nodiscard]] base::HotTables& tables() noexcept { return tables_; }

private:
  void sample_pages(const transport::RequestHeader& header,
                    std::span<const transport::PageRequest> pages) noexcept;
  void sample_bytes(const transport::RequestHeader& header, const transport::PageRequest& page,
                    std::uint64_t bytes) noexcept;
  // 1 to 2 * mean; `mean` is a power of two.
  [[nodiscard]] std::uint64_t draw(std::uint64_t mean, const base::KeyHash& hash) noexcept;

  const OwnedSlots& slots_;
  std::uint32_t pages_left_ = kPagesPerSample;  // the next sample is this one from here
  std::uint64_t bytes_left_ = kBytesPerSample;
  std::uint64_t draws_ = 0;
  base::SpaceSaving requests_;
  base::SpaceSaving bytes_;
  base::TimeNs halve_ns_ = 0;  // when the past fades next; 0: not known yet
  bool has_changed_ = false;   // since the last publish()
  base::HotTables tables_;
};

}  // namespace simm::server
