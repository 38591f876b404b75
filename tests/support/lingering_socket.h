// LingeringSocket: a TCP connection of the test with itself whose last close waits until its peer
// is closed (SO_LINGER of an hour, a full send queue, and nobody who reads). So whoever drops the
// last descriptor of it hangs for as long as the test likes. Thread: the test's.
#pragma once

#include <cstdint>

#include "ipc/fd.h"

namespace simm::test_support {

class LingeringSocket {
public:
  LingeringSocket();  // REQUIREs success

  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  // Closes the test's own descriptor. It has to be somebody else's, too, or the test hangs.
  void give_away() noexcept { fd_.reset(); }
  // Somebody has closed the last descriptor, and hangs in that, or has returned from it.
  [[nodiscard]] bool is_closing() const;
  // Ends the closing.
  void release() noexcept { peer_.reset(); }

private:
  ipc::UniqueFd fd_;
  ipc::UniqueFd peer_;
  std::uint16_t port_ = 0;  // of fd_
};

}  // namespace simm::test_support
