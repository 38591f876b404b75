// NameSpaceTable: the namespaces that one session has opened, by the small id that its client puts
// into submissions. Id 0 is the tenant's default namespace. Namespaces are never closed, so an id
// that was given out stays good; any other one is a breach of the protocol. A namespace that was
// opened as immutable and as mutable has two ids.
// Thread: the session's data agent.
#pragma once

#include <cstdint>
#include <memory>

#include "daemon/base/ids.h"

namespace simm::session {

struct OpenNameSpace {
  base::NamespaceId id;
  bool immutable = false;  // a key of it has one value for ever
  bool operator==(const OpenNameSpace&) const = default;
};

class NameSpaceTable {
public:
  // Allocates. `capacity` at least 1 (the default namespace counts).
  NameSpaceTable(std::uint32_t capacity, OpenNameSpace default_name_space)
      : capacity_(capacity), open_(std::make_unique<OpenNameSpace[]>(capacity)) {
    open_[0] = default_name_space;
  }

  static constexpr std::uint32_t kFull = ~0u;

  // The id of `name_space`: the old one when it is open already, kFull when there is no room.
  [[nodiscard]] std::uint32_t open(OpenNameSpace name_space) noexcept {
    for (std::uint32_t id = 0; id < size_; ++id) {
      if (open_[id] == name_space) return id;
    }
    if (size_ == capacity_) return kFull;
    open_[size_] = name_space;
    return size_++;
  }

  [[nodiscard]] bool contains(std::uint16_t id) const noexcept { return id < size_; }
  // `id` was checked with contains().
  [[nodiscard]] OpenNameSpace at(std::uint16_t id) const noexcept { return open_[id]; }

private:
  const std::uint32_t capacity_;
  const std::unique_ptr<OpenNameSpace[]> open_;
  std::uint32_t size_ = 1;
};

}  // namespace simm::session
