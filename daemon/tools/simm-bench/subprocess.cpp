#include "daemon/tools/simm-bench/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "daemon/tools/simm-bench/pinning.h"

namespace simm::bench {
namespace {

// Of a program that prints one object: an hour is a program that hangs.
constexpr std::chrono::seconds kJsonTimeout{3'600};

// In the child, up to exec. Returns only when exec failed.
void become(std::vector<char*>& arguments, const SpawnOptions& options, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(127);  // the parent died before the line above
  if (options.cpu >= 0) pin_this_thread(options.cpu);
  if (!options.network.empty()) {
    const int network = open(options.network.c_str(), O_RDONLY | O_CLOEXEC);
    if (network < 0 || setns(network, CLONE_NEWNET) != 0) return;
  }
  for (const auto& [name, value] : options.environment) setenv(name.c_str(), value.c_str(), 1);
  if (options.stdout_fd >= 0) dup2(options.stdout_fd, STDOUT_FILENO);
  if (options.stderr_fd >= 0) dup2(options.stderr_fd, STDERR_FILENO);
  execvp(arguments[0], arguments.data());
}

// False when the other end is still open at that time.
bool read_all(int fd, std::string& text, std::chrono::steady_clock::time_point end) {
  using std::chrono::milliseconds;
  std::array<char, 4096> chunk{};
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    pollfd waiting{fd, POLLIN, 0};
    if (poll(&waiting, 1, static_cast<int>(std::min(left, milliseconds(60'000)).count())) <= 0) {
      continue;
    }
    const ssize_t count = read(fd, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return true;
    text.append(chunk.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

std::string program_path(const std::string& name) {
  std::array<char, PATH_MAX> self{};
  const ssize_t length = readlink("/proc/self/exe", self.data(), self.size() - 1);
  if (length > 0) {
    const std::string own(self.data(), static_cast<std::size_t>(length));
    const std::string beside = own.substr(0, own.rfind('/') + 1) + name;
    if (access(beside.c_str(), X_OK) == 0) return beside;
  }
  return name;
}

Expected<pid_t> spawn(const std::vector<std::string>& arguments, const SpawnOptions& options) {
  std::vector<char*> pointers;
  for (const std::string& argument : arguments) {
    pointers.push_back(const_cast<char*>(argument.c_str()));
  }
  pointers.push_back(nullptr);
  // exec failed or not: the pipe closes by itself when it did not.
  std::array<int, 2> failure{};
  if (pipe2(failure.data(), O_CLOEXEC) != 0) return system_error("pipe2", errno);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child == 0) {
    become(pointers, options, parent);
    const int error = errno;
    if (write(failure[1], &error, sizeof error) < 0) _exit(126);
    _exit(127);
  }
  const int fork_errno = errno;
  close(failure[1]);
  int exec_errno = 0;
  const bool failed = child > 0 && read(failure[0], &exec_errno, sizeof exec_errno) > 0;
  close(failure[0]);
  if (child < 0) return system_error("fork", fork_errno);
  if (failed) {
    waitpid(child, nullptr, 0);
    Error error = system_error(arguments[0], exec_errno);
    error.context += ": " + options.remedy;
    return error;
  }
  return child;
}

Expected<CapturedProcess> CapturedProcess::start(const std::vector<std::string>& arguments,
                                                 SpawnOptions options, bool with_errors) {
  std::array<int, 2> output{};
  if (pipe2(output.data(), O_CLOEXEC) != 0) return system_error("pipe2", errno);
  options.stdout_fd = output[1];
  options.stderr_fd = with_errors ? output[1] : -1;
  const Expected<pid_t> child = spawn(arguments, options);
  close(output[1]);
  if (child) return CapturedProcess(arguments.front(), *child, output[0]);
  close(output[0]);
  return child.error();
}

CapturedProcess::CapturedProcess(CapturedProcess&& other) noexcept
    : name_(std::move(other.name_)),
      pid_(std::exchange(other.pid_, -1)),
      fd_(std::exchange(other.fd_, -1)) {}

CapturedProcess::~CapturedProcess() {
  if (fd_ >= 0) close(fd_);
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

Expected<CapturedProcess::Result> CapturedProcess::finish(std::chrono::seconds limit) {
  Result result;
  if (!read_all(fd_, result.text, std::chrono::steady_clock::now() + limit)) {
    return Error{Status::timeout, name_ + ": did not end within " + std::to_string(limit.count()) +
                                      " s, printed '" + result.text.substr(0, 1'000) + "'"};
  }
  waitpid(pid_, &result.wait_status, 0);
  pid_ = -1;
  return result;
}

bool CapturedProcess::is_running() const {
  siginfo_t info{};
  const auto id = static_cast<id_t>(pid_);
  return pid_ > 0 && waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

Expected<nlohmann::json> run_json(const std::vector<std::string>& arguments) {
  Expected<CapturedProcess> child = CapturedProcess::start(arguments, {}, /*with_errors=*/false);
  if (!child) return child.error();
  const Expected<CapturedProcess::Result> result = child->finish(kJsonTimeout);
  if (!result) return result.error();
  nlohmann::json value = nlohmann::json::parse(result->text, nullptr, /*allow_exceptions=*/false);
  if (!result->ok() || !value.is_object()) {
    return Error{Status::io_error,
                 arguments[0] + ": wait status " + std::to_string(result->wait_status) +
                     ", printed '" + result->text.substr(0, 200) + "': run it by hand to see why"};
  }
  return value;
}

}  // namespace simm::bench
