#include "tests/model/handshake_model.h"

#include <doctest/doctest.h>

#include <cstdio>

namespace handshake_model_test {

using handshake_model::check;
using handshake_model::Options;
using handshake_model::Result;
using handshake_model::Variant;

Result run(Variant variant, bool store_buffers) {
  Options options;
  options.variant = variant;
  options.store_buffers = store_buffers;
  return check(options);
}

TEST_CASE("model: the handshake loses no wake-up, with and without store buffers") {
  for (const bool store_buffers : {false, true}) {
    for (std::uint8_t items = 1; items <= 5; ++items) {
      Options options;
      options.store_buffers = store_buffers;
      options.items = items;
      const Result result = check(options);
      CHECK_FALSE(result.lost_wakeup);
      // At most one wake for one announcement.
      CHECK_FALSE(result.wake_without_announcement);
      CHECK(result.states > 20u * items);
      if (items == 5) {
        std::printf("model: %llu states\n", static_cast<unsigned long long>(result.states));
      }
    }
  }
}

TEST_CASE("model: a plain announcement or publication is enough without store buffers only") {
  CHECK_FALSE(run(Variant::plain_announcement, false).lost_wakeup);
  CHECK(run(Variant::plain_announcement, true).lost_wakeup);
  CHECK_FALSE(run(Variant::plain_publication, false).lost_wakeup);
  CHECK(run(Variant::plain_publication, true).lost_wakeup);
}

TEST_CASE("model: every other step left out or moved loses a wake-up in any memory model") {
  for (const Variant variant : {Variant::no_second_look, Variant::look_before_publish,
                                Variant::sleep_on_tail, Variant::clear_after_wake}) {
    CHECK(run(variant, false).lost_wakeup);
    CHECK(run(variant, true).lost_wakeup);
  }
}

}  // namespace handshake_model_test
