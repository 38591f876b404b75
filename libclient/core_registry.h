// CoreRegistry: the Cores of the process, one for each socket and manager address, and what a fork
// means for all of them. Never destroyed: handles may outlive main().
// Thread: any.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "libclient/core.h"

namespace simm::detail {

class CoreRegistry {
public:
  static CoreRegistry& instance();

  // The core of that socket, made at the first call.
  Core& core(const std::string& socket_path, const std::string& manager_address);

private:
  CoreRegistry();
  static void before_fork();
  static void after_fork_parent();
  static void after_fork_child();

  struct Entry {
    std::string socket_path;
    std::string manager_address;
    std::unique_ptr<Core> core;
  };
  std::mutex mutex_;
  std::vector<Entry> entries_;
};

// The socket to use when none is named: $SIMM_SOCKET, else the first that exists of
// /run/simm/simm.sock, $XDG_RUNTIME_DIR/simm/simm.sock and /tmp/simm-<uid>/simm.sock (a directory
// of ours). unreachable names all of them.
Expected<std::string> find_socket();

}  // namespace simm::detail
