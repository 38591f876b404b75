#include "tests/support/daemon_process.h"

#include <dirent.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "daemon/base/counters.h"
#include "ipc/admin_codec.h"
#include "ipc/fd_socket.h"
#include "tests/support/paths.h"

namespace simm::test_support {
namespace {

// One message to a service manager, and the file that came with it.
std::string receive(int socket, ipc::UniqueFd& file) {
  char text[512];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  iovec into{text, sizeof text};
  msghdr header{};
  header.msg_iov = &into;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  const ssize_t got = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    int received = -1;
    std::memcpy(&received, CMSG_DATA(part), sizeof received);
    file.reset(received);
  }
  return std::string(text, got > 0 ? static_cast<std::size_t>(got) : 0);
}

}  // namespace

DaemonProcess::DaemonProcess(const std::string& keys, std::string role) : role_(std::move(role)) {
  std::string expanded = keys;
  for (std::size_t at = 0; (at = expanded.find("$DIR", at)) != std::string::npos;) {
    expanded.replace(at, 4, directory());
  }
  // A client of a busy machine may need longer to say hello than one in production may take.
  nlohmann::json config = {{"run_directory", directory()},
                           {"session", {{"handshake_ms", 10'000}}},
                           {"log", {{"level", "debug"}}},
                           {"node", {{"pool_bytes", "64MiB"}, {"hugepages", "off"}}},
                           {"store", {{"verify", "always"}}}};
  config.merge_patch(nlohmann::json::parse("{" + expanded + "}"));
  std::ofstream(config_path_) << config.dump();

  notify_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = directory_ / "notify.sock";
  std::memcpy(address.sun_path, path.data(), path.size());
  REQUIRE(::bind(notify_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::chmod(path.c_str(), 0666) == 0);  // for a daemon that becomes another user
  environment_["NOTIFY_SOCKET"] = path;
}

DaemonProcess::~DaemonProcess() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
}

bool DaemonProcess::start() {
  launch();
  return await_ready(60'000);  // with sanitizers, beside other work
}

// News of a long recovery comes before.
bool DaemonProcess::await_ready(int wait_ms) {
  std::string message;
  do {
    message = next_notification(wait_ms);
  } while (message.find("EXTEND_TIMEOUT_USEC=") == 0);
  return message.find("READY=1") == 0;
}

void DaemonProcess::launch() {
  // What its predecessor said is of no interest.
  char old[512];
  while (::recv(notify_.get(), old, sizeof old, MSG_DONTWAIT) > 0) {
  }
  pid_ = ::fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) run_child();
}

void DaemonProcess::run_child() {
  const std::string log_path = directory_ / "log";
  const int log = ::open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  ::dup2(log, STDERR_FILENO);
  std::string names;
  for (const auto& [name, file] : kept_) inherited_.push_back({file.get(), name});
  // Out of the way first: the targets 3, 4, ... may be sources of others.
  for (Inherited& socket : inherited_) socket.fd = ::fcntl(socket.fd, F_DUPFD_CLOEXEC, 100);
  for (std::size_t i = 0; i < inherited_.size(); ++i) {
    ::dup2(inherited_[i].fd, 3 + static_cast<int>(i));
    names += (names.empty() ? "" : ":") + inherited_[i].name;
  }
  if (!inherited_.empty()) {
    ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
    ::setenv("LISTEN_FDS", std::to_string(inherited_.size()).c_str(), 1);
    ::setenv("LISTEN_FDNAMES", names.c_str(), 1);
  }
  if (!network_.empty()) {
    const ipc::UniqueFd network(::open(network_.c_str(), O_RDONLY | O_CLOEXEC));
    if (::setns(network.get(), CLONE_NEWNET) != 0) ::_exit(126);
    // A network lives as long as anybody in it: not longer than a test that crashes.
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  }
  for (const auto& [name, value] : environment_) ::setenv(name.c_str(), value.c_str(), 1);
  ::execl(program("simmd").c_str(), "simmd", role_.c_str(), "--config", config_path_.c_str(),
          static_cast<char*>(nullptr));
  ::_exit(127);
}

void DaemonProcess::keep_or_drop(const std::string& message, ipc::UniqueFd file) {
  const std::string name = message.substr(message.find("FDNAME=") + 7);
  if (message.find("FDSTOREREMOVE=1") == 0) {
    kept_.erase(name);
  } else {
    REQUIRE(file.valid());
    kept_[name] = std::move(file);
  }
}

std::string DaemonProcess::next_notification(int wait_ms) {
  // In slices, so that a daemon that ends at once is noticed at once.
  for (int waited = 0; waited <= wait_ms; waited += 20) {
    pollfd polled{notify_.get(), POLLIN, 0};
    if (::poll(&polled, 1, 20) > 0) {
      ipc::UniqueFd file;
      std::string message = receive(notify_.get(), file);
      if (message.find("FDSTORE") != 0) return message;
      keep_or_drop(message, std::move(file));
    }
    if (!alive()) return "";
  }
  return "";
}

void DaemonProcess::signal(int number) const {
  REQUIRE(pid_ > 0);  // -1 is every process of the machine
  ::kill(pid_, number);
  if (number != SIGSTOP) return;
  // Its threads go on until one of them has taken the signal: on a busy machine long enough to
  // serve another request.
  siginfo_t stopped{};
  ::waitid(P_PID, static_cast<id_t>(pid_), &stopped, WSTOPPED | WEXITED | WNOWAIT);
}

int DaemonProcess::wait(int wait_ms) {
  int status = 0;
  const bool ended = eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, wait_ms);
  if (!ended) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, &status, 0);
  }
  pid_ = -1;
  if (!ended) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

std::string DaemonProcess::log() const {
  std::ifstream file(directory_ / "log");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::uint64_t DaemonProcess::counter(const std::string& name) const {
  const auto reader = base::CountersReader::open(directory_ / "counters");
  REQUIRE(reader.has_value());
  for (const auto& [label, value] : reader->snapshot()) {
    if (label == name) return value;
  }
  return 0;
}

std::string DaemonProcess::ask(const std::string& command, const std::string& argument) const {
  constexpr std::uint64_t kPatienceNs = 60'000'000'000;
  auto socket = ipc::FdSocket::connect(admin_socket(), kPatienceNs);
  REQUIRE(socket.has_value());
  std::string text;
  ipc::AdminRequest request{1, command, argument, 0};
  do {
    const auto packet = ipc::encode(request);
    REQUIRE(packet.has_value());
    CHECK(socket->send(*packet, {}, kPatienceNs) == ipc::SocketResult::done);
    std::vector<std::byte> buffer(ipc::kControlMessageBytesMax);
    const ipc::Received received = socket->receive(buffer, kPatienceNs);
    REQUIRE(received.result == ipc::SocketResult::done);
    const auto reply = ipc::decode_admin_reply(std::span(buffer.data(), received.bytes));
    REQUIRE(reply.has_value());
    text += reply->text;
    request.cursor = reply->next_cursor;
  } while (request.cursor != 0);
  return text;
}

nlohmann::json DaemonProcess::report(const std::string& command,
                                     const std::string& argument) const {
  return nlohmann::json::parse(ask(command, argument), nullptr, false);
}

std::size_t DaemonProcess::sessions_settled_to(std::size_t wanted) const {
  std::size_t open = 0;
  (void)eventually([&] {
    open = report("status")["sessions"].get<std::size_t>();
    return open <= wanted;
  });
  return open;
}

bool DaemonProcess::alive() const {
  siginfo_t ended{};
  const auto pid = static_cast<id_t>(pid_);
  return ::waitid(P_PID, pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0;
}

std::size_t DaemonProcess::open_descriptors() const {
  std::size_t count = 0;
  DIR* directory = ::opendir(("/proc/" + std::to_string(pid_) + "/fd").c_str());
  REQUIRE(directory != nullptr);
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count;
}

}  // namespace simm::test_support
