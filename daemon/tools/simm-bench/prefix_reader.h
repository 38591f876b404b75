// PrefixReader: a client that does for a request of a trace what an engine does with its cache: it
// looks for the longest prefix of blocks that are there, gets that, and puts the rest. A block is
// two objects, K and V, of a namespace of the reader's own. Every byte that comes is compared.
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/tools/simm-bench/trace.h"
#include "simm/client.h"
#include "simm/expected.h"

namespace simm::bench {

// How it reads, and what it says of its namespace.
enum class Reading : std::uint8_t {
  plain,
  immutable,
  shared,  // with other processes of the node, of an immutable namespace
};

class PrefixReader {
public:
  static constexpr std::uint64_t kObjectBytes = 16 * 1024;
  static constexpr std::uint64_t kBlockBytes = 2 * kObjectBytes;
  static constexpr std::size_t kBlocksPerCall = 64;

  struct Counts {
    std::uint64_t blocks = 0;
    std::uint64_t hit = 0;
    std::uint64_t failed_puts = 0;  // objects
  };

  static Expected<PrefixReader> connect(const std::string& socket_path, Reading reading);

  Outcome serve(const TraceRequest& request);
  // Blocks that are got together, whatever request they are of; how many are there.
  Expected<std::uint64_t> get(std::span<const std::uint64_t> blocks);

  [[nodiscard]] const Counts& counts() const noexcept { return counts_; }

private:
  PrefixReader(Client client, Region region, Namespace name_space, Reading reading);
  // Blocks [first, first + count) of the list, the depth of the first.
  void name(std::span<const std::uint64_t> blocks, std::size_t depth);
  [[nodiscard]] std::span<PageResult> results() { return std::span(results_).first(keys_.size()); }
  [[nodiscard]] std::uint64_t leading_blocks();
  [[nodiscard]] Error failed(const char* what, Status status) const;
  Outcome verify();

  std::unique_ptr<Client> client_;
  std::unique_ptr<Region> region_;
  CallOptions options_;
  std::vector<std::string> keys_;
  std::vector<std::string_view> names_;
  std::vector<Item> items_;
  std::vector<PageResult> results_;
  Counts counts_;
};

}  // namespace simm::bench
