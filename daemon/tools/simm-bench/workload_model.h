// The models whose KV pages are replayed: how many objects a page of 64 tokens is on one rank, how
// big they are, and what their keys look like. Sizes are bf16 and those of SGLang's HiCache pages.
// Thread: any; constants and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "simm/expected.h"

namespace simm::bench {

inline constexpr std::uint64_t kPageTokens = 64;
inline constexpr std::uint64_t kPagesPerCall = 128;  // of one batch, as HiCache sends them
inline constexpr std::uint64_t kPagesPerBlock = 8;   // of a trace's 512-token block

struct WorkloadModel {
  const char* name;
  std::uint64_t object_bytes;      // unscaled
  std::uint64_t objects_per_page;  // on one rank: 1 = MLA (latent), 2 = MHA (K and V)
  // MLA: every rank reads the same objects and rank 0 alone stores them. MHA: each rank its own.
  [[nodiscard]] bool is_mla() const noexcept { return objects_per_page == 1; }
};

inline constexpr WorkloadModel kDeepSeekR1{"deepseek-r1", 4'497'408, 1};
inline constexpr WorkloadModel kLlama70b{"llama-70b", 1'310'720, 2};

// "deepseek-r1", "llama-70b" or "both".
Expected<std::vector<WorkloadModel>> models_named(const std::string& name);

// The keys of page `page` of block `block` on `rank`, appended to `keys`: `<64 hex>__k` (MLA), or
// `<64 hex>_<rank>_k` and `<64 hex>_<rank>_v`.
void append_page_keys(const WorkloadModel& model, std::uint64_t block, std::uint64_t page,
                      unsigned rank, std::vector<std::string>& keys);

}  // namespace simm::bench
