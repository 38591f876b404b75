#include "daemon/base/choice.h"

#include <doctest/doctest.h>

#include "daemon/base/choices.h"

namespace simm::base {

TEST_CASE("a choice is found by its name, and a name by its choice") {
  CHECK(find_choice("off|try|require", "try") == 1u);
  CHECK(find_choice("off|try|require", "require") == 2u);
  CHECK_FALSE(find_choice("off|try|require", "tr").has_value());
  CHECK_FALSE(find_choice("off|try|require", "off|try").has_value());
  CHECK_FALSE(find_choice("off|try|require", "").has_value());
  CHECK(choice_name(kRdmaNames, RdmaMode::require) == "require");
  CHECK(choice_name(kRoleNames, Role::all) == "all");
  CHECK(choice_list("off|try") == std::vector<std::string>{"off", "try"});
  CHECK(all_choices<HugepageMode>("off|try") ==
        std::vector<HugepageMode>{HugepageMode::off, HugepageMode::try_});
}

TEST_CASE("each enum of a choice ends where its names end") {
  CHECK(choice_name(kRoleNames, Role::adopt) == "adopt");
  CHECK(choice_list(kRoleNames).size() == static_cast<std::size_t>(Role::adopt) + 1);
  CHECK(choice_name(kEvictionNames, EvictionKind::fifo) == "fifo");
  CHECK(choice_name(kVerifyNames, VerifyMode::always) == "always");
  CHECK(choice_name(kHugepageNames, HugepageMode::require) == "require");
  CHECK(choice_name(kRestartNames, RestartMode::require) == "require");
  CHECK(choice_name(kRdmaNames, RdmaMode::automatic) == "auto");
}

}  // namespace simm::base
