// Table<T>: objects by number in address space mapped ahead. Nothing is allocated after set-up; a
// page costs memory when it is first used. Numbers start at 1; 0 (kNone) means none, so zeroed
// memory is a valid state of everything that refers to a Table. Released numbers are used again,
// newest first.
//
// IndexList: a circular doubly linked list through a Link member of the objects of one Table. A
// list is 4 bytes, an object that is on no list has a zeroed link. O(1) everywhere, no pointers, so
// the metadata could live in a file.
//
// Thread: the agent that owns the table.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "daemon/store/space/table_backing.h"
#include "simm/check.h"

namespace simm::store {

inline constexpr std::uint32_t kNone = 0;

template <typename T>
class Table {
  static_assert(std::is_trivially_copyable_v<T>);
  static_assert(sizeof(T) >= sizeof(std::uint32_t));

public:
  static constexpr std::uint64_t bytes_for(std::uint32_t capacity) {
    return (std::uint64_t{capacity} + 1) * sizeof(T);
  }

  Table() = default;
  // `memory`: bytes_for(capacity) zeroed bytes, aligned for T, that outlive the table.
  Table(void* memory, std::uint32_t capacity)
      : objects_(static_cast<T*>(memory)), capacity_(capacity) {}

  // A zeroed object; kNone when all are in use.
  [[nodiscard]] std::uint32_t allocate() noexcept {
    std::uint32_t number = free_;
    if (number != kNone) {
      std::memcpy(&free_, &objects_[number], sizeof free_);
    } else {
      if (fresh_ == capacity_) return kNone;
      number = ++fresh_;
    }
    std::memset(static_cast<void*>(&objects_[number]), 0, sizeof(T));
    ++used_;
    return number;
  }

  void release(std::uint32_t number) noexcept {
    SIMM_CHECK(number != kNone && number <= fresh_);
    std::memset(static_cast<void*>(&objects_[number]), 0, sizeof(T));
    std::memcpy(static_cast<void*>(&objects_[number]), &free_, sizeof free_);
    free_ = number;
    --used_;
  }

  // From now on a page is touched for the first time only when `backing`, which outlives the table,
  // allows it.
  void grow_with(TableBacking& backing) noexcept { backing_ = &backing; }

  // To be asked before allocate() of a table with a backing. False: memory was refused, and
  // allocate() must not be called before something was released.
  [[nodiscard]] bool grow() noexcept {
    if (backing_ == nullptr || free_ != kNone || fresh_ == capacity_) return true;
    const std::uint64_t end = bytes_for(fresh_ + 1);
    if (end <= backed_bytes_) return true;
    // What was handed out before this life is there.
    const std::uint64_t from = std::max(backed_bytes_, end - sizeof(T));
    // SAFETY: from < end, which is at most bytes_for(capacity_).
    const std::size_t more =
        backing_->back(reinterpret_cast<const std::byte*>(objects_) + from, end - from);
    if (more == 0) return false;
    backed_bytes_ = from + more;
    return true;
  }

  // The memory holds objects of an earlier life. Numbers up to `highest`, which is at most
  // capacity(), are in use until they are released.
  void adopt(std::uint32_t highest) noexcept {
    SIMM_CHECK(fresh_ == 0 && highest <= capacity_);
    fresh_ = used_ = highest;
  }

  // SAFETY: numbers come from allocate() of this table and from nowhere else.
  T& operator[](std::uint32_t number) noexcept { return objects_[number]; }
  const T& operator[](std::uint32_t number) const noexcept { return objects_[number]; }

  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::uint32_t used() const noexcept { return used_; }
  [[nodiscard]] bool full() const noexcept { return used_ == capacity_; }
  // Numbers above this were never handed out.
  [[nodiscard]] std::uint32_t highest() const noexcept { return fresh_; }

private:
  T* objects_ = nullptr;
  std::uint32_t capacity_ = 0;
  std::uint32_t fresh_ = 0;  // numbers 1 .. fresh_ have been handed out at least once
  std::uint32_t free_ = kNone;
  std::uint32_t used_ = 0;
  TableBacking* backing_ = nullptr;  // null: all of the memory may be touched
  std::uint64_t backed_bytes_ = 0;
};

struct Link {
  std::uint32_t previous = kNone;
  std::uint32_t next = kNone;
};

template <typename T, Link T::*kLink>
class IndexList {
public:
  [[nodiscard]] bool empty() const noexcept { return front_ == kNone; }
  [[nodiscard]] std::uint32_t front() const noexcept { return front_; }
  [[nodiscard]] std::uint32_t back(const Table<T>& table) const noexcept {
    return empty() ? kNone : (table[front_].*kLink).previous;
  }
  // The element behind `number`, kNone at the end.
  [[nodiscard]] std::uint32_t next(const Table<T>& table, std::uint32_t number) const noexcept {
    const std::uint32_t after = (table[number].*kLink).next;
    return after == front_ ? kNone : after;
  }

  void push_back(Table<T>& table, std::uint32_t number) noexcept {
    Link& link = table[number].*kLink;
    SIMM_CHECK(link.next == kNone);
    if (empty()) {
      link = {number, number};
      front_ = number;
      return;
    }
    const std::uint32_t last = (table[front_].*kLink).previous;
    link = {last, front_};
    (table[last].*kLink).next = number;
    (table[front_].*kLink).previous = number;
  }

  void push_front(Table<T>& table, std::uint32_t number) noexcept {
    push_back(table, number);
    front_ = number;
  }

  // Puts `number` behind `place`, which is on this list.
  void insert_after(Table<T>& table, std::uint32_t place, std::uint32_t number) noexcept {
    Link& link = table[number].*kLink;
    SIMM_CHECK(link.next == kNone);
    const std::uint32_t after = (table[place].*kLink).next;
    link = {place, after};
    (table[place].*kLink).next = number;
    (table[after].*kLink).previous = number;
  }

  void remove(Table<T>& table, std::uint32_t number) noexcept {
    Link& link = table[number].*kLink;
    SIMM_CHECK(link.next != kNone);
    if (link.next == number) {
      front_ = kNone;
    } else {
      (table[link.previous].*kLink).next = link.next;
      (table[link.next].*kLink).previous = link.previous;
      if (front_ == number) front_ = link.next;
    }
    link = {};
  }

  void move_to_back(Table<T>& table, std::uint32_t number) noexcept {
    if (back(table) == number) return;
    remove(table, number);
    push_back(table, number);
  }

private:
  std::uint32_t front_ = kNone;
};

}  // namespace simm::store
