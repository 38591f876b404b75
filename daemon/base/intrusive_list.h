// IntrusiveList: a doubly linked list through its elements: O(1) insert and removal from anywhere,
// no allocation. An element derives from ListLink<Tag>, one base (and Tag) per list it can be on.
// Elements must outlive their membership; a list must be empty of live elements when it dies.
// Thread: the agent that owns the list.
#pragma once

#include <cstddef>

#include "simm/check.h"

namespace simm::base {

template <typename Tag>
class ListLink {
public:
  ListLink() noexcept = default;
  // A copy of an element is on no list: links belong to the object, not to its value.
  ListLink(const ListLink&) noexcept {}
  ListLink& operator=(const ListLink&) noexcept { return *this; }  // NOLINT(bugprone-unhandled*)

  [[nodiscard]] bool linked() const noexcept { return next_ != nullptr; }

  // Takes the element off whatever list it is on; nothing happens when it is on none.
  void unlink() noexcept {
    if (next_ == nullptr) return;
    previous_->next_ = next_;
    next_->previous_ = previous_;
    previous_ = next_ = nullptr;
  }

private:
  template <typename T, typename ListTag>
  friend class IntrusiveList;
  ListLink* previous_ = nullptr;
  ListLink* next_ = nullptr;
};

template <typename T, typename Tag>
class IntrusiveList {
  using Link = ListLink<Tag>;

public:
  IntrusiveList() noexcept { reset(); }
  IntrusiveList(const IntrusiveList&) = delete;
  IntrusiveList& operator=(const IntrusiveList&) = delete;
  ~IntrusiveList() {
    while (pop_front() != nullptr) {
    }
  }

  [[nodiscard]] bool empty() const noexcept { return end_.next_ == &end_; }

  // The first (last) element, null when the list is empty.
  [[nodiscard]] T* front() noexcept { return empty() ? nullptr : element(end_.next_); }
  [[nodiscard]] const T* front() const noexcept { return empty() ? nullptr : element(end_.next_); }
  [[nodiscard]] T* back() noexcept { return empty() ? nullptr : element(end_.previous_); }
  // The element behind (before) one that is on this list, null at the end.
  [[nodiscard]] T* next(T& of) noexcept { return element_or_null(link(of).next_); }
  [[nodiscard]] T* previous(T& of) noexcept { return element_or_null(link(of).previous_); }

  // The element must be on no list with this Tag.
  void push_back(T& added) noexcept { insert_before(end_, link(added)); }
  void push_front(T& added) noexcept { insert_before(*end_.next_, link(added)); }

  T* pop_front() noexcept {
    T* first = front();
    if (first != nullptr) link(*first).unlink();
    return first;
  }

  void remove(T& element_on_list) noexcept { link(element_on_list).unlink(); }
  void move_to_back(T& element_on_list) noexcept {
    remove(element_on_list);
    push_back(element_on_list);
  }

  // Moves all elements of `other` behind ours.
  void splice_back(IntrusiveList& other) noexcept {
    if (other.empty()) return;
    end_.previous_->next_ = other.end_.next_;
    other.end_.next_->previous_ = end_.previous_;
    end_.previous_ = other.end_.previous_;
    end_.previous_->next_ = &end_;
    other.reset();
  }

private:
  void reset() noexcept { end_.previous_ = end_.next_ = &end_; }
  static Link& link(T& of) noexcept { return static_cast<Link&>(of); }
  // SAFETY: every link but end_ was put in by push_*, which takes a T.
  static T* element(Link* of) noexcept { return static_cast<T*>(of); }
  T* element_or_null(Link* of) noexcept { return of == &end_ ? nullptr : element(of); }

  static void insert_before(Link& place, Link& added) noexcept {
    SIMM_CHECK(!added.linked());
    added.previous_ = place.previous_;
    added.next_ = &place;
    place.previous_->next_ = &added;
    place.previous_ = &added;
  }

  Link end_;  // the sentinel: both ends point at it
};

}  // namespace simm::base
