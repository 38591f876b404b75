#include <doctest/doctest.h>

#include <vector>

#include "daemon/base/intrusive_list.h"

namespace containers_test {

using namespace simm::base;

struct TagA {};
struct TagB {};
struct Item : ListLink<TagA>, ListLink<TagB> {
  explicit Item(int v) : value(v) {}
  int value;
};

template <typename List>
std::vector<int> values(List& list) {
  std::vector<int> all;
  for (Item* at = list.front(); at != nullptr; at = list.next(*at)) all.push_back(at->value);
  return all;
}

TEST_CASE("an element is on several lists at once and leaves each from anywhere") {
  Item one(1), two(2), three(3);
  IntrusiveList<Item, TagA> a;
  IntrusiveList<Item, TagB> b;
  for (Item* item : {&one, &two, &three}) {
    a.push_back(*item);
    b.push_front(*item);
  }
  CHECK(values(a) == std::vector<int>{1, 2, 3});
  CHECK(values(b) == std::vector<int>{3, 2, 1});
  a.remove(two);
  CHECK(values(a) == std::vector<int>{1, 3});
  CHECK(values(b) == std::vector<int>{3, 2, 1});
  a.move_to_back(one);
  CHECK(values(a) == std::vector<int>{3, 1});
  CHECK(a.back() == &one);
  CHECK(a.previous(one) == &three);
  CHECK(a.previous(three) == nullptr);
  CHECK(a.pop_front() == &three);
  CHECK(a.pop_front() == &one);
  CHECK(a.pop_front() == nullptr);
  CHECK(a.empty());
}

TEST_CASE("splicing moves all elements behind ours and leaves the other list usable") {
  Item one(1), two(2), three(3);
  IntrusiveList<Item, TagA> a, b;
  a.push_back(one);
  b.push_back(two);
  b.push_back(three);
  a.splice_back(b);
  CHECK(values(a) == std::vector<int>{1, 2, 3});
  CHECK(b.empty());
  a.splice_back(b);
  CHECK(values(a) == std::vector<int>{1, 2, 3});
  a.remove(two);
  b.push_back(two);
  CHECK(values(b) == std::vector<int>{2});
}

}  // namespace containers_test
