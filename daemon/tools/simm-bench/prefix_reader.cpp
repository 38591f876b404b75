#include "daemon/tools/simm-bench/prefix_reader.h"

#include <algorithm>

#include "daemon/tools/simm-bench/page_pattern.h"
#include "daemon/tools/simm-bench/workload_model.h"

namespace simm::bench {
namespace {

constexpr std::size_t kObjectsPerBlock = 2;

}  // namespace

Expected<PrefixReader> PrefixReader::connect(const std::string& socket_path, Reading reading) {
  ClientOptions client_options;
  client_options.socket_path = socket_path;
  Expected<Client> client = Client::connect(client_options);
  if (!client) return client.error();
  Expected<Region> region = client->allocate_region(kBlocksPerCall * kBlockBytes);
  if (!region) return region.error();
  const char* const name = "prefix-reader";
  Expected<Namespace> name_space = reading == Reading::plain
                                       ? client->open_namespace(name)
                                       : client->open_immutable_namespace(name);
  if (!name_space) return name_space.error();
  return PrefixReader(std::move(*client), std::move(*region), std::move(*name_space), reading);
}

PrefixReader::PrefixReader(Client client, Region region, Namespace name_space, Reading reading)
    : client_(std::make_unique<Client>(std::move(client))),
      region_(std::make_unique<Region>(std::move(region))),
      results_(kBlocksPerCall * kObjectsPerBlock) {
  options_.name_space = std::move(name_space);
  options_.mode = PutMode::if_absent;
  options_.exact_size = true;
  options_.shared = reading == Reading::shared;
  options_.timeout_ms = 30'000;  // a shared machine may stall for seconds
}

void PrefixReader::name(std::span<const std::uint64_t> blocks, std::size_t depth) {
  keys_.clear();
  names_.clear();
  items_.clear();
  for (const std::uint64_t block : blocks) append_page_keys(kLlama70b, block, 0, 0, keys_);
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    names_.emplace_back(keys_[i]);
    items_.push_back(Item{keys_[i], View(*region_, i * kObjectBytes, kObjectBytes), 0,
                          static_cast<std::uint32_t>(depth + i / kObjectsPerBlock + 1)});
  }
}

std::uint64_t PrefixReader::leading_blocks() {
  const std::span<PageResult> all = results();
  const auto missing =
      std::find_if(all.begin(), all.end(), [](const PageResult& result) { return !result.ok(); });
  return static_cast<std::uint64_t>(missing - all.begin()) / kObjectsPerBlock;
}

Error PrefixReader::failed(const char* what, Status status) const {
  return Error{status, std::string(what) + " of " + std::to_string(keys_.size()) + " objects: " +
                           std::string(status_name(status)) + ": " + simm::last_error()};
}

// What the next get does not write must not look right.
Outcome PrefixReader::verify() {
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    std::byte* const at = region_->data() + i * kObjectBytes;
    const bool is_right =
        results_[i].bytes == kObjectBytes && count_wrong_bytes(keys_[i], at, kObjectBytes) == 0;
    if (results_[i].ok() && !is_right) return Error{Status::corrupt, keys_[i] + ": wrong bytes"};
    std::fill_n(at, kObjectBytes, std::byte{0xdb});
  }
  return Done{};
}

Expected<std::uint64_t> PrefixReader::get(std::span<const std::uint64_t> blocks) {
  name(blocks, 0);
  const Status status = client_->get(items_, results(), options_);
  if (status != Status::ok) return failed("get", status);
  const Outcome verified = verify();
  if (!verified) return verified.error();
  std::uint64_t there = 0;
  for (std::size_t i = 0; i + 1 < keys_.size(); i += kObjectsPerBlock) {
    there += results_[i].ok() && results_[i + 1].ok() ? 1u : 0u;
  }
  return there;
}

Outcome PrefixReader::serve(const TraceRequest& request) {
  const std::span<const std::uint64_t> blocks(request.block_ids);
  counts_.blocks += blocks.size();
  std::size_t prefix = 0;
  for (bool goes_on = true; goes_on && prefix < blocks.size();) {
    const auto part = blocks.subspan(prefix, std::min(kBlocksPerCall, blocks.size() - prefix));
    name(part, prefix);
    Status status = client_->exists(names_, results(), options_);
    if (status != Status::ok) return failed("exists", status);
    std::uint64_t there = leading_blocks();
    goes_on = there == part.size();
    if (there == 0) break;
    name(part.first(there), prefix);
    status = client_->get(items_, results(), options_);
    if (status != Status::ok) return failed("get", status);
    const std::uint64_t got = leading_blocks();
    goes_on = goes_on && got == there;
    const Outcome verified = verify();
    if (!verified) return verified;
    prefix += got;
  }
  counts_.hit += prefix;
  for (std::size_t first = prefix; first < blocks.size(); first += kBlocksPerCall) {
    name(blocks.subspan(first, std::min(kBlocksPerCall, blocks.size() - first)), first);
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      fill_page(keys_[i], region_->data() + i * kObjectBytes, kObjectBytes);
    }
    const Status status = client_->put(items_, results(), options_);
    if (status != Status::ok) return failed("put", status);
    for (const PageResult& result : results()) counts_.failed_puts += result.ok() ? 0u : 1u;
  }
  return Done{};
}

}  // namespace simm::bench
