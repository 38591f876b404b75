#include "daemon/shared_reads/copy_confirmer.h"

#include <bit>
#include <cstring>

#include "simm/check.h"

namespace simm::shared_reads {

using store::kNone;

CopyConfirmer::CopyConfirmer(const SharedReadConfig& config, engine::Engine& engine,
                             const base::Clock& clock, SharedReadRoom& room,
                             SharedReadCounters& counters)
    : config_(config),
      engine_(engine),
      clock_(clock),
      room_(room),
      counters_(counters),
      asked_(std::make_unique<Asked[]>(std::size_t{SharedReadConfig::kConfirmsMax} * kPages)) {}

base::TimeNs CopyConfirmer::next_deadline_ns() const noexcept {
  const std::uint32_t oldest = room_.confirmable().front();
  // The end of a question wakes the agent anyway.
  return oldest == kNone || free_ == 0 ? base::kNoDeadline : due_ns(room_.table()[oldest]);
}

// The front of the list, if it is time; what is given up leaves the list. kNone: nothing now.
std::uint32_t CopyConfirmer::next_due() noexcept {
  const base::TimeNs now_ns = clock_.now_ns();
  SharedReadRoom::ConfirmList& list = room_.confirmable();
  while (!list.empty()) {
    const std::uint32_t number = list.front();
    const SharedRead& shared_read = room_.table()[number];
    if (now_ns < due_ns(shared_read)) return kNone;
    const bool is_too_old = now_ns - shared_read.confirmed_ns > config_.linger_ns;
    if (!is_too_old && now_ns - shared_read.used_ns <= config_.confirm_for_ns) return number;
    list.remove(room_.table(), number);
  }
  return kNone;
}

int CopyConfirmer::do_work() noexcept {
  int asked = 0;
  while (free_ != 0) {
    const std::uint32_t first = next_due();
    if (first == kNone) break;
    ask(first);
    ++asked;
  }
  return asked;
}

// As many as are due and belong together, from the front on.
void CopyConfirmer::ask(std::uint32_t first) noexcept {
  engine::Operation* const operation = engine_.allocate_fetch();
  SIMM_CHECK(operation != nullptr);  // the engine keeps one for each of our questions
  const auto question = static_cast<std::uint32_t>(std::countr_zero(free_));
  free_ &= free_ - 1;
  asked_ns_[question] = clock_.now_ns();
  const SharedRead& leader = room_.table()[first];
  transport::RequestHeader& header = operation->header;
  header.opcode = ipc::Opcode::exists;
  header.tenant = leader.tenant;
  header.name_space = leader.name_space;
  header.lease_ms = leader.lease_ms;
  header.deadline_ns = asked_ns_[question] + config_.linger_ns / 4;
  std::uint32_t key_bytes = 0;
  std::uint32_t count = 0;
  for (std::uint32_t number = first; number != kNone && count < kPages; number = next_due()) {
    SharedRead& shared_read = room_.table()[number];
    const bool fits = shared_read.tenant == header.tenant &&
                      shared_read.name_space == header.name_space &&
                      shared_read.lease_ms == header.lease_ms &&
                      shared_read.key_bytes <= operation->key_bytes.size() - key_bytes;
    if (!fits) break;
    room_.confirmable().remove(room_.table(), number);
    shared_read.confirming = true;
    asked_of(question)[count] = {number, shared_read.serial};
    // A copy of the key: the shared read may be gone before the answer comes.
    std::memcpy(operation->key_bytes.data() + key_bytes, shared_read.key, shared_read.key_bytes);
    transport::PageRequest page;
    page.key = operation->key_bytes.data() + key_bytes;
    page.key_bytes = shared_read.key_bytes;
    page.index = static_cast<std::uint16_t>(count);
    operation->pages[count] = page;
    key_bytes += shared_read.key_bytes;
    ++count;
  }
  operation->page_count = count;
  operation->owner = this;
  operation->owner_data = question;
  engine_.submit(*operation);
}

void CopyConfirmer::on_complete(engine::Operation& operation) noexcept {
  const std::uint64_t question = operation.owner_data;
  for (std::uint32_t page = 0; page < operation.page_count; ++page) {
    const Asked& asked = asked_of(question)[page];
    SharedRead& shared_read = room_.table()[asked.shared_read];
    if (shared_read.serial != asked.serial) continue;
    shared_read.confirming = false;
    if (!shared_read.indexed) continue;
    const transport::PageReply& reply = operation.replies[page];
    // Of another length it is another value: then the namespace is not what its readers say.
    if (reply.status == Status::ok && reply.bytes == shared_read.bytes) {
      counters_.confirmed.add();
      room_.confirm(asked.shared_read, asked_ns_[question]);
    } else if (reply.status == Status::ok || reply.status == Status::not_found) {
      counters_.refuted.add();
      room_.refute(asked.shared_read);
      continue;
    }
    room_.watch(asked.shared_read);
  }
  free_ |= 1u << question;
}

}  // namespace simm::shared_reads
