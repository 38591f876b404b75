// CopyConfirmer: keeps copies of immutable namespaces from becoming too old. Such a key has one
// value for ever, so one question is enough: does the owner have it still? The confirmer asks that
// with `exists`, many keys at once, when half of the linger is over; readers are served meanwhile.
// A yes counts from the moment of the question, so a copy is never served longer than the linger
// after the owner had the object for the last time: that is how a remove reaches the copies. The
// question asks for the lease of the fetch, so the object's lease and its place in the order of use
// at the owner are as if the readers had asked.
//
// A copy that nobody has used for confirm_for_ns is not asked about any more; then it is as old as
// any other. No answer in time: it is asked again, until the copy is too old.
//
// Owned by the SharedReadServer, whose room, engine, clock and counters outlive it. No allocation
// after construction. Thread: its data agent.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/base/clock.h"
#include "daemon/engine/engine.h"
#include "daemon/shared_reads/shared_read_config.h"
#include "daemon/shared_reads/shared_read_counters.h"
#include "daemon/shared_reads/shared_read_room.h"
#include "ipc/layout.h"

namespace simm::shared_reads {

class CopyConfirmer final : public engine::OperationEvents {
public:
  CopyConfirmer(const SharedReadConfig& config, engine::Engine& engine, const base::Clock& clock,
                SharedReadRoom& room, SharedReadCounters& counters);

  // Asks about those for which it is time.
  int do_work() noexcept;
  [[nodiscard]] base::TimeNs next_deadline_ns() const noexcept;

  void on_complete(engine::Operation& operation) noexcept override;

private:
  // A copy may be gone when the answer comes, and its number be another one's.
  struct Asked {
    std::uint32_t shared_read;
    std::uint64_t serial;
  };
  static constexpr std::uint32_t kPages = ipc::kPagesPerSubmissionMax;

  [[nodiscard]] std::uint32_t next_due() noexcept;
  void ask(std::uint32_t first) noexcept;
  [[nodiscard]] Asked* asked_of(std::uint64_t question) noexcept {
    return &asked_[question * kPages];
  }
  [[nodiscard]] base::TimeNs due_ns(const SharedRead& shared_read) const noexcept {
    return shared_read.confirmed_ns + config_.linger_ns / 2;
  }

  const SharedReadConfig& config_;
  engine::Engine& engine_;
  const base::Clock& clock_;
  SharedReadRoom& room_;
  SharedReadCounters& counters_;
  std::unique_ptr<Asked[]> asked_;  // of each question, kPages each
  std::uint32_t free_ = (1u << SharedReadConfig::kConfirmsMax) - 1;  // a bit for each question
  base::TimeNs asked_ns_[SharedReadConfig::kConfirmsMax] = {};
};

}  // namespace simm::shared_reads
