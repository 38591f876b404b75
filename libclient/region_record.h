// RegionRecord: what libclient knows about one region. Records live as long as the process and are
// used again. A View may point at one whose region has gone: a pointer to a record is always valid,
// and the generation tells whether it still is the same region.
//
// An operation holds the region between begin_use() and end_use(); deregistering closes it for new
// ones and waits for those that hold it. The wire word says what the daemon calls the region in the
// session of a given generation; it is 0 for staged regions and between two sessions.
// Thread: any; set-up and tear-down by RegionTable under its mutex.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "ipc/fd.h"
#include "ipc/layout.h"
#include "ipc/mapping.h"
#include "libclient/fork_mutex.h"
#include "libclient/present_pages.h"
#include "libclient/private_pages.h"
#include "simm/region.h"

namespace simm::detail {

class Core;

// What a region is made from; filled by whoever makes it, immutable while it is open.
struct RegionMemory {
  std::byte* address = nullptr;
  std::uint64_t length = 0;
  std::string name;
  ipc::Mapping mapping;         // empty: the memory is the caller's
  ipc::UniqueFd fd;             // of the memory file; none for adopted and private memory
  std::uint64_t fd_offset = 0;  // of byte 0
  std::uint64_t page_bytes = 4096;
  bool can_shrink = false;  // the file: whoever has it may cut it to a shorter length
  bool huge_pages = false;
  bool is_present = false;    // every page was touched
  bool is_read_only = false;  // a part of it was, when it was registered
  RegionKind wish = RegionKind::automatic;
  bool allow_foreign = false;
  StoppedDaemon stopped_daemon = StoppedDaemon::take_back;
  // Memory of a GPU: `fd` is of its allocation, `fd_offset` the place of byte 0 there.
  std::array<std::uint8_t, 16> gpu_uuid{};
  std::uint64_t gpu_allocation_bytes = 0;
  void* gpu_context = nullptr;
};

class RegionRecord {
public:
  // The mutex is one for all records of the table, so that fork() can hold it.
  RegionRecord(Core& core, ForkMutex& reasons_mutex) noexcept
      : core_(core), reasons_mutex_(reasons_mutex) {}
  RegionRecord(const RegionRecord&) = delete;
  RegionRecord& operator=(const RegionRecord&) = delete;

  [[nodiscard]] Core& core() const noexcept { return core_; }  // whose record it always is

  // ---- data path ----
  // False when the region is closed; then end_use() must not be called.
  [[nodiscard]] bool begin_use() noexcept {
    users_.fetch_add(1, std::memory_order_seq_cst);
    if (!closed_.load(std::memory_order_seq_cst)) return true;
    end_use();
    return false;
  }
  void end_use() noexcept;

  // Valid between begin_use() and end_use(); before that, a guess that must be checked again.
  [[nodiscard]] std::byte* address() const noexcept {
    return address_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint64_t length() const noexcept {
    return length_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] std::uint32_t generation() const noexcept {
    return generation_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool covers(std::uint64_t address, std::uint64_t length) const noexcept;
  [[nodiscard]] RegionKind kind() const noexcept { return kind_.load(std::memory_order_seq_cst); }
  // The daemon's handle in the session of that generation, kNoRegion when it has none.
  [[nodiscard]] ipc::RegionHandle handle(std::uint32_t session_generation) const noexcept {
    const std::uint64_t wire = wire_.load(std::memory_order_acquire);
    return static_cast<std::uint32_t>(wire >> 32) == session_generation
               ? static_cast<ipc::RegionHandle>(wire)
               : ipc::kNoRegion;
  }
  // The daemon reads and writes the memory itself, so its pages should be present. (Huge pages are
  // not charged to memory cgroups, and the daemon may fault them in.)
  [[nodiscard]] bool wants_presence() const noexcept {
    const RegionKind kind = this->kind();
    return (kind == RegionKind::shared || kind == RegionKind::adopted) && !memory_.huge_pages;
  }
  [[nodiscard]] PresentPages& present() noexcept { return present_; }
  // Whether pages of these bytes were taken back from a daemon that did not answer. What a daemon
  // writes there goes nowhere: a get that completes later has not filled the caller's pages.
  [[nodiscard]] bool taken_back(std::uint64_t offset, std::uint64_t length) const noexcept {
    if (PrivatePages::none()) [[likely]]
      return false;
    return has_private_pages(offset, length);
  }
  [[nodiscard]] bool taken_back() const noexcept { return taken_back(0, length()); }

  // The bytes from the start that the region's file still has: a copy beyond them is a fault.
  [[nodiscard]] std::uint64_t reach() const noexcept {
    return memory_.can_shrink ? length_in_file() : length();
  }

  // ---- set-up and tear-down ----
  void open(RegionMemory memory, std::uint32_t generation);
  void close() noexcept { closed_.store(true, std::memory_order_seq_cst); }
  [[nodiscard]] bool closed() const noexcept { return closed_.load(std::memory_order_seq_cst); }
  // Waits until nobody holds the closed region. False when that has not happened by then.
  [[nodiscard]] bool wait_unused(std::uint64_t deadline_ns) noexcept;
  // Unmaps and forgets. Nobody holds it.
  void release() noexcept;
  void reset_users() noexcept { users_.store(0, std::memory_order_relaxed); }  // after fork

  void set_wire(std::uint32_t session_generation, ipc::RegionHandle handle, RegionKind kind,
                std::string reason);
  // The daemon's handle in that session, to the one caller who takes it; kNoRegion to the others.
  [[nodiscard]] ipc::RegionHandle take_handle(std::uint32_t session_generation) noexcept {
    const ipc::RegionHandle taken = handle(session_generation);
    std::uint64_t expected = std::uint64_t{session_generation} << 32 | taken;
    const bool mine = taken != ipc::kNoRegion && wire_.compare_exchange_strong(expected, 0);
    return mine ? taken : ipc::kNoRegion;
  }
  [[nodiscard]] std::string reason() const;
  [[nodiscard]] const RegionMemory& memory() const noexcept { return memory_; }

private:
  [[nodiscard]] std::uint64_t length_in_file() const noexcept;
  [[nodiscard]] bool has_private_pages(std::uint64_t offset, std::uint64_t length) const noexcept;

  Core& core_;
  std::atomic<std::uint32_t> users_{0};
  std::atomic<bool> closed_{true};
  std::atomic<RegionKind> kind_{RegionKind::staged};
  std::atomic<std::uint32_t> generation_{0};
  std::atomic<std::byte*> address_{nullptr};
  std::atomic<std::uint64_t> length_{0};
  std::atomic<std::uint64_t> wire_{0};  // session generation << 32 | handle
  RegionMemory memory_;
  PresentPages present_;
  // PrivatePages::changes() at the last look, and whether there was a page of the region in bit 0.
  mutable std::atomic<std::uint64_t> private_seen_{0};
  ForkMutex& reasons_mutex_;
  std::string reason_;
};

// Holds the region of that generation, if it is still there.
class HeldRegion {
public:
  HeldRegion(RegionRecord& record, std::uint32_t generation) noexcept
      : record_(record.begin_use() ? &record : nullptr),
        is_same_(record_ != nullptr && record.generation() == generation) {}
  ~HeldRegion() {
    if (record_ != nullptr) record_->end_use();
  }
  HeldRegion(const HeldRegion&) = delete;
  HeldRegion& operator=(const HeldRegion&) = delete;

  explicit operator bool() const noexcept { return is_same_; }

private:
  RegionRecord* const record_;
  const bool is_same_;
};

}  // namespace simm::detail
