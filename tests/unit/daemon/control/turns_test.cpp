#include "daemon/control/turns.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>

#include "daemon/base/manual_clock.h"

namespace turns_test {

using namespace simm;
using control::Turns;

struct Rig {
  // Runs what is ready, and what becomes ready meanwhile.
  void run() {
    io.restart();
    io.poll();
  }

  boost::asio::io_context io{1};
  base::ManualClock clock;
  std::unique_ptr<Turns> turns = std::make_unique<Turns>(io, clock);
  std::shared_ptr<bool> whose = std::make_shared<bool>(true);
};

TEST_CASE("turns: between calls of a hundred others the loop looks at everybody else") {
  Rig rig;
  constexpr base::TimeNs kCallNs = Turns::kTurnNs / 5;
  int calls = 0;
  for (int i = 0; i < 100; ++i) {
    rig.turns->take(rig.whose, [&] {
      ++calls;
      rig.clock.advance_ns(kCallNs);
    });
  }
  CHECK(calls == 0);
  // Somebody else, again and again: never more than a turn's calls stand before it.
  int most = 0;
  int looks = 0;
  std::function<void(int)> look = [&](int before) {
    most = std::max(most, calls - before);
    ++looks;
    if (calls < 100) boost::asio::post(rig.io, [&, now = calls] { look(now); });
  };
  look(0);
  rig.run();
  CHECK(calls == 100);
  CHECK(most <= 5);
  CHECK(looks >= 20);
}

TEST_CASE("turns: in their order, and none for who has ended") {
  Rig rig;
  std::string said;
  auto gone = std::make_shared<bool>(true);
  rig.turns->take(rig.whose, [&] { said += "a"; });
  rig.turns->take(gone, [&] { said += "b"; });
  rig.turns->take(rig.whose, [&] {
    said += "c";
    rig.turns->take(rig.whose, [&] { said += "e"; });
  });
  rig.turns->take(rig.whose, [&] { said += "d"; });
  gone.reset();
  rig.run();
  CHECK(said == "acde");
  CHECK(rig.turns->waiting() == 0);
}

TEST_CASE("turns: who is urgent comes before those that wait already") {
  Rig rig;
  std::string said;
  rig.turns->take(rig.whose, [&] {
    said += "a";
    rig.turns->take(
        rig.whose, [&] { said += "d"; }, true);
  });
  rig.turns->take(rig.whose, [&] { said += "e"; });
  rig.turns->take(
      rig.whose, [&] { said += "b"; }, true);
  rig.turns->take(
      rig.whose, [&] { said += "c"; }, true);
  rig.run();
  CHECK(said == "bcade");
}

TEST_CASE("turns: whoever gives them may end in one of them") {
  Rig rig;
  int calls = 0;
  for (int i = 0; i < 3; ++i) {
    rig.turns->take(rig.whose, [&] {
      ++calls;
      rig.turns.reset();
    });
  }
  rig.run();
  CHECK(calls == 1);
}

}  // namespace turns_test
