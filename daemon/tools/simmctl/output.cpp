#include "daemon/tools/simmctl/output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "daemon/tools/simmctl/table.h"
#include "ipc/fd.h"

namespace simm::ctl {

using nlohmann::ordered_json;

int write_out(std::string_view text) {
  // SIGPIPE is ignored (main.cpp), so a reader that has gone shows up here.
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
    if (written >= 0 || errno == EINTR) continue;
    if (errno == EPIPE) return kDone;
    std::fprintf(stderr, "simmctl: standard output: %s\n", std::strerror(errno));
    return kFailed;
  }
  return kDone;
}

bool has_reader() {
  pollfd out{STDOUT_FILENO, 0, 0};
  return ::poll(&out, 1, 0) <= 0 || (out.revents & (POLLERR | POLLHUP)) == 0;
}

int write_to(const std::string& file, std::string_view text) {
  if (file.empty() || file == "-") return write_out(text);
  const ipc::UniqueFd opened(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!opened) return failed({Status::invalid_argument, file + ": " + std::strerror(errno)});
  while (!text.empty()) {
    const ssize_t written = ::write(opened.get(), text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return failed({Status::io_error, file + ": " + std::strerror(errno)});
    }
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return kDone;
}

int failed(const Error& error) {
  std::fprintf(stderr, "simmctl: %s\n", error.context.c_str());
  return exit_code_of(error.status);
}

int show(const ordered_json& value, bool json) {
  // Both replace what is not UTF-8: an argument of a client may end up in a name.
  return write_out(json ? value.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n"
                        : table_of(value));
}

}  // namespace simm::ctl
