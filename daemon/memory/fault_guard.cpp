#include "daemon/memory/fault_guard.h"

#include <setjmp.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "simm/check.h"

namespace simm::memory {

namespace {

// TSan runs our handler with all signals blocked: there the jump must restore the signal mask.
#if defined(__SANITIZE_THREAD__)
constexpr int kSaveMask = 1;
#else
constexpr int kSaveMask = 0;
#endif

struct RecoveryPoint {
  sigjmp_buf jump;
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;  // equal to begin: not armed
};

thread_local RecoveryPoint recovery_point;

void end_process() noexcept {
  constexpr char kMessage[] = "SIGBUS outside of a guarded copy\n";
  // The result does not matter: the process ends either way.
  if (::write(STDERR_FILENO, kMessage, sizeof kMessage - 1) < 0) {
  }
  ::signal(SIGBUS, SIG_DFL);
  ::raise(SIGBUS);
}

void on_sigbus(int, siginfo_t* info, void*) {
  RecoveryPoint& point = recovery_point;
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  // si_code > 0: the kernel's own; a signal that somebody sent carries no address.
  if (info->si_code <= 0 || address < point.begin || address >= point.end) return end_process();
  point.end = point.begin;
  ::siglongjmp(point.jump, 1);
}

}  // namespace

void FaultGuard::install() noexcept {
  struct sigaction action {};
  action.sa_sigaction = on_sigbus;
  // NODEFER: the handler leaves by a jump that does not restore the signal mask, which is a system
  // call less per copy; so the signal must not be in it.
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  SIMM_CHECK(::sigaction(SIGBUS, &action, nullptr) == 0);
}

namespace {

// Arms the recovery point around `work`. A function of its own, so that the one that calls
// sigsetjmp() has no variables that a jump could leave undefined.
template <typename Work>
[[gnu::noinline]] void run_covered(const std::byte* client, std::size_t bytes,
                                   const Work& work) noexcept {
  RecoveryPoint& point = recovery_point;
  const auto begin = reinterpret_cast<std::uintptr_t>(client);
  // A vector load may start before the range it needs, but stays on its pages: a fault reports an
  // address inside the range or the start of the page, hence the rounding down.
  point.begin = begin & ~std::uintptr_t{4095};
  point.end = begin + bytes;
  // The signal handler runs on this thread: the compiler alone must keep the order.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  work();
  std::atomic_signal_fence(std::memory_order_seq_cst);
  point.end = point.begin;
}

// Runs `work`, which touches client memory in [client, client + bytes) only. It is left by a jump
// when that memory vanishes, so it must not own anything.
template <typename Work>
bool guarded(const std::byte* client, std::size_t bytes, const Work& work) noexcept {
  if (sigsetjmp(recovery_point.jump, kSaveMask) != 0) return false;
  run_covered(client, bytes, work);
  return true;
}

}  // namespace

bool FaultGuard::copy(std::byte* to, const std::byte* from, std::size_t bytes,
                      const std::byte* client) noexcept {
  return guarded(client, bytes, [=] { std::memcpy(to, from, bytes); });
}

bool FaultGuard::stream(std::byte* to, const std::byte* from, std::size_t bytes,
                        const std::byte* client) noexcept {
  return guarded(client, bytes, [=] { stream_copy(to, from, bytes); });
}

bool FaultGuard::stream(std::byte* to, const std::byte* from, std::size_t bytes,
                        const std::byte* client, BlockSink sink) noexcept {
  return guarded(client, bytes, [=] { stream_copy(to, from, bytes, sink); });
}

bool FaultGuard::show(const std::byte* client, std::size_t bytes, BlockSink sink) noexcept {
  return guarded(client, bytes, [=] { sink.take(sink.context, client, bytes); });
}

}  // namespace simm::memory
