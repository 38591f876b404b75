// UniqueFd: sole owner of a file descriptor; closes it when it goes.
// Thread: an object belongs to one thread at a time, like any value.
#pragma once

#include <unistd.h>

#include <utility>

namespace simm::ipc {

class UniqueFd {
public:
  UniqueFd() noexcept = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool valid() const noexcept { return fd_ >= 0; }
  explicit operator bool() const noexcept { return valid(); }

  // Hands the descriptor to the caller, who closes it from now on.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

  // The result of close() is of no use here: the descriptor is gone in every case on Linux.
  void reset(int fd = -1) noexcept {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

private:
  int fd_ = -1;
};

}  // namespace simm::ipc
