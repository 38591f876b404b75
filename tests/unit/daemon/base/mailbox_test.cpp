#include "daemon/base/mailbox.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <thread>

namespace mailbox_test {

using namespace simm::base;

TEST_CASE("an SPSC mailbox is bounded, in order, and reusable after it was full") {
  SpscMailbox<int> mailbox(4);
  int got = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) CHECK(mailbox.try_push(round * 10 + i));
    CHECK_FALSE(mailbox.try_push(99));
    for (int i = 0; i < 4; ++i) {
      CHECK_FALSE(mailbox.empty());
      REQUIRE(mailbox.try_pop(got));
      CHECK(got == round * 10 + i);
    }
    CHECK(mailbox.empty());
    CHECK_FALSE(mailbox.try_pop(got));
  }
}

struct Message {
  std::uint64_t sender = 0;
  std::uint64_t number = 0;
  std::uint64_t check = 0;  // shows a torn message
};

TEST_CASE("an SPSC mailbox loses, tears and reorders nothing between two threads") {
  constexpr std::uint64_t kMessages = 200'000;
  SpscMailbox<Message> mailbox(64);
  std::thread sender([&] {
    for (std::uint64_t i = 0; i < kMessages; ++i) {
      while (!mailbox.try_push({1, i, i * 3})) std::this_thread::yield();
    }
  });
  std::uint64_t wrong = 0;
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    Message got;
    while (!mailbox.try_pop(got)) std::this_thread::yield();
    wrong += got.number != i || got.check != i * 3;
  }
  sender.join();
  CHECK(wrong == 0);
  CHECK(mailbox.empty());
}

}  // namespace mailbox_test
