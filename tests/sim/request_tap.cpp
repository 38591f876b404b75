#include "tests/sim/request_tap.h"

#include <algorithm>

namespace simm::sim {

RequestTap::Active* RequestTap::active_of(transport::Incoming& incoming, const char* what) {
  const auto found = active_.find(&incoming);
  if (found != active_.end()) return &found->second;
  network_.report().violation("seam", "%s for a request that is over", what);
  return nullptr;
}

// ---- the transport's upcalls ----

void RequestTap::on_request(transport::Incoming& incoming) noexcept {
  const WireRequestPtr wire = network_.book().arrive(incoming.header.trace_id, carrier_);
  if (wire == nullptr) return;  // the run is over
  wire->server_epochs.assign(wire->pages.size(), map_epoch_);
  active_[&incoming] = {wire, incoming.responder, std::vector<bool>(wire->pages.size()), false};
  incoming.responder = this;
  server_->on_request(incoming);
}

void RequestTap::on_moved(transport::Incoming& incoming, std::uint16_t page,
                          transport::MoveResult result) noexcept {
  Active* const active = active_of(incoming, "the end of a move");
  if (active == nullptr) return;
  active->is_moving[page] = false;
  if (incoming.header.opcode == ipc::Opcode::put) active->wire->server_epochs[page] = map_epoch_;
  server_->on_moved(incoming, page, result);
}

void RequestTap::on_cancel(transport::Incoming& incoming) noexcept {
  Active* const active = active_of(incoming, "a cancel");
  if (active == nullptr) return;
  active->is_cancelled = true;
  server_->on_cancel(incoming);
}

void RequestTap::on_aborted(transport::Incoming& incoming) noexcept {
  Active* const active = active_of(incoming, "an abort");
  if (active == nullptr) return;
  const std::uint64_t serial = active->wire->serial;
  active_.erase(&incoming);
  server_->on_aborted(incoming);
  network_.book().leave(serial, carrier_);
}

// ---- the server's orders ----

RequestTap::Active* RequestTap::begin_move(transport::Incoming& incoming, std::uint16_t page,
                                           const char* what) {
  Active* const active = active_of(incoming, what);
  if (active == nullptr) return nullptr;
  if (active->is_cancelled) network_.report().violation("seam", "a move begins after the cancel");
  active->is_moving[page] = true;
  if (is_cut_off_) return nullptr;
  if (carrier_ == Carrier::queue_pairs) network_.on_queue_pair_move(*active->wire);
  return active;
}

void RequestTap::pull(transport::Incoming& incoming, std::uint16_t page,
                      std::span<std::byte> extent) noexcept {
  const Active* const active = begin_move(incoming, page, "a pull");
  if (active != nullptr) active->orders->pull(incoming, page, extent);
}

void RequestTap::push(transport::Incoming& incoming, std::uint16_t page,
                      std::span<const std::byte> bytes, bool whole_digest) noexcept {
  const Active* const active = begin_move(incoming, page, "a push");
  if (active == nullptr) return;
  active->wire->server_epochs[page] = map_epoch_;
  active->orders->push(incoming, page, bytes, whole_digest);
}

void RequestTap::note_progress(transport::Incoming& incoming) noexcept {
  const Active* const active = active_of(incoming, "progress");
  if (active != nullptr && !is_cut_off_) active->orders->note_progress(incoming);
}

void RequestTap::reply(transport::Incoming& incoming,
                       std::span<const transport::PageReply> pages) noexcept {
  const Active* const found = active_of(incoming, "an answer");
  if (found == nullptr) return;
  const Active active = *found;
  active_.erase(&incoming);
  if (!is_deaf_) {
    network_.log_reply(*active.wire, pages);
    active.wire->note_answer();
    if (network_.tap != nullptr) network_.tap->on_answered(*active.wire, pages);
    if (carrier_ == Carrier::queue_pairs) network_.on_queue_pair_answer(*active.wire);
  }
  network_.book().leave(active.wire->serial, carrier_);
  if (!is_cut_off_) active.orders->reply(incoming, pages);
}

// ---- the end ----

void RequestTap::abort_all() {
  is_cut_off_ = true;
  while (!active_.empty()) {
    transport::Incoming& incoming = *active_.begin()->first;
    std::vector<bool>& is_moving = active_.begin()->second.is_moving;
    const auto moving = std::find(is_moving.begin(), is_moving.end(), true);
    if (moving == is_moving.end()) {
      on_aborted(incoming);
    } else {
      on_moved(incoming, static_cast<std::uint16_t>(moving - is_moving.begin()),
               {Status::transfer_failed, 0});
    }
  }
}

}  // namespace simm::sim
