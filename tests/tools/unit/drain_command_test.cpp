// How long a drain may take, as a person writes it.
#include "daemon/tools/simmctl/drain_command.h"

#include <doctest/doctest.h>

TEST_CASE("a duration is a number and a unit, seconds without one") {
  using simm::ctl::duration_ms;
  CHECK(duration_ms("90") == 90'000U);
  CHECK(duration_ms("90s") == 90'000U);
  CHECK(duration_ms("500ms") == 500U);
  CHECK(duration_ms("10m") == 600'000U);
  CHECK(duration_ms("24h") == 86'400'000U);
  for (const char* wrong : {"", "0", "0s", "s", "-1", "1.5s", "90 s", "90sec", "25h", "1441m",
                            "99999999999999999999", "86400001ms"}) {
    CHECK_FALSE(duration_ms(wrong).has_value());
  }
}
