// NetworkGuest: while it lives, this thread is in another network namespace: the sockets and
// devices that it makes are there, and stay there. Thread: the one that made it.
#pragma once

#include <string>

#include "ipc/fd.h"
#include "simm/expected.h"

namespace simm::bench {

class NetworkGuest {
public:
  // `path`: of the namespace, like /proc/123/ns/net; empty: a new one.
  static Expected<NetworkGuest> enter(const std::string& path);
  NetworkGuest(NetworkGuest&&) noexcept = default;
  NetworkGuest& operator=(NetworkGuest&&) = delete;
  ~NetworkGuest();  // back home; a process that can not go back ends

  // The namespace that this thread is in now.
  static Expected<ipc::UniqueFd> current();

private:
  explicit NetworkGuest(ipc::UniqueFd home) : home_(std::move(home)) {}
  ipc::UniqueFd home_;
};

}  // namespace simm::bench
