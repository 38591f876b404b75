#include "daemon/store/pool/pool_directory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "ipc/peer_identity.h"

namespace simm::store {
namespace {

constexpr const char* kMakeRoom[] = {
    ": make it larger (mount -o remount,size=…), or write less",
    ": reserve more huge pages (sysctl vm.nr_hugepages), or write less"};
constexpr int kOpenFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW;

Error wrong(Status status, const std::string& path, const std::string& what) {
  return {status, path + " " + what};
}

// The part of a path before its last component: what has to be there.
std::string parent_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The daemon that had the lock last, in the name of an empty file: a file system of the pool may
// have no page left, and hugetlbfs takes no writes.
struct Holder {
  std::string file;  // its name; empty: nobody, or a daemon that left no name
  pid_t pid = 0;
  std::uint64_t start_time_ticks = 0;
};

constexpr const char* kHolderFormat = "holder-%d-%" SCNu64;

Holder find_holder(const std::string& path) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(path, error)) {
    Holder holder;
    holder.file = entry.path().filename();
    const int read =
        std::sscanf(holder.file.c_str(), kHolderFormat, &holder.pid, &holder.start_time_ticks);
    if (read == 2 && holder.pid > 0) return holder;
  }
  return {};
}

// The kernel frees the lock of a process that ends before the process has given up its devices,
// whose queue pairs then still read into the pool. False: the process has not ended in time. A
// process of another pid namespace is not seen from here: there the lock alone counts.
bool await_end(const Holder& former) {
  constexpr int kEndWaitMs = 60'000;
  if (former.file.empty() || former.pid == ::getpid()) return true;
  const auto is_same = [&former] {
    return ipc::process_start_time_ticks(former.pid) == former.start_time_ticks;
  };
  if (!is_same()) return true;
  const ipc::UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, former.pid, 0)));
  if (!process.valid() || !is_same()) return true;
  pollfd ended{process.get(), POLLIN, 0};
  return ::poll(&ended, 1, kEndWaitMs) > 0;
}

// How many bytes of the file have memory.
std::uint64_t memory_of(int file) noexcept {
  struct stat info {};
  return ::fstat(file, &info) == 0 ? static_cast<std::uint64_t>(info.st_blocks) * 512 : 0;
}

// Makes pages present, on this thread and others. What the kernel refuses is left to the caller.
void populate(std::span<std::byte> memory, std::uint32_t threads,
              const std::function<void(std::uint64_t)>& on_taken) {
  constexpr int kMadvPopulateWrite = 23;  // since Linux 5.14; older kernels refuse it
  constexpr std::uint64_t kPieceBytes = std::uint64_t{64} << 20;
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> taken{0};
  std::atomic<bool> refused{false};
  const auto work = [&](bool tells) {
    while (!refused.load(std::memory_order_relaxed)) {
      const std::uint64_t at = next.fetch_add(kPieceBytes, std::memory_order_relaxed);
      if (at >= memory.size()) return;
      const std::uint64_t length = std::min<std::uint64_t>(kPieceBytes, memory.size() - at);
      // SAFETY: at + length <= size().
      while (::madvise(memory.data() + at, length, kMadvPopulateWrite) != 0) {
        if (errno != EINTR) return refused.store(true, std::memory_order_relaxed);
      }
      taken.fetch_add(length, std::memory_order_relaxed);
      if (tells && on_taken) on_taken(taken.load(std::memory_order_relaxed));
    }
  };
  std::vector<std::thread> helpers;
  for (std::uint32_t i = 1; i < threads; ++i) {
    try {
      helpers.emplace_back(work, false);
    } catch (const std::system_error&) {
      break;  // those that there are do it
    }
  }
  work(true);
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace

Expected<PoolDirectory> PoolDirectory::open(const std::string& path) {
  if (path.empty() || path.front() != '/' || path.back() == '/') {
    return wrong(Status::invalid_argument, path, "is no absolute path without a slash at its end");
  }
  PoolDirectory made;
  made.path_ = path;
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    if (errno == ENOENT) {
      return wrong(Status::not_found, path,
                   "can not be made: there is no directory " + parent_of(path));
    }
    return system_error("mkdir " + path, errno);
  }
  made.directory_.reset(::open(path.c_str(), O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!made.directory_.valid()) {
    const int why = errno;
    if (why == ELOOP || why == ENOTDIR) {
      return wrong(Status::invalid_argument, path,
                   "is no directory, or a symbolic link: write the directory itself");
    }
    return system_error("open " + path, why);
  }
  struct stat info {};
  struct statfs system {};
  if (::fstat(made.directory_.get(), &info) != 0 ||
      ::fstatfs(made.directory_.get(), &system) != 0) {
    return system_error("stat of " + path, errno);
  }
  if (info.st_uid != ::geteuid() || (info.st_mode & 077) != 0) {
    return wrong(Status::permission_denied, path,
                 "has to belong to user " + std::to_string(::geteuid()) +
                     " alone: chown it to that user and chmod it to 0700");
  }
  made.huge_ = system.f_type == HUGETLBFS_MAGIC;
  if (!made.huge_ && system.f_type != TMPFS_MAGIC) {
    return wrong(Status::invalid_argument, path,
                 "is on no memory file system: write a directory of tmpfs, such as "
                 "/dev/shm/simm, or of hugetlbfs");
  }
  made.page_bytes_ = made.huge_ ? static_cast<std::uint64_t>(system.f_bsize) : 4096;
  if (Outcome locked = made.take_lock(); !locked) return std::move(locked).error();
  return made;
}

Outcome PoolDirectory::take_lock() {
  lock_.reset(::openat(directory_.get(), "lock", kOpenFlags | O_CREAT, 0600));
  if (!lock_.valid()) return system_error("open " + where("lock"), errno);
  const Holder former = find_holder(path_);
  struct flock wanted {};
  wanted.l_type = F_WRLCK;
  wanted.l_whence = SEEK_SET;
  if (::fcntl(lock_.get(), F_OFD_SETLK, &wanted) != 0) {
    const int why = errno;
    if (why != EACCES && why != EAGAIN) return system_error("lock " + where("lock"), why);
    return wrong(
        Status::invalid_state, path_,
        "is in use by another daemon" +
            (former.pid > 0 ? " (pid " + std::to_string(former.pid) + ")" : std::string()) +
            ": stop that one, or write another directory");
  }
  if (!await_end(former)) {
    return wrong(Status::invalid_state, path_,
                 "was in use by a daemon that is still ending (pid " + std::to_string(former.pid) +
                     "), whose devices may write there: start again when that process has gone");
  }
  if (!former.file.empty()) remove_file(former.file.c_str());
  const std::string holder = "holder-" + std::to_string(::getpid()) + "-" +
                             std::to_string(ipc::process_start_time_ticks(::getpid()));
  const ipc::UniqueFd made(::openat(directory_.get(), holder.c_str(), kOpenFlags | O_CREAT, 0600));
  if (!made.valid()) return system_error("open " + where(holder.c_str()), errno);
  return Done{};
}

Expected<ipc::UniqueFd> PoolDirectory::open_file(const char* name, std::uint64_t bytes,
                                                 std::uint64_t reserved) const {
  ipc::UniqueFd file(::openat(directory_.get(), name, kOpenFlags));
  if (!file.valid()) {
    if (errno == ENOENT) return wrong(Status::not_found, where(name), "is not there");
    return system_error("open " + where(name), errno);
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return system_error("stat of " + where(name), errno);
  const bool is_ours = S_ISREG(info.st_mode) && info.st_uid == ::geteuid() &&
                       (info.st_mode & 07777) == 0600 && info.st_nlink == 1;
  if (!is_ours) {
    return wrong(Status::permission_denied, where(name),
                 "is no regular file of mode 0600 with one name that belongs to user " +
                     std::to_string(::geteuid()));
  }
  if (static_cast<std::uint64_t>(info.st_size) != bytes) {
    return wrong(
        Status::incompatible, where(name),
        "has " + std::to_string(info.st_size) + " bytes, expected " + std::to_string(bytes));
  }
  // A start that was killed leaves a file whose later pages nobody has promised.
  if (memory_of(file.get()) < reserved) {
    return wrong(Status::incompatible, where(name), "was never reserved to its end");
  }
  return file;
}

Expected<ipc::UniqueFd> PoolDirectory::create_file(const char* name, std::uint64_t bytes) const {
  remove_file(name);
  ipc::UniqueFd file(::openat(directory_.get(), name, kOpenFlags | O_CREAT | O_EXCL, 0600));
  if (!file.valid()) return system_error("open " + where(name), errno);
  if (::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) {
    return system_error("ftruncate of " + where(name), errno);
  }
  return file;
}

Outcome PoolDirectory::reserve(int file, std::span<std::byte> memory, std::uint32_t threads,
                               const std::function<void(std::uint64_t)>& on_taken) const {
  if (threads > 1) populate(memory, threads, on_taken);
  if (memory_of(file) >= memory.size()) return Done{};
  return fill_up(file, memory.size(), on_taken);
}

Outcome PoolDirectory::fill_up(int file, std::uint64_t bytes,
                               const std::function<void(std::uint64_t)>& on_taken) const {
  // In steps, because a signal undoes a call that it interrupts.
  constexpr std::uint64_t kStepBytes = std::uint64_t{256} << 20;
  for (std::uint64_t at = 0; at < bytes;) {
    const std::uint64_t step = std::min(kStepBytes, bytes - at);
    if (::fallocate(file, 0, static_cast<off_t>(at), static_cast<off_t>(step)) == 0) {
      at += step;
      if (on_taken) on_taken(at);
    } else if (errno == ENOSPC) {
      return no_room(file, bytes);
    } else if (errno != EINTR) {
      return system_error("fallocate in " + path_ + ", of " + std::to_string(bytes >> 20) + " MiB",
                          errno);
    }
  }
  return Done{};
}

Error PoolDirectory::no_room(int file, std::uint64_t bytes) const {
  struct statfs system {};
  std::uint64_t room = memory_of(file);
  // hugetlbfs gives no number of free pages, but what it could give stays in the file.
  if (!huge_ && ::fstatfs(file, &system) == 0) {
    room += system.f_bavail * static_cast<std::uint64_t>(system.f_bsize);
  }
  return wrong(Status::no_space, path_,
               "has room for " + std::to_string(room >> 20) + " of " + std::to_string(bytes >> 20) +
                   " MiB" + kMakeRoom[huge_ ? 1 : 0]);
}

void PoolDirectory::remove_file(const char* name) const noexcept {
  ::unlinkat(directory_.get(), name, 0);
}

}  // namespace simm::store
