#include "daemon/transport/rdma/rail_chooser.h"

#include <algorithm>

namespace simm::transport {

bool RailChooser::is_reachable(Route route) const noexcept {
  return std::any_of(links_.used().begin(), links_.used().end(),
                     [route](const auto& link) { return link->leads_to(route); });
}

RailChooser::Fitness RailChooser::fitness_of(const RdmaRequesterLink& link,
                                             const memory::Slice& slice) const noexcept {
  const std::uint16_t rail = link.path().link().rail;
  const std::int32_t node = rail < config_.rails.size() ? config_.rails[rail].node : -1;
  const std::int32_t wanted = slice.region == nullptr ? -1 : slice.region->numa_node;
  const bool is_near = node < 0 || wanted < 0 || node == wanted;
  const KeysFound found = slice.length == 0 ? KeysFound::all : keys_.look(rail, slice);
  if (found == KeysFound::all) return is_near ? Fitness::near : Fitness::far;
  // Where a near rail has failed, a far one is asked like it.
  return is_near && found != KeysFound::failed ? Fitness::near_unknown : Fitness::far_unknown;
}

RailChooser::Choice RailChooser::choose(Route route, const memory::Slice& slice) const noexcept {
  Choice choice;
  for (const auto& link : links_.used()) {
    if (!link->leads_to(route)) continue;
    choice.is_reachable = true;
    choice.credits += link->credits();
    const Fitness fitness = fitness_of(*link, slice);
    // A rail that would have to learn the memory first is not asked because a better one is busy.
    const bool counts = link->credits() > 0 || fitness >= Fitness::near_unknown;
    if (!counts || fitness > choice.fitness) continue;
    if (fitness < choice.fitness) choice.count = 0;
    choice.fitness = fitness;
    if (link->credits() == 0) continue;
    const std::uint16_t rail = link->path().link().rail;
    const auto known = std::span(choice.links).first(choice.count);
    const auto same = std::find_if(known.begin(), known.end(), [rail](const auto* one) {
      return one->path().link().rail == rail;
    });
    if (same == known.end()) {
      if (choice.count < choice.links.size()) choice.links[choice.count++] = link.get();
    } else if (link->bytes_out() < (*same)->bytes_out()) {
      *same = link.get();
    }
  }
  // The one with least to do comes first.
  std::sort(choice.links.begin(), choice.links.begin() + static_cast<std::ptrdiff_t>(choice.count),
            [](const auto* one, const auto* other) {
              return one->bytes_out() != other->bytes_out() ? one->bytes_out() < other->bytes_out()
                                                            : one->in_flight() < other->in_flight();
            });
  return choice;
}

// ---- parts ----

void RailChooser::share_out(RdmaBatch& batch, Choice& choice) noexcept {
  batch.is_striped = choose_stripes(batch, choice);
  if (batch.is_striped) batch.stripe_number = ++stripe_numbers_;
  make_parts(batch, choice);
}

bool RailChooser::choose_stripes(const RdmaBatch& batch, Choice& choice) const noexcept {
  if (choice.count < 2 || batch.pages.size() > kStripedPagesMax) return false;
  const bool is_long = std::any_of(
      batch.pages.begin(), batch.pages.end(),
      [this](const auto& page) { return page.slice.length > config_.stripe_bytes_min; });
  if (!is_long) return false;
  // A stripe that can not be posted would be the end of the others. What a rail does not know it is
  // asked to register by that.
  Choice able = choice;
  able.count = 0;
  for (std::size_t i = 0; i < choice.count; ++i) {
    const RdmaRequesterLink& link = *choice.links[i];
    const bool knows = std::all_of(batch.pages.begin(), batch.pages.end(),
                                   [&link](const auto& page) { return link.knows(page); });
    if (knows) able.links[able.count++] = choice.links[i];
  }
  if (able.count < 2) return false;
  choice = able;
  return true;
}

std::uint64_t RailChooser::weight_of(const RdmaRequesterLink& link) const noexcept {
  const std::size_t rail = link.path().link().rail;
  const std::uint64_t speed = rail < config_.rails.size() ? config_.rails[rail].speed : 0;
  return speed == 0 ? 1 : speed;
}

// So that all rails are done at the same time, as far as pages in a row that are whole, or cut
// where they may be, allow it: each gets its part of all that is out and to be asked for, by its
// weight, less what is out on it already.
void RailChooser::make_parts(RdmaBatch& batch, const Choice& choice) const noexcept {
  std::uint64_t weights = 0;
  std::uint64_t bytes = payload_bytes_of(batch.pages);
  const std::uint64_t total = bytes;
  const bool is_spread = batch.is_striped || (total >= kSpreadBytesMin && choice.count > 1);
  const std::size_t rails = is_spread ? choice.count : 1;
  for (std::size_t i = 0; i < rails; ++i) {
    weights += weight_of(*choice.links[i]);
    bytes += choice.links[i]->bytes_out();
  }
  batch.part_count = static_cast<std::uint8_t>(rails);
  std::uint16_t page = 0;
  std::uint64_t offset = 0;  // in that page
  batch.stripe_count = 0;
  std::uint64_t given = 0;
  std::uint64_t due = 0;
  const auto page_count = static_cast<std::uint16_t>(batch.pages.size());
  for (std::size_t i = 0; i < rails; ++i) {
    RdmaBatch::Part& part = batch.parts[i];
    part = {page, 0, RdmaBatch::PartState::waiting, false, offset};
    const std::uint64_t share = bytes / weights * weight_of(*choice.links[i]);
    const std::uint64_t out = choice.links[i]->bytes_out();
    due += share > out ? share - out : 0;
    while (page < page_count && (i + 1 == rails || given < due)) {
      const std::uint64_t length = batch.pages[page].slice.length;
      std::uint64_t cut = length - offset;
      if (batch.is_striped && length > config_.stripe_bytes_min && i + 1 < rails) {
        cut = std::min(cut,
                       (due - given + kStripeStepBytes - 1) / kStripeStepBytes * kStripeStepBytes);
      }
      if (batch.is_striped) add_slice(batch, static_cast<std::uint8_t>(i), page, offset, cut);
      given += cut;
      offset += cut;
      ++part.page_count;
      if (offset < length) break;
      offset = 0;
      ++page;
    }
    if (part.page_count == 0) part.state = RdmaBatch::PartState::over;
    if (part.page_count > 0) ++batch.stripe_count;
  }
  // All of it went to one rail.
  if (batch.stripe_count == 1) batch.is_striped = false;
}

// Of a part that was begun at the page and offset where the last one has ended.
void RailChooser::add_slice(RdmaBatch& batch, std::uint8_t part, std::uint16_t page,
                            std::uint64_t offset, std::uint64_t bytes) noexcept {
  PageRequest& slice = batch.stripes[part][batch.parts[part].page_count];
  slice = batch.pages[page];
  slice.slice.offset += offset;
  slice.slice.length = bytes;
}

wire::StripeBody RailChooser::stripe_of(const RdmaBatch& batch, std::uint8_t part) noexcept {
  wire::StripeBody said{};
  said.number = batch.stripe_number;
  said.first_offset = batch.parts[part].first_offset;
  said.first_page = batch.parts[part].first_page;
  said.page_count = static_cast<std::uint16_t>(batch.pages.size());
  said.stripe = static_cast<std::uint8_t>(
      std::count_if(batch.parts.begin(), batch.parts.begin() + part,
                    [](const RdmaBatch::Part& before) { return before.page_count > 0; }));
  said.stripe_count = batch.stripe_count;
  return said;
}

}  // namespace simm::transport
