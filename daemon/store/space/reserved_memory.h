// ReservedMemory: zeroed private memory of which a page costs nothing before it is first used. The
// address space for the largest permitted table is taken at once, so tables never move.
// Thread: any; owned by one object.
#pragma once

#include <cstddef>

#include "simm/expected.h"

namespace simm::store {

class ReservedMemory {
public:
  // bytes > 0. Asks for transparent huge pages where the range is long enough to hold some.
  static Expected<ReservedMemory> map(std::size_t bytes);
  ReservedMemory(ReservedMemory&& other) noexcept;
  ReservedMemory& operator=(ReservedMemory&&) = delete;
  ~ReservedMemory();

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

private:
  ReservedMemory(std::byte* data, std::size_t bytes) noexcept : data_(data), bytes_(bytes) {}

  std::byte* data_;
  std::size_t bytes_;
};

}  // namespace simm::store
