// NameSpaceTable: the namespaces that one session has opened, by the small id that its client puts
// into submissions. Id 0 is the tenant's default namespace. Namespaces are never closed, so an id
// that was given out stays good; any other one is a breach of the protocol.
// Thread: the session's data agent.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/base/ids.h"

namespace simm::session {

class NameSpaceTable {
public:
  // Allocates. `capacity` at least 1 (the default namespace counts).
  NameSpaceTable(std::uint32_t capacity, base::NamespaceId default_name_space)
      : capacity_(capacity), ids_(std::make_unique<base::NamespaceId[]>(capacity)) {
    ids_[0] = default_name_space;
  }

  static constexpr std::uint32_t kFull = ~0u;

  // The id of `name_space`: the old one when it is open already, kFull when there is no room.
  [[nodiscard]] std::uint32_t open(base::NamespaceId name_space) noexcept {
    for (std::uint32_t id = 0; id < size_; ++id) {
      if (ids_[id] == name_space) return id;
    }
    if (size_ == capacity_) return kFull;
    ids_[size_] = name_space;
    return size_++;
  }

  [[nodiscard]] bool contains(std::uint16_t id) const noexcept { return id < size_; }
  // `id` was checked with contains().
  [[nodiscard]] base::NamespaceId at(std::uint16_t id) const noexcept { return ids_[id]; }

private:
  const std::uint32_t capacity_;
  const std::unique_ptr<base::NamespaceId[]> ids_;
  std::uint32_t size_ = 1;
};

}  // namespace simm::session
