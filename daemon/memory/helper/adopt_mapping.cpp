#include "daemon/memory/helper/adopt_mapping.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <utility>

#include "daemon/memory/helper/helper_privilege.h"
#include "daemon/memory/helper/process_maps.h"
#include "ipc/memory_file.h"
#include "ipc/range.h"

namespace simm::memory {

namespace {

Error denied(const std::string& what, int errno_value) {
  Error error = system_error(what, errno_value);
  error.status = Status::permission_denied;
  return error;
}

// The file behind a mapping, found but not opened: opening a device would act on it.
Expected<ipc::UniqueFd> find_file(pid_t pid, const MapsLine& mapping) {
  char path[96];
  std::snprintf(path, sizeof path, "/proc/%d/map_files/%llx-%llx", pid,
                static_cast<unsigned long long>(mapping.begin),
                static_cast<unsigned long long>(mapping.end));
  ipc::UniqueFd found(::open(path, O_PATH | O_CLOEXEC));
  if (!found) return denied(std::string("open ") + path, errno);
  struct stat file {};
  struct statfs system {};
  if (::fstat(found.get(), &file) != 0) return denied("fstat of the mapped file", errno);
  if (file.st_dev != mapping.device || file.st_ino != mapping.inode) {
    return Error{Status::permission_denied, "the mapping changed while it was looked at"};
  }
  if (!S_ISREG(file.st_mode)) {
    return Error{Status::permission_denied, "the mapped file is not a regular file"};
  }
  if (::fstatfs(found.get(), &system) != 0) return denied("fstatfs of the mapped file", errno);
  const auto magic = static_cast<std::uint64_t>(system.f_type);
  if (magic != TMPFS_MAGIC && magic != HUGETLBFS_MAGIC) {
    return Error{Status::permission_denied, "the mapped file is not on tmpfs or hugetlbfs"};
  }
  return found;
}

}  // namespace

Expected<AdoptedFile> adopt_mapping(const ClientProcess& client, gid_t gid, std::uint64_t address,
                                    std::uint64_t length) {
  if (Outcome same = check_before(client); !same) return std::move(same).error();
  if (Outcome acting = act_as_client(client.uid, gid); !acting) return std::move(acting).error();

  Expected<SharedRange> range = find_shared_range(client.pid, address, length);
  if (!range) return std::move(range).error();
  Expected<ipc::UniqueFd> found = find_file(client.pid, range->first);
  if (!found) return std::move(found).error();

  // The same file again, this time for use: the kernel checks its mode against the client's user.
  const std::string path = "/proc/self/fd/" + std::to_string(found->get());
  ipc::UniqueFd opened(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY));
  if (!opened) return denied("open the mapped file for writing", errno);
  Expected<ipc::MemoryFile> file = ipc::MemoryFile::inspect(std::move(opened));
  if (!file) return std::move(file).error();
  if (!ipc::range_within(range->file_offset, length, file->bytes())) {
    return Error{Status::permission_denied, "the mapping reaches beyond the end of its file"};
  }
  if (Outcome alive = check_after(client); !alive) return std::move(alive).error();
  return AdoptedFile{file->release(), range->file_offset};
}

}  // namespace simm::memory
