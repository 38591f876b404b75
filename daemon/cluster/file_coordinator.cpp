#include "daemon/cluster/file_coordinator.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <utility>

#include "daemon/base/hash.h"

namespace simm::cluster {
namespace {

constexpr std::array<char, 8> kMagic = {'s', 'i', 'm', 'm', 's', 't', 'a', 't'};
constexpr std::uint32_t kVersion = 1;

struct StateHeader {
  std::array<char, 8> magic = kMagic;
  std::uint32_t version = kVersion;
  std::uint32_t zero = 0;
  std::uint64_t epoch = 0;
  std::uint64_t bytes = 0;
  std::uint64_t state_digest = 0;
  std::uint64_t header_digest = 0;

  [[nodiscard]] std::uint64_t own_digest() const {
    return base::payload_digest(this, offsetof(StateHeader, header_digest));
  }
};
static_assert(sizeof(StateHeader) == 48);
static_assert(offsetof(StateHeader, epoch) == 16 && offsetof(StateHeader, state_digest) == 32);

Error untrusted(Status status, const std::string& path, const std::string& what) {
  return {status, "manager state " + path + " " + what +
                      "; move it away and start again: the daemons of the cluster bring back the "
                      "map that they have"};
}

Outcome read_exactly(int fd, std::span<std::byte> to, const std::string& path) {
  for (std::size_t done = 0; done < to.size();) {
    // SAFETY: done < to.size(), by the loop's condition.
    const ssize_t got = ::read(fd, to.data() + done, to.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("read " + path, errno);
    if (got == 0) return untrusted(Status::corrupt, path, "is cut short");
    done += static_cast<std::size_t>(got);
  }
  return Done{};
}

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

Outcome check_header(const StateHeader& header, std::uint64_t file_bytes, const std::string& path) {
  if (header.magic != kMagic) {
    return untrusted(Status::incompatible, path, "is no manager's state (another magic)");
  }
  if (header.version != kVersion) {
    return untrusted(Status::incompatible, path,
                     "has format version " + std::to_string(header.version) + ", this is version " +
                         std::to_string(kVersion));
  }
  if (header.header_digest != header.own_digest() || header.zero != 0) {
    return untrusted(Status::corrupt, path, "has a damaged header");
  }
  if (header.epoch == 0 || header.bytes > kStateBytesMax ||
      file_bytes != sizeof header + header.bytes) {
    return untrusted(Status::corrupt, path,
                     "has " + std::to_string(file_bytes) + " bytes, its header speaks of " +
                         std::to_string(header.bytes));
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
    return untrusted(Status::incompatible, path_, "is not a regular file");
  }
  StateHeader header;
  if (Outcome read = read_exactly(file.get(), std::as_writable_bytes(std::span(&header, 1)), path_);
      !read) {
    return std::move(read).error();
  }
  const auto file_bytes = static_cast<std::uint64_t>(info.st_size);
  if (Outcome sound = check_header(header, file_bytes, path_); !sound) {
    return std::move(sound).error();
  }
  StoredState state;
  state.epoch = header.epoch;
  state.bytes.resize(header.bytes);
  if (Outcome read = read_exactly(file.get(), state.bytes, path_); !read) {
    return std::move(read).error();
  }
  if (base::payload_digest(state.bytes.data(), state.bytes.size()) != header.state_digest) {
    return untrusted(Status::corrupt, path_, "does not match its checksum");
  }
  return std::optional(std::move(state));
}

Outcome FileCoordinator::write_beside(const StoredState& state) const {
  const std::string path = path_ + ".new";
  // What a manager that died here has left is of no use to anybody.
  ::unlink(path.c_str());
  const ipc::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return system_error("open " + path, errno);
  StateHeader header;
  header.epoch = state.epoch;
  header.bytes = state.bytes.size();
  header.state_digest = base::payload_digest(state.bytes.data(), state.bytes.size());
  header.header_digest = header.own_digest();
  if (Outcome written = write_all(file.get(), std::as_bytes(std::span(&header, 1)), path);
      !written) {
    return written;
  }
  if (Outcome written = write_all(file.get(), state.bytes, path); !written) return written;
  if (::fsync(file.get()) != 0) return system_error("sync " + path, errno);
  return Done{};
}

Outcome FileCoordinator::store(base::Epoch expected, const StoredState& state) {
  if (state.epoch <= expected || state.bytes.size() > kStateBytesMax) {
    return Error{Status::invalid_argument, "manager state of epoch " + std::to_string(state.epoch) +
                                               " and " + std::to_string(state.bytes.size()) +
                                               " bytes after epoch " + std::to_string(expected)};
  }
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
