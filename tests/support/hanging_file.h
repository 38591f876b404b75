// HangingFile: a descriptor of a file whose file system answers nothing any more, so that whoever
// does anything with the descriptor waits, closing it included: a FUSE file system of a process of
// the test's own, in a mount namespace of its own. It answers until the file is open. Needs root.
// Thread: the test's.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "ipc/fd.h"
#include "ipc/fd_socket.h"
#include "tests/support/temporary_directory.h"

namespace simm::test_support {

class HangingFile {
public:
  HangingFile();
  ~HangingFile();  // what still waits is told that the file system is gone
  HangingFile(const HangingFile&) = delete;
  HangingFile& operator=(const HangingFile&) = delete;

  // False: not here (no root, no /dev/fuse). The test has been told so by a MESSAGE and returns.
  [[nodiscard]] bool ready() const noexcept { return fd_.valid(); }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  // The operations that were asked of the file since it is open (FUSE_READ, ...), by any process,
  // in order; FUSE_FLUSH and FUSE_RELEASE are those of closing it.
  [[nodiscard]] const std::vector<std::uint32_t>& operations();
  // From now on it answers again, also what it was asked before.
  void answer();

private:
  pid_t server_ = -1;
  const TemporaryDirectory directory_;
  ipc::FdSocket control_;
  ipc::UniqueFd fd_;
  std::vector<std::uint32_t> operations_;
};

}  // namespace simm::test_support
