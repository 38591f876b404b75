// What a History notes of requests on their way: who posted and who answered them, under which map.
#include "daemon/base/replica.h"
#include "simm/check.h"
#include "tests/sim/history.h"
#include "tests/sim/sim_mover.h"

namespace simm::sim {

Tenure History::tenure_of(const WireRequest& request, std::size_t page) const {
  const base::Slot slot = base::slot_of(request.pages[page].group);
  return {request.to.peer.value, maps_.tenure(request.header.epoch, slot), is_of_replicas(request)};
}

void History::on_posted(std::uint32_t, const WireRequest& request) {
  if (request.header.is_moved) return;  // what matters is who takes it
  for (const transport::PageRequest& page : request.pages) {
    const Serial owner = maps_.owner(request.header.epoch, base::slot_of(page.group));
    if (owner == request.to.peer.value) continue;
    return report_.violation("P7", "request %llu of epoch %llu goes to server %u, not to server %u",
                             ull(request.serial), ull(request.header.epoch), request.to.peer.value,
                             owner);
  }
  if (request.header.opcode != ipc::Opcode::put) return note_losses();
  std::vector<PutIndex>& puts = put_requests_[request.serial];
  for (std::size_t page = 0; page < request.pages.size(); ++page) {
    const PutIndex put = sources_.at(request.addresses[page]);
    if (puts_[put].over) {
      return report_.violation("P5", "%s: posted after its completion",
                               describe(puts_[put].key).c_str());
    }
    // Both might take effect, the first one after the second, and after what came behind it.
    if (copy_of(put, request).may_be_stored()) {
      return report_.violation("P4", "%s: put %u is posted again, but may have been stored before",
                               describe(puts_[put].key).c_str(), put);
    }
    ++copy_of(put, request).requests;
    ++puts_[put].requests_open;
    puts_[put].tenure = tenure_of(request, page);
    puts_[put].node = request.node;
    puts.push_back(put);
  }
}

// Its first answer, which said that it was not stored, is not the last word.
void History::on_asked_again(const WireRequest& request) {
  const auto found = put_requests_.find(request.serial);
  if (found == put_requests_.end()) return;
  for (const PutIndex put : found->second) {
    if (copy_of(put, request).may_be_stored()) {
      return report_.violation("P4", "%s: put %u is done again, but may have been stored before",
                               describe(puts_[put].key).c_str(), put);
    }
    puts_[put].is_asked_again = true;
  }
}

void History::on_answered(const WireRequest& request, std::span<const transport::PageReply> pages) {
  if (request.header.is_moved) {
    if (request.header.opcode != ipc::Opcode::put) return;  // it is told of them only
    for (std::size_t page = 0; page < pages.size(); ++page) {
      if (pages[page].status == Status::ok) {
        check_moved(request, page);
      } else {
        ++not_moved_;
      }
    }
    return;
  }
  for (std::size_t page = 0; page < pages.size(); ++page) {
    if (pages[page].status == Status::ok || pages[page].status == Status::not_found) {
      check_served(request, page);
    }
    const bool is_get = request.header.opcode == ipc::Opcode::get;
    if (is_get && pages[page].status == Status::not_found) ++owner_misses_;
  }
  if (request.header.opcode == ipc::Opcode::put) {
    const std::vector<PutIndex>& puts = put_requests_.at(request.serial);
    for (std::size_t page = 0; page < pages.size(); ++page) {
      if (pages[page].status != Status::ok) ++copy_of(puts[page], request).requests_failed;
    }
    return;
  }
  for (std::size_t page = 0; page < pages.size(); ++page) {
    const transport::PageRequest& asked = request.pages[page];
    const base::NamespaceId name_space =
        is_of_replicas(request) ? *immutable : request.header.name_space;
    const auto found = index_.find(
        KeyName{request.header.tenant, name_space, std::string(asked.key, asked.key_bytes)});
    if (found == index_.end()) continue;
    keys_[found->second].answers.push_back(
        {loop_.now_ns(), request.posted_ns, request.header.opcode, pages[page].status,
         request.addresses[page], tenure_of(request, page), request.node});
  }
}

// Whoever serves a page has owned its slot since the requester's map, without a break, under the
// map that it had when it began to read the object, or when it published it.
void History::check_served(const WireRequest& request, std::size_t page) {
  const base::Slot slot = base::slot_of(request.pages[page].group);
  const base::Epoch asked = request.header.epoch;
  const base::Epoch has = request.server_epochs[page];
  if (asked <= has && maps_.owner(has, slot) == request.to.peer.value &&
      maps_.tenure(has, slot) == maps_.tenure(asked, slot)) {
    return;
  }
  report_.violation("P7", "server %u with map %llu serves slot %u for a request under map %llu",
                    request.to.peer.value, ull(has), slot, ull(asked));
}

// An object that moves goes from one tenure into the next, and is taken by who has that one.
void History::check_moved(const WireRequest& request, std::size_t page) {
  const base::Slot slot = base::slot_of(request.pages[page].group);
  const base::Epoch into = request.header.epoch;
  const base::Epoch has = request.server_epochs[page];
  ++moved_;
  const bool is_taken_by_owner =
      maps_.owner(has, slot) == request.to.peer.value && maps_.tenure(has, slot) == into;
  const Serial sender = SimMover::server_of(request.node);
  if (is_taken_by_owner && maps_.owner_before(into, slot) == sender) return;
  // Or it is the other copy of what the owner of the mirrored slot has.
  const bool is_kept_twice =
      is_of_replicas(request) || (replicated && request.header.name_space == *immutable);
  const bool is_of_tenure = maps_.owner(has, slot) == request.to.peer.value &&
                            maps_.tenure(has, slot) == maps_.tenure(into, slot) &&
                            maps_.is_refilled_since(into, slot);
  // Its slot may have come to it behind that map.
  const base::Slot mirror = base::mirror_of(slot);
  const bool has_mirror =
      maps_.owner(into, mirror) == sender || maps_.has_owned_behind(into, mirror, sender);
  if (is_of_tenure && is_kept_twice && has_mirror) return;
  report_.violation("P7",
                    "server %u with map %llu takes an object of slot %u from server %u for the "
                    "tenure since %llu",
                    request.to.peer.value, ull(has), slot, sender, ull(into));
}

const History::Answer* History::answer_to(KeyIndex key, base::TimeNs from_ns, ipc::Opcode opcode,
                                          Status status, const std::byte* slice) const {
  const std::vector<Answer>& answers = keys_[key].answers;
  for (auto at = answers.rbegin(); at != answers.rend() && at->at_ns >= from_ns; ++at) {
    if (at->posted_ns < from_ns) continue;  // of somebody who may have given up long ago
    if (at->opcode == opcode && at->status == status && at->slice == slice) return &*at;
  }
  return nullptr;
}

bool History::ambiguous(KeyIndex key, base::TimeNs from_ns, const Answer& answer) const {
  const std::vector<Answer>& answers = keys_[key].answers;
  for (auto at = answers.rbegin(); at != answers.rend() && at->at_ns >= from_ns; ++at) {
    if (at->is_like(answer) && !(at->tenure == answer.tenure)) return true;
  }
  return false;
}

std::uint32_t History::node_of(KeyIndex key, base::TimeNs from_ns, const Answer& answer) const {
  const std::vector<Answer>& answers = keys_[key].answers;
  for (auto at = answers.rbegin(); at != answers.rend() && at->at_ns >= from_ns; ++at) {
    if (at->is_like(answer) && at->node != answer.node) return kNoNode;
  }
  return answer.node;
}

void History::on_server_done(const WireRequest& request) {
  const auto found = put_requests_.find(request.serial);
  if (found == put_requests_.end()) return;
  for (const PutIndex put : found->second) {
    --puts_[put].requests_open;
    puts_[put].effect_by_ns = loop_.now_ns();
    // What never arrived had no effect.
    if (!request.arrived) ++copy_of(put, request).requests_failed;
  }
  put_requests_.erase(found);
}

}  // namespace simm::sim
