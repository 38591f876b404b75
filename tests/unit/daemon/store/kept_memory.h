// KeptMemory: the two memories of one shard, which outlive the stores that are made of them, as a
// file does. Tests open a store on the memory itself, or on a copy of it as it is at an instant.
#pragma once

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

#include "daemon/store/store.h"

namespace simm::store::testing {

class KeptMemory {
public:
  KeptMemory(const StoreConfig& config, std::uint64_t payload_bytes)
      : config_(config),
        payload_bytes_(payload_bytes),
        table_bytes_(Store::table_bytes_for(config, payload_bytes)) {
    // Shared, so that a child process may be the one that writes it.
    void* mapped = ::mmap(nullptr, table_bytes_ + payload_bytes_, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    memory_ = static_cast<std::byte*>(mapped);
  }
  ~KeptMemory() { ::munmap(memory_, table_bytes_ + payload_bytes_); }
  KeptMemory(const KeptMemory&) = delete;
  KeptMemory& operator=(const KeptMemory&) = delete;

  [[nodiscard]] std::span<std::byte> table() const { return {memory_, table_bytes_}; }
  [[nodiscard]] std::span<std::byte> payload() const {
    return {memory_ + table_bytes_, payload_bytes_};
  }
  [[nodiscard]] Record& record(std::uint32_t number) const {
    return *reinterpret_cast<Record*>(memory_ + 4096 + number * sizeof(Record));
  }
  [[nodiscard]] MetaTable::Header& header() const {
    return *reinterpret_cast<MetaTable::Header*>(memory_);
  }
  [[nodiscard]] const StoreConfig& config() const { return config_; }

  [[nodiscard]] ShardMemory as(Contents contents, base::TimeNs now_ns = 1000 * base::kNsPerSecond,
                               std::uint64_t boot = 1) const {
    return {payload(), table(), contents, boot, now_ns};
  }
  // A store on this memory, which proves its books.
  [[nodiscard]] std::unique_ptr<Store> open(const ShardMemory& memory) const {
    auto made = Store::create(config_, memory);
    REQUIRE_MESSAGE(made.has_value(), (made ? "" : made.error().context));
    const char* wrong = (*made)->audit();
    REQUIRE_MESSAGE(wrong == nullptr, (wrong == nullptr ? "" : wrong));
    return std::move(made).value();
  }
  [[nodiscard]] std::unique_ptr<Store> open(Contents contents) const { return open(as(contents)); }

  void copy_from(const KeptMemory& other) {
    std::memcpy(memory_, other.memory_, table_bytes_ + payload_bytes_);
  }

private:
  StoreConfig config_;
  std::size_t payload_bytes_;
  std::size_t table_bytes_;
  std::byte* memory_;
};

}  // namespace simm::store::testing
