// scan_reversed: visits the keys of a batch from the last to the first, so that the head of a
// prefix is touched last and is the youngest. The lines that a look-up needs are fetched some keys
// ahead of it: index slot, then record and key, then group. Without that each key costs several
// cache misses in a row. Thread: the server's data agent.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/store/object_key.h"
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
  constexpr std::size_t kGroupAhead = 4;
  constexpr std::size_t kRecordAhead = 8;
  constexpr std::size_t kIndexAhead = 12;
  std::array<std::uint32_t, kRecordAhead> candidates{};
  const std::size_t count = pages.size();
  const auto page_at = [&](std::size_t i) -> const transport::PageRequest& {
    return pages[count - 1 - i];
  };
  for (std::size_t i = 0; i < count + kIndexAhead; ++i) {
    if (i < count) store.prefetch_index(page_at(i).hash);
    if (i >= kIndexAhead - kRecordAhead) {
      const std::size_t at = i - (kIndexAhead - kRecordAhead);
      if (at < count) {
        candidates[at % kRecordAhead] = store.prefetch_record(page_at(at).hash);
      }
    }
    if (i >= kIndexAhead - kGroupAhead) {
      const std::size_t at = i - (kIndexAhead - kGroupAhead);
      if (at < count) store.prefetch_group(candidates[at % kRecordAhead]);
    }
    if (i >= kIndexAhead) {
      const std::size_t at = count - 1 - (i - kIndexAhead);
      visit(at, key_of(header, pages[at]));
    }
  }
}

}  // namespace simm::server
