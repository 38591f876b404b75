// Arena: the memory that holds payloads. A memfd of fixed size, sealed against shrinking and
// growing, mapped into this daemon; private to it: clients never see the fd, only the daemon's own
// helper processes may map it, and only to read: nothing but this mapping can write. Huge pages
// when asked for and there are any, else normal ones. Pages come when they are first touched, or by
// a Prefaulter.
// Thread: made on the control thread; the mapping is then the store's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "simm/expected.h"

namespace simm::store {

struct ArenaConfig {
  std::uint64_t bytes = 0;  // rounded up to whole pages
  bool hugepages = false;   // from the hugetlb pool; without enough of them: normal pages
  int numa_node = -1;       // bind to this node; -1: where they are first touched
};

class Arena {
public:
  // Fails with what the kernel refused. Falling back is no failure: note() says so.
  static Expected<Arena> create(const ArenaConfig& config);
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&&) = delete;
  ~Arena();

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, size_}; }
  // For a helper process to map; open for reading only. Stays owned here.
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] bool uses_hugepages() const noexcept { return hugepages_; }
  // What could not be done as asked, for the log; empty when everything could.
  [[nodiscard]] const std::string& note() const noexcept { return note_; }

private:
  Arena() = default;
  [[nodiscard]] Outcome open(std::uint64_t bytes, bool hugepages);
  [[nodiscard]] Outcome keep_read_only();
  void close() noexcept;
  [[nodiscard]] Outcome bind(int numa_node);

  int fd_ = -1;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool hugepages_ = false;
  std::string note_;
};

}  // namespace simm::store
