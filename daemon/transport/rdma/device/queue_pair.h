// QueuePair: one reliable connection (RC) between a port of this host and one of another daemon's,
// with a send queue and a receive queue of its own. Seam: on libibverbs, and simulated.
//
// States: made -> connect() -> works, until something on it fails, fail() is called or the other
// end is gone; from then on nothing more is done, and works that are posted come back `flushed`.
// (So do receives from most devices, and none from soft RoCE if posted after that.) Only destroy()
// is the fence: when it returns, the device neither reads nor writes any memory for this queue
// pair, not for its own work and not for the other end's, whatever is still in the network; and no
// completion of it is ever polled again. (Resetting a queue pair was tried for that and does not
// suffice on every device: soft RoCE still placed packets that it had begun to handle.)
//
// Why without a shared receive queue: the credits of each link are strict, so sharing would save no
// receive; and a device may have taken a shared receive for a message that never ended, about
// which nobody is told when its queue pair is destroyed.
//
// Thread: make and connect() on the control thread; after that it is one data agent's. Destroying
// the object is possible on any thread when destroy() has returned, or when the agent never had it.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "daemon/transport/rdma/device/rdma_work.h"
#include "simm/expected.h"

namespace simm::transport {

// What the other end has to know to connect. It travels over authenticated connections only.
struct QueuePairAddress {
  std::array<std::uint8_t, 16> gid{};  // of the port, in network order; all zero: none
  std::uint32_t number = 0;            // of the queue pair, 24 bits
  std::uint32_t first_packet = 0;      // its packet sequence number, 24 bits, random
  std::uint16_t lid = 0;               // of the port on InfiniBand, else 0
  std::uint16_t mtu_bytes = 0;         // the port's active one: 256, 512, 1024, 2048 or 4096
  std::uint8_t reads_in = 0;           // READs of the other end that it answers at a time
  bool is_ethernet = false;            // RoCE; else InfiniBand
  bool operator==(const QueuePairAddress&) const = default;
};

struct QueuePairConfig {
  std::uint32_t sends_max = 256;    // works posted and not known to have ended
  std::uint32_t receives_max = 64;  // receives posted and not polled
  std::uint8_t reads_max = 16;      // READs under way at a time; less where a device can less
  bool is_requester = true;         // grants the other end READ and WRITE on registered memory
};

class QueuePair {
public:
  virtual ~QueuePair() = default;
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;

  [[nodiscard]] virtual const QueuePairAddress& address() const noexcept = 0;
  // The other end's address, once. Errors: invalid_argument (it can not be reached from this port:
  // another kind of link, an MTU or a number that does not exist, an end that answers no READ),
  // io_error (the device refused).
  virtual Outcome connect(const QueuePairAddress& far) = 0;
  // READs that the device has under way at a time: the lower of what it can do and what the other
  // end answers. Those that are posted beyond it are held back, and all that is behind them. Only
  // when connected.
  [[nodiscard]] virtual std::uint32_t reads_max() const noexcept = 0;

  // Posts works in order, in one batch; how many were taken: all, unless the queue pair is broken
  // or has no room. The user keeps to sends_max.
  [[nodiscard]] virtual std::size_t post(std::span<const Work> works) noexcept = 0;
  // Posts a receive. False: the queue pair is broken.
  [[nodiscard]] virtual bool post_receive(std::uint64_t id, const LocalPart& part) noexcept = 0;

  // To the error state, soon: everything outstanding is flushed. Nothing is fenced by it, and it
  // waits for nothing: a data agent calls it.
  virtual void fail() noexcept = 0;
  // The fence; see above. May be called more than once. It waits for the device, which may take
  // seconds: soft RoCE waits for its packets, and these for a cable that is out. After kEnderWaitMs
  // (queue_pair_reaper.h) it gives up: the end of the process, or of the registrations, is the
  // fence.
  virtual void destroy() noexcept = 0;
  // The same for a data agent, which has other links: begins it with the first call, behind fail(),
  // and waits for nothing. True: it is done, as when destroy() has returned. Nothing is posted
  // behind the first call.
  [[nodiscard]] virtual bool try_destroy() noexcept {
    destroy();
    return true;
  }

  // The user's own mark: who it belongs to.
  void* owner = nullptr;

protected:
  QueuePair() = default;
};

}  // namespace simm::transport
