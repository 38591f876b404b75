#include "ipc/memory_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

namespace simm::ipc {
namespace {

struct FileSystemFacts {
  bool in_memory = false;
  bool huge = false;
  std::uint64_t page_bytes = 0;
};

Expected<FileSystemFacts> file_system_of(int fd) {
  struct statfs facts {};
  if (::fstatfs(fd, &facts) != 0) return system_error("fstatfs", errno);
  const auto magic = static_cast<std::uint64_t>(facts.f_type);
  FileSystemFacts result;
  result.huge = magic == HUGETLBFS_MAGIC;
  result.in_memory = result.huge || magic == TMPFS_MAGIC;
  result.page_bytes = static_cast<std::uint64_t>(facts.f_bsize);
  return result;
}

// Bytes that the kernel could hand out without killing anybody; UINT64_MAX when it does not say.
std::uint64_t available_bytes() {
  std::ifstream meminfo("/proc/meminfo");
  std::string label;
  std::uint64_t kibibytes = 0;
  for (std::string rest; meminfo >> label >> kibibytes; std::getline(meminfo, rest)) {
    if (label == "MemAvailable:") return kibibytes * 1024;
  }
  return UINT64_MAX;
}

Error allocation_error(std::string_view what, int errno_value) {
  Error error = system_error(what, errno_value);
  if (errno_value == ENOSPC || errno_value == ENOMEM) error.status = Status::no_space;
  return error;
}

}  // namespace

Expected<MemoryFile> MemoryFile::create(const MemoryFileSpec& spec) {
  if (spec.huge_pages) {
    Expected<MemoryFile> huge = create_with(spec, true);
    if (huge) return huge;
  }
  return create_with(spec, false);
}

Expected<MemoryFile> MemoryFile::create_with(const MemoryFileSpec& spec, bool huge) {
  const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0u);
  UniqueFd fd(::memfd_create(spec.name.c_str(), flags));
  if (!fd) return system_error("memfd_create(" + spec.name + ")", errno);
  Expected<FileSystemFacts> facts = file_system_of(fd.get());
  if (!facts) return std::move(facts).error();

  const std::uint64_t page = facts->page_bytes;
  const auto most = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()) / page * page;
  if (spec.bytes == 0 || spec.bytes > most) {
    return Error{Status::invalid_argument,
                 "size of memory file " + spec.name + ": " + std::to_string(spec.bytes)};
  }
  const std::uint64_t bytes = (spec.bytes - 1) / page * page + page;
  if (::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return allocation_error("ftruncate of memory file " + spec.name, errno);
  }
  // A memfd has no limit of its own. Allocating too much of it does not fail: the kernel kills
  // processes until it fits.
  if (!huge && spec.prefault && bytes > available_bytes()) {
    return allocation_error("pages of memory file " + spec.name, ENOMEM);
  }
  // fallocate reports a lack of pages as an error, where touching them would raise SIGBUS.
  if ((huge || spec.prefault) && ::fallocate(fd.get(), 0, 0, static_cast<off_t>(bytes)) != 0) {
    return allocation_error("pages of memory file " + spec.name, errno);
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) != 0) {
    return system_error("size seals of memory file " + spec.name, errno);
  }
  return MemoryFile(std::move(fd), bytes, page, huge);
}

bool MemoryFile::is_memory(int fd) noexcept {
  // Only shmem and hugetlbfs files have seals (F_SEAL_SEAL at least), and the kernel answers this
  // without asking the file system. fstat of a FUSE file may block for as long as its owner likes.
  return ::fcntl(fd, F_GET_SEALS) >= 0;
}

Expected<MemoryFile> MemoryFile::inspect(UniqueFd fd) {
  if (!is_memory(fd.get())) {
    return Error{Status::invalid_argument,
                 "the descriptor is not a file of tmpfs or hugetlbfs: only memory can be shared"};
  }
  struct stat file {};
  if (::fstat(fd.get(), &file) != 0) return system_error("fstat of a received descriptor", errno);
  if (!S_ISREG(file.st_mode)) {
    return Error{Status::invalid_argument, "the descriptor is not a regular file"};
  }
  Expected<FileSystemFacts> facts = file_system_of(fd.get());
  if (!facts) return std::move(facts).error();
  if (!facts->in_memory) {
    return Error{Status::invalid_argument, "the descriptor is not on tmpfs or hugetlbfs"};
  }
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0) return system_error("F_GETFL of a received descriptor", errno);
  // O_PATH descriptors pass fstat and report access mode 0, so they end here as well.
  if ((flags & O_ACCMODE) != O_RDWR || (flags & O_PATH) != 0) {
    return Error{Status::permission_denied, "the descriptor is not open for reading and writing"};
  }
  return MemoryFile(std::move(fd), static_cast<std::uint64_t>(file.st_size), facts->page_bytes,
                    facts->huge);
}

unsigned MemoryFile::seals() const noexcept {
  const int seals = ::fcntl(fd_.get(), F_GET_SEALS);
  return seals < 0 ? 0u : static_cast<unsigned>(seals);
}

bool MemoryFile::cannot_shrink() const noexcept {
  return (seals() & F_SEAL_SHRINK) != 0;
}

Outcome MemoryFile::seal_final() {
  return seal(F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
}

Outcome MemoryFile::seal_whole() {
  return seal(F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL);
}

Outcome MemoryFile::seal(unsigned seals) {
  if (::fcntl(fd_.get(), F_ADD_SEALS, seals) != 0) {
    return system_error("final seals of a memory file", errno);
  }
  return Done{};
}

Expected<std::uint64_t> MemoryFile::first_hole() const {
  const off_t hole = ::lseek(fd_.get(), 0, SEEK_HOLE);
  if (hole < 0) return system_error("SEEK_HOLE of a memory file", errno);
  return static_cast<std::uint64_t>(hole);
}

}  // namespace simm::ipc
