#include "simm/error_code.h"

#include <doctest/doctest.h>

#include <cstring>
#include <ostream>
#include <set>
#include <string>

#include "simm/simm.h"

namespace error_code_test {

using simm::Status;

TEST_CASE("error code: each status has a text of its own, in C and in C++") {
  std::set<std::string> texts;
  std::size_t known = 0;
  for (std::int32_t value = -5000; value <= 0; ++value) {
    const std::string text(simm::status_text(static_cast<Status>(value)));
    CHECK(text == simm_status_text(value));
    if (!simm::is_known_status(value)) {
      CHECK(text == "unknown");
      continue;
    }
    ++known;
    CHECK(texts.insert(text).second);
    CHECK(text.find('\n') == std::string::npos);
  }
  CHECK(known == texts.size());
  CHECK(known >= 19);
  CHECK(texts.count("unknown") == 0);
  CHECK(std::strcmp(simm_status_text(1), "unknown") == 0);
}

TEST_CASE("error code: a status is a std::error_code, and compares with the portable ones") {
  const std::error_code failed = Status::timeout;
  CHECK(failed);
  CHECK(failed.value() == -1002);
  CHECK(std::string(failed.category().name()) == "simm");
  CHECK(failed.message() == simm::status_text(Status::timeout));
  CHECK(failed == std::errc::timed_out);
  CHECK(failed != std::errc::io_error);
  CHECK(failed == make_error_code(Status::timeout));
  CHECK(failed != make_error_code(Status::not_found));
  CHECK_FALSE(make_error_code(Status::ok));
  CHECK(make_error_code(Status::ok) == std::error_condition());
  // It means something else to others: only itself.
  const std::error_code missing = Status::not_found;
  CHECK(missing != std::errc::no_such_file_or_directory);
  CHECK(missing == missing.default_error_condition());
}

}  // namespace error_code_test
