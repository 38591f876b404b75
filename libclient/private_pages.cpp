#include "libclient/private_pages.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <new>

namespace simm::detail {

PrivatePages& PrivatePages::instance() noexcept {
  // Never destroyed: static destructors of the program may still close Clients.
  alignas(PrivatePages) static std::byte memory[sizeof(PrivatePages)];
  static PrivatePages* const pages = ::new (memory) PrivatePages;
  return *pages;
}

PrivatePages::Parts::const_iterator PrivatePages::first_behind(
    std::uint64_t address) const noexcept {
  const auto next = ends_.upper_bound(address);
  return next != ends_.begin() && std::prev(next)->second > address ? std::prev(next) : next;
}

void PrivatePages::add(std::uint64_t first, std::uint64_t end) {
  const std::lock_guard lock(mutex_);
  // What can fail comes first; a part that begins there is the whole from then on.
  const auto whole = ends_.emplace(first, first).first;
  whole->second = std::max(whole->second, end);
  for (auto next = std::next(whole); next != ends_.end() && next->first <= whole->second;) {
    whole->second = std::max(whole->second, next->second);
    next = ends_.erase(next);
  }
  if (whole != ends_.begin() && std::prev(whole)->second >= first) {
    const auto before = std::prev(whole);
    before->second = std::max(before->second, whole->second);
    ends_.erase(whole);
  }
  changes_.fetch_add(1, std::memory_order_seq_cst);
  any_.store(true, std::memory_order_seq_cst);
}

void PrivatePages::forget(std::uint64_t first, std::uint64_t end, std::uint64_t changes) noexcept {
  if (changes == 0) return;
  const std::lock_guard lock(mutex_);
  if (changes != this->changes()) return;
  for (auto part = first_behind(first); part != ends_.end() && part->first < end;) {
    const std::uint64_t part_end = part->second;
    if (part_end > end) {
      try {
        ends_.emplace(end, part_end);
      } catch (const std::bad_alloc&) {
        return;  // too much is copied, which is no harm
      }
    }
    if (part->first < first) {
      ends_[part->first] = first;
      ++part;
    } else {
      part = ends_.erase(part);
    }
  }
  changes_.fetch_add(1, std::memory_order_seq_cst);
}

bool PrivatePages::touches(std::uint64_t first, std::uint64_t end) const noexcept {
  return bytes(first, end) != 0;
}

std::uint64_t PrivatePages::bytes(std::uint64_t first, std::uint64_t end) const noexcept {
  if (changes() == 0) return 0;
  const std::lock_guard lock(mutex_);
  std::uint64_t sum = 0;
  for (auto part = first_behind(first); part != ends_.end() && part->first < end; ++part) {
    sum += std::min(part->second, end) - std::max(part->first, first);
  }
  return sum;
}

}  // namespace simm::detail
