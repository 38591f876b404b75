// PageList: the pages of a call and where their results go, whichever interface they came from
// (C++ items, keys alone, C items). Owns nothing: lists and results are the caller's.
// Thread: that of the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "libclient/page_ends.h"
#include "simm/batch.h"
#include "simm/simm.h"

namespace simm::detail {

class PageList {
public:
  PageList() = default;
  PageList(std::span<const Item> items, PageResult* results) noexcept
      : source_(Source::items), list_(items.data()), results_(results), size_(items.size()) {}
  PageList(std::span<const std::string_view> keys, PageResult* results) noexcept
      : source_(Source::keys), list_(keys.data()), results_(results), size_(keys.size()) {}
  // `item_bytes`: the size of an item as its caller knows it, at least SIMM_ITEM_BYTES.
  PageList(const simm_item* items, std::size_t count, std::size_t item_bytes,
           simm_result* results) noexcept
      : source_(Source::c_items),
        list_(items),
        results_(results),
        size_(count),
        item_bytes_(item_bytes) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  [[nodiscard]] Item page(std::size_t index) const noexcept {
    // SAFETY: the constructors set source_ together with list_; index < size_ is the caller's.
    switch (source_) {
      case Source::items:
        return static_cast<const Item*>(list_)[index];
      case Source::keys:
        return Item{static_cast<const std::string_view*>(list_)[index], View(), 0, 0};
      case Source::c_items:
        break;
    }
    return page_of_c_item(static_cast<const std::byte*>(list_) + index * item_bytes_);
  }

  // Who is told of the pages' ends, of an asynchronous batch that wants it.
  void set_ends(PageEnds* ends) noexcept { ends_ = ends; }
  [[nodiscard]] bool tells_ends() const noexcept { return ends_ != nullptr; }

  // The page's result, for good.
  void set(std::size_t index, Status status, std::uint64_t bytes) const noexcept {
    store(index, status, bytes);
    if (ends_ != nullptr) ends_->add(index);
  }
  [[nodiscard]] PageResult result(std::size_t index) const noexcept {
    // SAFETY: as page().
    if (source_ != Source::c_items) return static_cast<const PageResult*>(results_)[index];
    const simm_result& result = static_cast<const simm_result*>(results_)[index];
    return {static_cast<Status>(result.status), result.bytes};
  }

  // A result for the time until the page is submitted once more. No page that has failed says
  // bytes.
  void set_absent(std::size_t index) const noexcept { store(index, Status::out_of_memory, 1); }
  [[nodiscard]] bool is_absent(std::size_t index) const noexcept {
    const PageResult found = result(index);
    return found.status == Status::out_of_memory && found.bytes == 1;
  }

private:
  enum class Source : std::uint8_t { items, keys, c_items };
  static Item page_of_c_item(const void* given) noexcept;  // c_api.cpp
  void store(std::size_t index, Status status, std::uint64_t bytes) const noexcept {
    // SAFETY: as page().
    if (source_ == Source::c_items) {
      static_cast<simm_result*>(results_)[index] = {static_cast<std::int32_t>(status), 0, bytes};
    } else {
      static_cast<PageResult*>(results_)[index] = {status, bytes};
    }
  }

  Source source_ = Source::items;
  const void* list_ = nullptr;
  void* results_ = nullptr;
  PageEnds* ends_ = nullptr;
  std::size_t size_ = 0;
  std::size_t item_bytes_ = 0;
};

}  // namespace simm::detail
