// NamespaceRecord: a namespace that the process has opened. Lives as long as the process, so a
// Namespace handle is a plain pointer to it.
// Thread: any; the wire word is set by the thread that attaches or opens.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "simm/batch.h"

namespace simm::detail {

class Core;

// How a namespace was opened. One name that is opened in two ways is two records.
struct NamespaceKind {
  bool exact_size = false;
  bool shared = false;
  bool immutable = false;

  bool operator==(const NamespaceKind&) const = default;
};

struct NamespaceRecord {
  NamespaceRecord(Core* owner, std::string text, const NamespaceKind& how)
      : core(owner), name(std::move(text)), kind(how) {}

  Core* const core;
  const std::string name;
  const NamespaceKind kind;
  // session generation << 32 | known << 16 | id
  std::atomic<std::uint64_t> wire{0};

  void set_id(std::uint32_t session_generation, std::uint16_t id) noexcept {
    wire.store(std::uint64_t{session_generation} << 32 | 1u << 16 | id, std::memory_order_release);
  }
  // False when the session of that generation does not know the namespace.
  [[nodiscard]] bool id(std::uint32_t session_generation, std::uint16_t& out) const noexcept {
    const std::uint64_t word = wire.load(std::memory_order_acquire);
    out = static_cast<std::uint16_t>(word);
    return static_cast<std::uint32_t>(word >> 32) == session_generation && (word >> 16 & 1) != 0;
  }
};

}  // namespace simm::detail
