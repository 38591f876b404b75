#include "daemon/cluster/file_coordinator.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <span>
#include <utility>
#include <vector>

#include "daemon/cluster/state_envelope.h"

namespace simm::cluster {
namespace {

std::string place_of(const std::string& path) {
  return "manager state " + path;
}

constexpr const char* kRemedy =
    "move it away and start again: the daemons of the cluster bring back the map that they have";

Outcome write_all(int fd, std::span<const std::byte> from, const std::string& path) {
  for (std::size_t done = 0; done < from.size();) {
    // SAFETY: done < from.size(), by the loop's condition.
    const ssize_t put = ::write(fd, from.data() + done, from.size() - done);
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_error("write " + path, errno);
    done += static_cast<std::size_t>(put);
  }
  return Done{};
}

std::string directory_of(const std::string& path) {
  const std::string directory = std::filesystem::path(path).parent_path();
  return directory.empty() ? "." : directory;
}

Outcome sync_directory(const std::string& path) {
  const std::string directory = directory_of(path);
  const ipc::UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return system_error("open directory " + directory, errno);
  if (::fsync(fd.get()) != 0) return system_error("sync directory " + directory, errno);
  return Done{};
}

}  // namespace

FileCoordinator::FileCoordinator(std::string path, ipc::UniqueFd lock)
    : path_(std::move(path)), lock_(std::move(lock)) {}

Expected<std::unique_ptr<FileCoordinator>> FileCoordinator::open(const std::string& path) {
  const std::string directory = directory_of(path);
  std::error_code failed;
  if (std::filesystem::create_directories(directory, failed); failed) {
    return Error{Status::io_error, "create directory " + directory + ": " + failed.message()};
  }
  const std::string lock_path = path + ".lock";
  ipc::UniqueFd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return system_error("open " + lock_path, errno);
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return system_error("lock " + lock_path, errno);
    return Error{Status::invalid_state, "manager state " + path +
                                            " is in use by another manager; stop that one, or give "
                                            "this one a state file of its own"};
  }
  return std::unique_ptr<FileCoordinator>(new FileCoordinator(path, std::move(lock)));
}

Expected<std::optional<StoredState>> FileCoordinator::load() {
  const ipc::UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file && errno == ENOENT) return std::optional<StoredState>();
  if (!file) return system_error("open " + path_, errno);
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return system_error("stat " + path_, errno);
  if (!S_ISREG(info.st_mode)) {
    return Error{Status::incompatible, place_of(path_) + " is not a regular file; " + kRemedy};
  }
  // One byte more than may be there: it is noticed.
  std::vector<std::byte> sealed(kEnvelopeBytes + kStateBytesMax + 1);
  std::size_t length = 0;
  while (length < sealed.size()) {
    // SAFETY: length < sealed.size(), by the loop's condition.
    const ssize_t got = ::read(file.get(), sealed.data() + length, sealed.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("read " + path_, errno);
    if (got == 0) break;
    length += static_cast<std::size_t>(got);
  }
  auto state = open_state(std::span(sealed).first(length), place_of(path_), kRemedy);
  if (!state) return std::move(state).error();
  return std::optional(std::move(*state));
}

Outcome FileCoordinator::write_beside(const StoredState& state) const {
  const std::string path = path_ + ".new";
  // What a manager that died here has left is of no use to anybody.
  ::unlink(path.c_str());
  const ipc::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return system_error("open " + path, errno);
  if (Outcome written = write_all(file.get(), seal_state(state), path); !written) return written;
  if (::fsync(file.get()) != 0) return system_error("sync " + path, errno);
  return Done{};
}

Outcome FileCoordinator::store(base::Epoch expected, const StoredState& state) {
  if (Outcome sound = check_state(expected, state); !sound) return sound;
  const auto stored = load();
  if (!stored) return stored.error();
  const base::Epoch there = stored->has_value() ? stored.value()->epoch : 0;
  if (there != expected) {
    return Error{Status::invalid_state, "manager state " + path_ + " has epoch " +
                                            std::to_string(there) + ", expected was " +
                                            std::to_string(expected)};
  }
  if (Outcome written = write_beside(state); !written) return written;
  if (::rename((path_ + ".new").c_str(), path_.c_str()) != 0) {
    return system_error("rename " + path_ + ".new", errno);
  }
  return sync_directory(path_);
}

}  // namespace simm::cluster
