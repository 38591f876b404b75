#include <memory>
#include <utility>

#include "daemon/transport/tcp/epoll_io.h"
#include "daemon/transport/tcp/socket_io.h"
#include "daemon/transport/tcp/uring_io.h"

namespace simm::transport {

Expected<std::unique_ptr<SocketIo>> make_socket_io(SocketIoChoice choice, base::Waiter* waiter) {
  if (choice != SocketIoChoice::epoll) {
    const bool is_always = choice == SocketIoChoice::uring_uncopied;
    Expected<std::unique_ptr<SocketIo>> made =
        UringIo::make(waiter, is_always ? UncopiedSends::always : UncopiedSends::where_useful);
    if (made || choice != SocketIoChoice::automatic) return made;
  }
  return EpollIo::make(waiter);
}

}  // namespace simm::transport
