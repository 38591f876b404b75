#include <memory>
#include <utility>

#include "daemon/transport/tcp/epoll_io.h"
#include "daemon/transport/tcp/socket_io.h"
#include "daemon/transport/tcp/uring_io.h"

namespace simm::transport {

Expected<std::unique_ptr<SocketIo>> make_socket_io(SocketIoChoice choice, base::Waiter* waiter) {
  if (choice != SocketIoChoice::epoll) {
    Expected<std::unique_ptr<SocketIo>> made = UringIo::make(waiter);
    if (made || choice == SocketIoChoice::uring) return made;
  }
  return EpollIo::make(waiter);
}

}  // namespace simm::transport
