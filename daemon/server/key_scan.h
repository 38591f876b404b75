// scan_reversed: visits the keys of a batch from the last to the first, so that the head of a
// prefix is touched last and is the youngest. The lines that a look-up needs are fetched some keys
// ahead of it: index slot, then record and key, then group. Without that each key costs several
// cache misses in a row. Thread: the server's data agent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/store/eviction/object_key.h"
#include "daemon/store/store.h"
#include "daemon/transport/request.h"

namespace simm::server {

inline store::ObjectKey key_of(const transport::RequestHeader& header,
                               const transport::PageRequest& page) noexcept {
  return {page.hash, page.group, header.tenant, header.name_space, {page.key, page.key_bytes}};
}

template <typename Visit>
void scan_reversed(const store::Store& store, const transport::RequestHeader& header,
                   std::span<const transport::PageRequest> pages, Visit&& visit) noexcept {
  constexpr std::size_t kStep = 6;  // keys between two stages of one key
  constexpr std::size_t kStages = 4;
  std::array<std::uint32_t, 32> candidates{};  // more than a candidate lives, in keys
  const std::size_t count = pages.size();
  // The last stage has its turn kStages * kStep keys after the first.
  for (std::size_t i = 0; i < count + kStages * kStep; ++i) {
    if (i < count) store.prefetch_index(pages[count - 1 - i].hash);
    const std::size_t record = i - kStep;  // wraps around before its first turn: not below count
    if (record < count) {
      candidates[record % candidates.size()] =
          store.prefetch_record(pages[count - 1 - record].hash);
    }
    const std::size_t group = i - 2 * kStep;
    if (group < count) store.prefetch_group(candidates[group % candidates.size()]);
    const std::size_t order = i - 3 * kStep;
    if (order < count) store.prefetch_order(candidates[order % candidates.size()]);
    const std::size_t visited = i - kStages * kStep;
    if (visited < count) {
      const std::size_t page = count - 1 - visited;
      visit(page, key_of(header, pages[page]));
    }
  }
}

}  // namespace simm::server
