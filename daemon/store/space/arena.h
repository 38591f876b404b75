// Arena: memory of the pool, in a file that is mapped into this daemon. The file is a memfd of
// fixed size, sealed against shrinking and growing, or one that the caller has opened. Private to
// the daemon: clients never see the fd. Only the daemon's own helper processes may map it, and only
// to read: nothing but this mapping can write. Huge pages when asked for and there are any, else
// normal ones. Pages come when they are first touched, or by a Prefaulter.
// Thread: made on the control thread; the mapping is then the store's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ipc/fd.h"
#include "simm/expected.h"

namespace simm::store {

// Of x86 and of arm64 with 4 KiB pages: what MFD_HUGETLB gives where nothing else is configured.
inline constexpr std::uint64_t kHugePageBytes = std::uint64_t{2} << 20;

struct ArenaConfig {
  std::uint64_t bytes = 0;  // rounded up to whole pages
  bool hugepages = false;   // from the hugetlb pool; without enough of them: normal pages
  int numa_node = -1;       // bind to this node; -1: where they are first touched
  // Nodes that parts of `part_bytes` prefer, from the beginning on; -1: none. What a full node can
  // not take comes from others. Unused with a numa_node.
  std::vector<int> part_nodes;
  std::uint64_t part_bytes = 0;  // whole pages
  bool sparse = false;           // huge pages are not set aside: most of it may never be touched
};

class Arena {
public:
  // A memfd. Fails with what the kernel refused. Falling back is no failure: note() says so.
  static Expected<Arena> create(const ArenaConfig& config);
  // `file`: open for reading and writing, of config.bytes bytes, of huge pages or not as
  // config.hugepages says.
  static Expected<Arena> map(ipc::UniqueFd file, const ArenaConfig& config);
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&&) = delete;
  ~Arena();

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {data_, size_}; }
  // For a helper process to map; open for reading only. Stays owned here.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  // The same file, open for writing, for whoever keeps it beyond this process. Not valid for the
  // second time.
  [[nodiscard]] ipc::UniqueFd take_writer() noexcept { return std::move(writer_); }
  [[nodiscard]] bool uses_hugepages() const noexcept { return hugepages_; }
  // What could not be done as asked, for the log; empty when everything could.
  [[nodiscard]] const std::string& note() const noexcept { return note_; }
  // How many parts prefer the node that they should, and why others do not.
  [[nodiscard]] std::size_t parts_placed() const noexcept { return parts_placed_; }
  [[nodiscard]] const std::string& place_note() const noexcept { return place_note_; }

private:
  Arena() = default;
  [[nodiscard]] Outcome open(std::uint64_t bytes, bool hugepages);
  [[nodiscard]] Outcome map_file(ipc::UniqueFd file, bool sparse);
  [[nodiscard]] Outcome keep_read_only();
  void close() noexcept;
  [[nodiscard]] Outcome place(const ArenaConfig& config);
  [[nodiscard]] Outcome bind(int numa_node);
  void prefer(const std::vector<int>& nodes, std::uint64_t part_bytes);

  ipc::UniqueFd fd_;
  ipc::UniqueFd writer_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool hugepages_ = false;
  std::string note_;
  std::size_t parts_placed_ = 0;
  std::string place_note_;
};

}  // namespace simm::store
