// TableBacking: whoever owns the memory of a table and knows whether a page of it may be touched.
// On a file system that can be full, touching a page for the first time can end the process. Asking
// for the page beforehand gives an answer instead. Thread: see back().
#pragma once

#include <cstddef>

namespace simm::store {

class TableBacking {
public:
  virtual ~TableBacking() = default;
  // How many bytes from `at` on may be touched from now on: at least `bytes`; 0: there is no room.
  // Costs a system call, for 2 MiB of the table at a time, about what first touching them costs.
  // Thread: the data agent of the store whose table it is.
  [[nodiscard]] virtual std::size_t back(const std::byte* at, std::size_t bytes) noexcept = 0;
};

}  // namespace simm::store
