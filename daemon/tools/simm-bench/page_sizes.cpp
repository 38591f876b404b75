#include "daemon/tools/simm-bench/page_sizes.h"

#include <algorithm>

#include "simm/check.h"

namespace simm::bench {
namespace {

constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kMiB = 1024 * kKiB;

Lengths only(std::uint64_t bytes) {
  return {bytes, bytes};
}

}  // namespace

std::uint64_t PageSizes::next(base::SeededRandom& random) const {
  const Lengths& range = ranges[random.below(ranges.size())];
  return range.least + random.below(range.most - range.least + 1);
}

std::uint64_t PageSizes::least() const noexcept {
  std::uint64_t found = ranges.front().least;
  for (const Lengths& range : ranges) found = std::min(found, range.least);
  return found;
}

std::uint64_t PageSizes::most() const noexcept {
  std::uint64_t found = 0;
  for (const Lengths& range : ranges) found = std::max(found, range.most);
  return found;
}

std::vector<PageSizes> known_page_sizes() {
  const std::vector<PageSizes> models = {
      {"deepseek_mla", {only(4'497'408)}},
      {"dsa_fp8", {only(2'561'024)}},
      {"dsa_indexer", {only(515'328)}},
      {"llama_8b", {only(4'194'304)}},
      {"llama_70b_tp8", {only(1'310'720)}},
      {"qwen3_235b_tp8", {only(1'540'096)}},
      {"mamba_72m", {only(72 * kMiB)}},
      {"mamba_36m", {only(36 * kMiB)}},
      {"mamba_18m", {only(18 * kMiB)}},
      {"mamba_1740k", {only(1740 * kKiB + 819)}},
      {"mamba_430k", {only(430 * kKiB + 82)}},
      {"page_of_1_token_20k", {only(20 * kKiB)}},
      {"page_of_1_token_160k", {only(160 * kKiB)}},
  };
  std::vector<PageSizes> all = models;
  PageSizes mixed{"mixed", {{20 * kKiB, 160 * kKiB}}};
  for (const PageSizes& model : models) {
    if (model.least() > 160 * kKiB) mixed.ranges.push_back(model.ranges[0]);
  }
  all.push_back({"dsa_both", {only(2'561'024), only(515'328)}});
  all.push_back({"page_of_1_token_any", {{20 * kKiB, 160 * kKiB}}});
  all.push_back(mixed);
  all.push_back({"uniform_4k_8m", {{4 * kKiB, 8 * kMiB}}});
  return all;
}

PageSizes page_sizes_named(const std::string& name) {
  const std::vector<PageSizes> all = known_page_sizes();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const PageSizes& one) { return one.name == name; });
  SIMM_CHECK(found != all.end());
  return *found;
}

}  // namespace simm::bench
