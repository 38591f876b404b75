#include "daemon/tools/simm-bench/result.h"

#include <doctest/doctest.h>

#include <cstdlib>

namespace simm::bench::result_test {

std::string printed(const Result& result, bool json) {
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* out = open_memstream(&text, &bytes);
  ResultPrinter(out, json).print(result);
  std::fclose(out);
  std::string copy(text, bytes);
  std::free(text);
  return copy;
}

TEST_CASE("a JSON line has every field, and ratio is value / baseline") {
  const Result result{"kv.get_bw", 4e9, "B/s", 5e9, {{"page_bytes", 1310720}}, false};
  const std::string text = printed(result, true);
  CHECK(text.back() == '\n');
  CHECK(text.find('\n') == text.size() - 1);
  const nlohmann::json line = nlohmann::json::parse(text);
  CHECK(line.size() == 7);
  CHECK(line["name"] == "kv.get_bw");
  CHECK(line["value"] == 4e9);
  CHECK(line["unit"] == "B/s");
  CHECK(line["baseline"] == 5e9);
  CHECK(line["ratio"].get<double>() == doctest::Approx(0.8));
  CHECK(line["params"]["page_bytes"] == 1310720);
  CHECK(line["noisy"] == false);
}

TEST_CASE("without a baseline, or with one of zero, baseline or ratio is null") {
  Result result{"kv.exists_128", 12, "us", std::nullopt, nlohmann::json::object(), true};
  nlohmann::json line = nlohmann::json::parse(printed(result, true));
  CHECK(line["baseline"].is_null());
  CHECK(line["ratio"].is_null());
  CHECK(line["noisy"] == true);
  result.baseline = 0;
  line = nlohmann::json::parse(printed(result, true));
  CHECK(line["baseline"] == 0);
  CHECK(line["ratio"].is_null());
}

TEST_CASE("the table says when the machine was too noisy") {
  const Result quiet{"a", 1, "us", 2, nlohmann::json::object(), false};
  Result noisy = quiet;
  noisy.noisy = true;
  CHECK(printed(quiet, false).find("too noisy") == std::string::npos);
  CHECK(printed(noisy, false).find("too noisy") != std::string::npos);
  CHECK(printed(quiet, false).find("0.5") != std::string::npos);
}

TEST_CASE("the table leaves the values of a series out, JSON has them") {
  const Result result{"a", 1, "1", std::nullopt, {{"to", "b"}, {"line", {0.125, 0.25}}}, false};
  CHECK(printed(result, false).find("0.125") == std::string::npos);
  CHECK(printed(result, false).find("\"to\":\"b\"") != std::string::npos);
  CHECK(nlohmann::json::parse(printed(result, true))["params"]["line"][0] == 0.125);
}

TEST_CASE("the median of odd, even and no values") {
  CHECK(median_of({3, 1, 2}) == 2);
  CHECK(median_of({4, 1, 2, 3}) == 2.5);
  CHECK(median_of({}) == 0);
}

}  // namespace simm::bench::result_test
