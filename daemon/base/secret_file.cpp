#include "daemon/base/secret_file.h"

#include <fcntl.h>
#include <string.h>  // explicit_bzero
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "ipc/fd.h"

namespace simm::base {
namespace {

constexpr mode_t kOthers = 0077;
constexpr mode_t kOthersButGroupRead = 0037;
constexpr std::size_t kNewSecretBytes = 32;

// Whoever may read the file may join the cluster, so it must be ours alone.
Outcome check_owner(const std::string& path, const struct stat& info, bool is_credential) {
  if (!S_ISREG(info.st_mode)) {
    return Error{Status::invalid_argument, path + " is not a regular file; name a file"};
  }
  if (info.st_uid != 0 && info.st_uid != ::geteuid()) {
    return Error{Status::permission_denied,
                 path + " belongs to user " + std::to_string(info.st_uid) + "; chown it to user " +
                     std::to_string(::geteuid()) + " or root"};
  }
  if ((info.st_mode & (is_credential ? kOthersButGroupRead : kOthers)) != 0) {
    return Error{Status::permission_denied,
                 path +
                     " can be used by others than its owner; chmod 600 it, and make a new secret "
                     "if somebody may have read it"};
  }
  return Done{};
}

bool is_directly_in(const std::string& path, std::string_view directory) {
  return !directory.empty() && path.size() > directory.size() && path[directory.size()] == '/' &&
         path.compare(0, directory.size(), directory) == 0 &&
         path.find('/', directory.size() + 1) == std::string::npos;
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Outcome check_secret_text(std::string_view text) {
  if (text.size() >= kSecretBytesMin && text.size() <= kSecretBytesMax) {
    std::array<bool, 256> is_there{};
    for (const char c : text) is_there[static_cast<unsigned char>(c)] = true;
    const auto distinct = std::count(is_there.begin(), is_there.end(), true);
    if (static_cast<std::size_t>(distinct) >= kSecretDistinctMin) return Done{};
    return Error{Status::invalid_argument,
                 "has only " + std::to_string(distinct) + " different bytes, a secret has " +
                     std::to_string(kSecretDistinctMin) +
                     " at least; make one with: simmctl secret create FILE"};
  }
  return Error{Status::invalid_argument,
               "holds " + std::to_string(text.size()) + " bytes, a secret has " +
                   std::to_string(kSecretBytesMin) + " to " + std::to_string(kSecretBytesMax) +
                   "; make one with: simmctl secret create FILE (or openssl rand -hex 32)"};
}

Expected<std::string> read_secret_file(const std::string& path,
                                       std::string_view credentials_directory) {
  // Not blocking: a pipe of that name must not hold the daemon's start.
  ipc::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) {
    const Status status = errno == EACCES ? Status::permission_denied : Status::invalid_argument;
    return Error{status, path + ": " + std::strerror(errno) +
                             "; make one with: simmctl secret create FILE, the same on every host "
                             "of the cluster"};
  }
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return system_error(path, errno);
  const Outcome ours = check_owner(path, info, is_directly_in(path, credentials_directory));
  if (!ours) return ours.error();

  std::array<char, kSecretBytesMax + 2> buffer{};
  std::size_t filled = 0;
  for (ssize_t got = 1; got > 0 && filled < buffer.size();) {
    got = ::read(file.get(), &buffer[filled], buffer.size() - filled);
    if (got < 0 && errno != EINTR) return system_error(path, errno);
    if (got > 0) filled += static_cast<std::size_t>(got);
    if (got < 0) got = 1;
  }
  std::string text(buffer.data(), filled);
  ::explicit_bzero(buffer.data(), buffer.size());
  if (!text.empty() && text.back() == '\n') text.pop_back();
  const Outcome fits = check_secret_text(text);
  if (fits) return text;
  ::explicit_bzero(text.data(), text.size());
  return Error{fits.status(), path + " " + fits.error().context};
}

std::string credentials_directory() {
  const char* const given = std::getenv("CREDENTIALS_DIRECTORY");
  return given == nullptr ? "" : given;
}

Expected<std::string> secret_path(const std::string& key, const std::string& file) {
  if (file.front() != '@') return file;
  const auto wrong = [&key, &file](const std::string& remedy) {
    return Error{Status::invalid_argument, key + " = " + file + ": " + remedy};
  };
  const std::string name = file.substr(1);
  if (name.empty() || name.find('/') != std::string::npos) {
    return wrong("write @ and the name of a credential, or a path");
  }
  const std::string credentials = credentials_directory();
  const std::string path = credentials + "/" + name;
  if (!credentials.empty() && ::access(path.c_str(), F_OK) == 0) return path;
  return wrong("the service manager handed over no such credential; write LoadCredential=" + name +
               ":/etc/simm/" + name + " into the unit, or a path");
}

Outcome create_secret_file(const std::string& path) {
  std::array<unsigned char, kNewSecretBytes> secret{};
  if (::getrandom(secret.data(), secret.size(), 0) != static_cast<ssize_t>(secret.size())) {
    return system_error("getrandom", errno);
  }
  std::string text;
  text.reserve(2 * secret.size() + 1);
  for (const unsigned char byte : secret) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  text += '\n';
  ::explicit_bzero(secret.data(), secret.size());
  ipc::UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) {
    const int why = errno;
    ::explicit_bzero(text.data(), text.size());
    if (why != EEXIST) return system_error(path, why);
    return Error{Status::exists,
                 path +
                     " is there already and was not touched: a cluster whose daemons have "
                     "different secrets falls apart; remove it first if you mean it"};
  }
  // The mode asked for is cut by the umask, never widened; what is cut from the owner is put back.
  const bool written =
      ::fchmod(file.get(), 0600) == 0 && write_all(file.get(), text) && ::fsync(file.get()) == 0;
  const int why = errno;
  ::explicit_bzero(text.data(), text.size());
  if (written) return Done{};
  ::unlink(path.c_str());
  return system_error(path, why);
}

}  // namespace simm::base
