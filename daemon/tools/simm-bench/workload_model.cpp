#include "daemon/tools/simm-bench/workload_model.h"

#include <xxhash.h>

#include <cstdio>

namespace simm::bench {
namespace {

// As long as the SHA-256 that engines use, and as evenly spread; its other virtues are not needed.
std::string page_digest(std::uint64_t block, std::uint64_t page) {
  const std::uint64_t words[2] = {block, page};
  const XXH128_hash_t front = XXH3_128bits_withSeed(words, sizeof words, 1);
  const XXH128_hash_t back = XXH3_128bits_withSeed(words, sizeof words, 2);
  char text[65];
  std::snprintf(
      text, sizeof text, "%016llx%016llx%016llx%016llx",
      static_cast<unsigned long long>(front.high64), static_cast<unsigned long long>(front.low64),
      static_cast<unsigned long long>(back.high64), static_cast<unsigned long long>(back.low64));
  return text;
}

}  // namespace

Expected<std::vector<WorkloadModel>> models_named(const std::string& name) {
  if (name == kDeepSeekR1.name) return std::vector<WorkloadModel>{kDeepSeekR1};
  if (name == kLlama70b.name) return std::vector<WorkloadModel>{kLlama70b};
  if (name == "both") return std::vector<WorkloadModel>{kDeepSeekR1, kLlama70b};
  return Error{Status::invalid_argument,
               "--model '" + name + "': use deepseek-r1, llama-70b or both"};
}

void append_page_keys(const WorkloadModel& model, std::uint64_t block, std::uint64_t page,
                      unsigned rank, std::vector<std::string>& keys) {
  const std::string digest = page_digest(block, page);
  if (model.is_mla()) {
    keys.push_back(digest + "__k");
    return;
  }
  const std::string prefix = digest + "_" + std::to_string(rank);
  keys.push_back(prefix + "_k");
  keys.push_back(prefix + "_v");
}

}  // namespace simm::bench
