#include "ipc/death_mark.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "ipc/untrusted.h"
#include "simm/check.h"

namespace simm::ipc {

Expected<DeathMark> DeathMark::create(std::uint32_t threads) {
  SIMM_CHECK(threads > 0 && threads <= kMarkedThreadsMax);
  MemoryFileSpec spec;
  spec.name = "simm-death-mark";
  spec.bytes = kDeathMarkBytes;
  spec.prefault = true;
  auto file = MemoryFile::create(spec);
  if (!file) return std::move(file).error();
  auto memory = Mapping::map(file->fd(), 0, kDeathMarkBytes, {true, true, true});
  if (!memory) return std::move(memory).error();
  // Our own mapping stays writable; there will be no other.
  if (Outcome sealed = file->seal_final(); !sealed) return std::move(sealed).error();
  return DeathMark(std::move(*file), std::move(*memory), threads);
}

DeathMark::DeathMark(MemoryFile file, Mapping memory, std::uint32_t threads) noexcept
    : file_(std::move(file)), memory_(std::move(memory)), threads_(threads) {
  page().magic = kDeathMarkMagic;
  page().count = threads;
}

DeathMark::DeathMark(DeathMark&& other) noexcept
    : file_(std::move(other.file_)), memory_(std::move(other.memory_)), threads_(other.threads_) {
  SIMM_CHECK(other.held_.load() == 0);
}

DeathMarkPage& DeathMark::page() noexcept {
  // SAFETY: the mapping has kDeathMarkBytes bytes from a page boundary on.
  return *reinterpret_cast<DeathMarkPage*>(memory_.data());
}

DeathMark::Hold::Hold(DeathMark& mark, std::uint32_t thread) noexcept
    : mark_(mark), word_(&mark.page().words[thread]) {
  SIMM_CHECK(thread < mark.threads_);
  if (::syscall(SYS_get_robust_list, 0, &former_, &former_bytes_) != 0) return;
  node_.next = &head_.list;
  head_.list.next = &node_;
  // The kernel takes the address of an entry plus this for the address of its futex.
  head_.futex_offset = static_cast<long>(reinterpret_cast<std::uintptr_t>(word_) -
                                         reinterpret_cast<std::uintptr_t>(&node_));
  if (::syscall(SYS_set_robust_list, &head_, sizeof head_) != 0) return;
  UntrustedWord(word_).store_release(static_cast<std::uint32_t>(::gettid()));
  is_held_ = true;
  mark_.held_.fetch_add(1, std::memory_order_release);
}

DeathMark::Hold::~Hold() {
  if (!is_held_) return;
  mark_.held_.fetch_sub(1, std::memory_order_release);
  UntrustedWord(word_).store_release(0);
  ::syscall(SYS_set_robust_list, former_, former_bytes_);
}

Expected<DeathWatch> DeathWatch::map(int fd) {
  const auto wrong = [](const std::string& what) {
    return Error{Status::incompatible, "the daemon's death mark " + what};
  };
  const int seals = ::fcntl(fd, F_GET_SEALS);
  struct stat file {};
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(fd, &file) != 0 ||
      file.st_size < static_cast<off_t>(kDeathMarkBytes)) {
    return wrong("is no sealed page of memory");
  }
  auto memory = Mapping::map(fd, 0, kDeathMarkBytes, {false, true, true});
  if (!memory) return std::move(memory).error();
  DeathMarkPage seen;
  basic_copy_in<DirectAccess>(&seen, memory->data(), offsetof(DeathMarkPage, words));
  if (seen.magic != kDeathMarkMagic || seen.count == 0 || seen.count > kMarkedThreadsMax) {
    return wrong("has " + std::to_string(seen.count) + " words");
  }
  DeathWatch watch;
  watch.memory_ = std::move(*memory);
  watch.count_ = seen.count;
  return watch;
}

bool DeathWatch::threads_ended() const noexcept {
  if (memory_.data() == nullptr) return false;
  // SAFETY: map() bounded the count.
  auto* const words = reinterpret_cast<DeathMarkPage*>(memory_.data())->words;
  for (std::uint32_t i = 0; i < count_; ++i) {
    if ((UntrustedWord(&words[i]).load_acquire() & FUTEX_OWNER_DIED) == 0) return false;
  }
  return true;
}

}  // namespace simm::ipc
