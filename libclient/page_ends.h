// PageEnds: the pages of an asynchronous batch in the order in which they ended, and whom to tell.
// The worker of AsyncEngine adds them, outside of the mutex, and publishes them under it. One
// thread at a time of the batch's Client tells them to the callback, outside of the mutex as well.
//
// Shared by the batch and by the thread that tells: the callback may close the Client, which ends
// the batch. Allocates once, for all pages of the batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "simm/batch.h"

namespace simm::detail {

struct AsyncBatch;

class PageEnds {
public:
  PageEnds(AsyncBatch& batch, PageCallback callback, std::span<const std::uint64_t> user_data,
           std::size_t pages)
      : batch_(batch),
        callback_(std::move(callback)),
        user_data_(user_data),
        order_(std::make_unique<std::size_t[]>(pages)) {}

  // Whose pages they are; not any more once the batch was handed back.
  [[nodiscard]] AsyncBatch& batch() const noexcept { return batch_; }

  // --- the worker's
  // Where it looks for batches with pages that it has to publish.
  void set_news(PageEnds** news) noexcept { news_ = news; }
  // At most once for each page.
  void add(std::size_t index) noexcept {
    order_[ended_] = index;
    if (ended_++ == published_) next_news_ = std::exchange(*news_, this);
  }

  // --- under the engine's mutex
  // Returns the next one of the worker's.
  PageEnds* publish() noexcept {
    published_ = ended_;
    return next_news_;
  }
  [[nodiscard]] std::size_t published() const noexcept { return published_; }
  // While nobody tells.
  [[nodiscard]] bool has_untold() const noexcept { return told_ != published_; }

  // --- of the thread that tells, up to what it saw published
  [[nodiscard]] std::size_t told() const noexcept { return told_; }
  [[nodiscard]] std::size_t next() const noexcept { return order_[told_]; }
  // A page is told once, also when the callback throws.
  void tell_next(std::uint64_t ticket, const PageResult& result) {
    const std::size_t index = order_[told_++];
    callback_({ticket, index, user_data_.empty() ? 0 : user_data_[index], result});
  }

private:
  AsyncBatch& batch_;
  const PageCallback callback_;
  const std::span<const std::uint64_t> user_data_;
  const std::unique_ptr<std::size_t[]> order_;
  std::size_t ended_ = 0;
  std::size_t published_ = 0;
  std::size_t told_ = 0;
  PageEnds** news_ = nullptr;
  PageEnds* next_news_ = nullptr;
};

}  // namespace simm::detail
