#include "daemon/transport/tcp/uring_io.h"

#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "simm/check.h"

namespace simm::transport {

namespace {

constexpr unsigned kEntries = 512;
// More than end between two turns; what does not fit the kernel keeps (IORING_FEAT_NODROP).
constexpr unsigned kCompletions = 4096;

// What a completion belongs to: the IoSocket's address, in its low bits the operation, and in its
// high ones, which no address of a process has, the number of a send without copies.
constexpr std::uint64_t kReceive = 1;
constexpr std::uint64_t kSend = 2;
constexpr std::uint64_t kCancel = 3;
constexpr std::uint64_t kOperationMask = 3;
static_assert(alignof(IoSocket) > kOperationMask);
constexpr unsigned kNumberShift = 58;
constexpr std::uint64_t kAddressMask = ((std::uint64_t{1} << kNumberShift) - 1) & ~kOperationMask;
static_assert(kSendsHeldMax <= std::uint64_t{1} << (64 - kNumberShift));

// Of the kernel's interface; not in the headers of every liburing that can be built with.
constexpr std::uint8_t kSendUncopied = 48;        // IORING_OP_SENDMSG_ZC, Linux 6.1
constexpr std::uint16_t kReportUsage = 1u << 3;   // IORING_SEND_ZC_REPORT_USAGE, Linux 6.2
constexpr std::uint32_t kWasCopied = 1u << 31;    // IORING_NOTIF_USAGE_ZC_COPIED
constexpr std::uint32_t kMore = 1u << 1;          // IORING_CQE_F_MORE: a notification will follow
constexpr std::uint32_t kNotification = 1u << 3;  // IORING_CQE_F_NOTIF

// Deferred task work: completions are made when we ask for them, and asking is free of system
// calls while there are none. In the header from liburing 2.3 on, in the kernel from 6.1 on.
#if defined(IORING_SETUP_DEFER_TASKRUN)
constexpr unsigned kDeferred = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                               IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED;
#else
constexpr unsigned kDeferred = 0;
#endif

std::uint64_t send_data(const IoSocket& socket) noexcept {
  const std::uint64_t number = socket.send_uncopied ? socket.send_number : 0;
  return reinterpret_cast<std::uint64_t>(&socket) | number << kNumberShift | kSend;
}

void release(IoSocket& socket, std::uint32_t number) noexcept {
  --socket.sends_held;
  socket.released |= 1u << number;
}

}  // namespace

Expected<std::unique_ptr<SocketIo>> UringIo::make(base::Waiter* waiter, UncopiedSends wanted) {
  std::unique_ptr<UringIo> made(new UringIo(waiter, wanted));
  if (!made->set_up_rings()) {
    return Error{Status::unsupported, "io_uring is refused or too old here"};
  }
  if (waiter != nullptr) {
    const Outcome rings = made->set_up_bell();
    if (!rings) return rings.error();
  }
  return std::unique_ptr<SocketIo>(std::move(made));
}

UringIo::~UringIo() {
  if (!is_set_up_) return;
  if (waiter_ != nullptr) waiter_->unwatch(bell_.get());
  ::io_uring_queue_exit(&ring_);
}

bool UringIo::set_up_rings() noexcept {
  io_uring_params params{};
  params.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | kDeferred;
  params.cq_entries = kCompletions;
  int result = ::io_uring_queue_init_params(kEntries, &ring_, &params);
  is_enabled_ = kDeferred == 0;
  if (result == -EINVAL && kDeferred != 0) {
    params = {};
    params.flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;
    params.cq_entries = kCompletions;
    result = ::io_uring_queue_init_params(kEntries, &ring_, &params);
    is_enabled_ = true;
  }
  is_set_up_ = result == 0;
  return is_set_up_ && has_operations();
}

Outcome UringIo::set_up_bell() {
  bell_ = ipc::UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell_.valid()) return system_error("eventfd", errno);
  const int result = ::io_uring_register_eventfd(&ring_, bell_.get());
  if (result < 0) return system_error("io_uring_register_eventfd", -result);
  static_cast<void>(::io_uring_cq_eventfd_toggle(&ring_, false));
  return waiter_->watch(bell_.get(), *this);
}

void UringIo::on_fd_ready(std::uint32_t) noexcept {
  std::uint64_t rings = 0;
  [[maybe_unused]] const ssize_t drained = ::read(bell_.get(), &rings, sizeof rings);
}

bool UringIo::has_operations() noexcept {
  io_uring_probe* const probe = ::io_uring_get_probe_ring(&ring_);
  if (probe == nullptr) return false;
  bool has_all = (ring_.features & IORING_FEAT_NODROP) != 0;
  for (const int operation : {IORING_OP_RECVMSG, IORING_OP_SENDMSG, IORING_OP_ASYNC_CANCEL}) {
    has_all = has_all && ::io_uring_opcode_supported(probe, operation) != 0;
  }
  if (::io_uring_opcode_supported(probe, kSendUncopied) == 0) uncopied_ = UncopiedSends::never;
  ::io_uring_free_probe(probe);
  return has_all;
}

bool UringIo::open(IoSocket& socket) noexcept {
  SIMM_CHECK((reinterpret_cast<std::uint64_t>(&socket) & ~kAddressMask) == 0);
  return true;
}

void UringIo::close(IoSocket& socket) noexcept {
  SIMM_CHECK(!socket.busy());
}

// The ring is larger than what one turn asks for; if it is full all the same, the kernel empties it
// at once.
io_uring_sqe& UringIo::next_entry() noexcept {
  io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
  if (entry == nullptr) {
    submit();
    entry = ::io_uring_get_sqe(&ring_);
  }
  SIMM_CHECK(entry != nullptr);
  ++waiting_;
  return *entry;
}

void UringIo::receive(IoSocket& socket) noexcept {
  SIMM_CHECK(!socket.receiving && !socket.received);
  socket.receiving = true;
  socket.receive_message = {};
  socket.receive_message.msg_iov = socket.receive_parts.data();
  socket.receive_message.msg_iovlen = socket.receive_count;
  io_uring_sqe& entry = next_entry();
  ::io_uring_prep_recvmsg(&entry, socket.descriptor, &socket.receive_message, 0);
  entry.user_data = reinterpret_cast<std::uint64_t>(&socket) | kReceive;
}

void UringIo::send(IoSocket& socket) noexcept {
  SIMM_CHECK(!socket.sending && !socket.sent);
  socket.sending = true;
  socket.send_message = {};
  socket.send_message.msg_iov = socket.send_parts.data();
  socket.send_message.msg_iovlen = socket.send_count;
  io_uring_sqe& entry = next_entry();
  ::io_uring_prep_sendmsg(&entry, socket.descriptor, &socket.send_message, MSG_NOSIGNAL);
  entry.user_data = send_data(socket);
  if (!socket.send_uncopied) return;
  entry.opcode = kSendUncopied;
  entry.ioprio = static_cast<std::uint16_t>(entry.ioprio | kReportUsage);
  ++socket.sends_held;
}

void UringIo::cancel(IoSocket& socket) noexcept {
  for (const std::uint64_t operation : {kReceive, kSend}) {
    if (!(operation == kReceive ? socket.receiving : socket.sending)) continue;
    const std::uint64_t target = operation == kSend
                                     ? send_data(socket)
                                     : reinterpret_cast<std::uint64_t>(&socket) | operation;
    io_uring_sqe& entry = next_entry();
    ::io_uring_prep_cancel(&entry, reinterpret_cast<void*>(target), 0);
    entry.user_data = reinterpret_cast<std::uint64_t>(&socket) | kCancel;
    ++socket.replies_due;
  }
}

void UringIo::submit() noexcept {
  if (!is_enabled_) {
    // Not through liburing: some of its versions declare the function and do not export it.
    SIMM_CHECK(::syscall(__NR_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS,
                         nullptr, 0) == 0);
    is_enabled_ = true;
  }
  if (waiting_ == 0) return;
  const int taken = ::io_uring_submit(&ring_);
  // Out of kernel memory, or interrupted: what was not taken stays in the ring for the next turn.
  if (taken > 0) waiting_ -= static_cast<std::uint32_t>(taken);
}

void UringIo::complete(const io_uring_cqe& entry) noexcept {
  const std::uint64_t operation = entry.user_data & kOperationMask;
  // SAFETY: user_data is the address of an IoSocket, which stays in place until nothing is under
  // way for it.
  IoSocket& socket = *reinterpret_cast<IoSocket*>(entry.user_data & kAddressMask);
  const auto number = static_cast<std::uint32_t>(entry.user_data >> kNumberShift);
  if ((entry.flags & kNotification) != 0) {
    if ((static_cast<std::uint32_t>(entry.res) & kWasCopied) != 0) socket.was_copied = true;
    release(socket, number);
  } else if (operation == kReceive) {
    socket.receiving = false;
    socket.received = true;
    socket.receive_result = entry.res;
  } else if (operation == kSend) {
    socket.sending = false;
    socket.sent = true;
    socket.send_result = entry.res;
    // It failed before it was begun: there will be no notification.
    if (socket.send_uncopied && (entry.flags & kMore) == 0) release(socket, number);
  } else {
    --socket.replies_due;
  }
  list_ready(socket);
}

int UringIo::poll() noexcept {
  submit();
  // The first look of a sleeper behind the bell's switch goes into the kernel, whose locks order
  // it: a completion is either seen now, or rings.
  if (std::exchange(looks_again_, false)) {
    ::syscall(__NR_io_uring_enter, ring_.ring_fd, 0, 0, IORING_ENTER_GETEVENTS, nullptr, 0);
  }
  int ended = 0;
  io_uring_cqe* entry = nullptr;
  // Bounded: a completion of this turn does not start anything by itself.
  while (ended < static_cast<int>(kCompletions) && ::io_uring_peek_cqe(&ring_, &entry) == 0) {
    const io_uring_cqe taken = *entry;
    ::io_uring_cqe_seen(&ring_, entry);
    complete(taken);
    ++ended;
  }
  if (ended > 0 && is_bell_on_) {
    is_bell_on_ = false;
    static_cast<void>(::io_uring_cq_eventfd_toggle(&ring_, false));
  }
  return ended;
}

bool UringIo::prepare_sleep() noexcept {
  if (waiter_ != nullptr && !is_bell_on_) {
    is_bell_on_ = true;
    // Once for each switch: what came since the look behind it has rung, and rings until it is
    // read.
    looks_again_ = true;
    static_cast<void>(::io_uring_cq_eventfd_toggle(&ring_, true));
  }
  return waiting_ == 0 && ::io_uring_cq_ready(&ring_) == 0;
}

}  // namespace simm::transport
