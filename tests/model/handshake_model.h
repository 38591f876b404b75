// A model of one direction of the wake-up handshake, small enough to visit every state: a producer
// that publishes `items` one by one, and a consumer that sleeps whenever it finds nothing. Variants
// weaken one thing each, to show that the check would notice and why the protocol is as it is.
//
//   producer, for each item            consumer, until all items are read
//     tail = n            (*)            tail != read? take one, again
//     waiting != 0?       (*)            waiting = 1        (*)
//     exchange(waiting,0) was 1: wake    tail != read? waiting = 0, again   (*)
//                                        FUTEX_WAIT(waiting, 1), again
//
// With store buffers (total store order) a plain store is queued, in order, and reaches memory at
// any later time; a sequentially consistent store, an exchange and a system call wait until the
// queue is empty, and a load sees the own queue first.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace handshake_model {

enum class Variant : std::uint8_t {
  real,
  plain_announcement,   // consumer's waiting = 1 is a plain store
  plain_publication,    // producer's tail = n is a plain store
  no_second_look,       // consumer sleeps without looking at the tail again
  look_before_publish,  // producer looks at waiting before it publishes
  sleep_on_tail,        // FUTEX_WAIT(tail, read), as if the tail were the futex word
  clear_after_wake,     // producer wakes first and stores waiting = 0 afterwards
};

struct Options {
  Variant variant = Variant::real;
  bool store_buffers = true;
  std::uint8_t items = 3;
};

struct Result {
  std::uint64_t states = 0;
  bool lost_wakeup = false;  // a state from which nothing can happen, and not all was read
  bool wake_without_announcement = false;  // more wakes than announcements
};

// Visits every reachable state.
Result check(const Options& options);

}  // namespace handshake_model
