#include "tests/support/hanging_file.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <span>
#include <utility>

namespace simm::test_support {

namespace {

constexpr std::uint64_t kServerPatienceNs = 10'000'000'000;
constexpr std::uint64_t kFileNode = 2;  // 1 is the directory
constexpr std::uint64_t kFileBytes = 1 << 20;

// The file system: one directory with one file. Source of the protocol: <linux/fuse.h>.
class FileServer {
public:
  FileServer(int device, ipc::FdSocket control, std::string directory)
      : device_(device), control_(std::move(control)), directory_(std::move(directory)) {}

  [[noreturn]] void run() {
    opener_ = ::fork();
    if (opener_ == 0) open_file();
    for (;;) {
      pollfd polled[2] = {{device_, POLLIN, 0}, {control_.fd(), POLLIN, 0}};
      (void)::poll(polled, 2, 20);
      if ((polled[0].revents & POLLIN) != 0) serve();
      if ((polled[1].revents & (POLLIN | POLLHUP)) != 0) obey();
      // Hangs only when the opener's own descriptor is closed.
      if (opener_ > 0 && ::waitpid(opener_, nullptr, WNOHANG) == opener_) {
        opener_ = 0;
        hangs_ = true;
        tell(0);
      }
    }
  }

private:
  [[noreturn]] void open_file() {
    const int fd = ::open((directory_ + "/file").c_str(), O_RDWR | O_CLOEXEC);
    const std::byte opened{1};
    if (fd >= 0) (void)control_.send({&opened, 1}, std::span(&fd, 1), kServerPatienceNs);
    ::_exit(0);
  }
  void tell(std::uint32_t operation) {
    (void)control_.try_send(std::as_bytes(std::span(&operation, 1)));
  }
  void obey() {
    std::byte command{};
    if (control_.try_receive({&command, 1}).result != ipc::SocketResult::done) ::_exit(0);
    hangs_ = false;
    for (const fuse_in_header& request : waiting_) answer(request);
    waiting_.clear();
  }
  void serve() {
    alignas(fuse_in_header) char buffer[FUSE_MIN_READ_BUFFER + 4096];
    const ssize_t got = ::read(device_, buffer, sizeof buffer);
    if (got < static_cast<ssize_t>(sizeof(fuse_in_header))) return;
    fuse_in_header request{};
    std::memcpy(&request, buffer, sizeof request);
    const bool wants_no_answer = request.opcode == FUSE_FORGET ||
                                 request.opcode == FUSE_BATCH_FORGET ||
                                 request.opcode == FUSE_INTERRUPT;
    if (wants_no_answer) return;
    if (!hangs_) return answer(request);
    tell(request.opcode);
    waiting_.push_back(request);
  }
  void answer(const fuse_in_header& request) {
    switch (request.opcode) {
      case FUSE_INIT: {
        fuse_init_out out{};
        out.major = FUSE_KERNEL_VERSION;
        out.minor = 31;
        out.max_write = 4096;
        return reply(request, out);
      }
      case FUSE_LOOKUP: {
        fuse_entry_out out{};
        out.nodeid = kFileNode;
        out.attr = attributes(kFileNode);
        return reply(request, out);
      }
      case FUSE_GETATTR: {
        fuse_attr_out out{};
        out.attr = attributes(request.nodeid);
        return reply(request, out);
      }
      case FUSE_OPEN:
        return reply(request, fuse_open_out{});
      case FUSE_FLUSH:
      case FUSE_RELEASE:
        return send(request, 0, {});
      default:
        return send(request, -ENOSYS, {});
    }
  }
  static fuse_attr attributes(std::uint64_t node) {
    fuse_attr out{};
    out.ino = node;
    out.mode = node == kFileNode ? S_IFREG | 0666 : S_IFDIR | 0755;
    out.nlink = 1;
    out.size = node == kFileNode ? kFileBytes : 0;
    return out;
  }
  template <typename Out>
  void reply(const fuse_in_header& request, const Out& out) {
    send(request, 0, std::as_bytes(std::span(&out, 1)));
  }
  void send(const fuse_in_header& request, int error, std::span<const std::byte> body) {
    std::vector<std::byte> message(sizeof(fuse_out_header) + body.size());
    const fuse_out_header header{static_cast<std::uint32_t>(message.size()), error, request.unique};
    std::memcpy(message.data(), &header, sizeof header);
    if (!body.empty()) std::memcpy(message.data() + sizeof header, body.data(), body.size());
    (void)!::write(device_, message.data(), message.size());
  }

  const int device_;
  ipc::FdSocket control_;
  const std::string directory_;
  pid_t opener_ = 0;
  bool hangs_ = false;
  std::vector<fuse_in_header> waiting_;
};

[[noreturn]] void mount_and_serve(ipc::FdSocket control, const std::string& directory) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int device = ::open("/dev/fuse", O_RDWR | O_CLOEXEC);
  const std::string options =
      "fd=" + std::to_string(device) + ",rootmode=40000,user_id=0,group_id=0";
  const bool mounted =
      device >= 0 && ::unshare(CLONE_NEWNS) == 0 &&
      ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
      ::mount("simm-test", directory.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) == 0;
  if (!mounted) ::_exit(1);  // the other end of the control socket hangs up
  FileServer(device, std::move(control), directory).run();
}

}  // namespace

HangingFile::HangingFile() {
  auto control = ipc::FdSocket::pair();
  REQUIRE(control.has_value());
  server_ = ::fork();
  REQUIRE(server_ >= 0);
  if (server_ == 0) {
    control->first.close();
    mount_and_serve(std::move(control->second), directory_.path());
  }
  control->second.close();
  control_ = std::move(control->first);
  std::uint32_t message = 0;
  const auto bytes = std::as_writable_bytes(std::span(&message, 1));
  ipc::Received opened = control_.receive(bytes, kServerPatienceNs);
  if (opened.result != ipc::SocketResult::done || opened.fd_count != 1) {
    MESSAGE("skipped: a FUSE file system can not be mounted here");
    return;
  }
  fd_ = std::move(opened.fds[0]);
  REQUIRE(control_.receive(bytes, kServerPatienceNs).result == ipc::SocketResult::done);
}

HangingFile::~HangingFile() {
  if (server_ > 0) {
    ::kill(server_, SIGKILL);
    ::waitpid(server_, nullptr, 0);
  }
}

const std::vector<std::uint32_t>& HangingFile::operations() {
  std::uint32_t operation = 0;
  const auto bytes = std::as_writable_bytes(std::span(&operation, 1));
  while (control_.try_receive(bytes).result == ipc::SocketResult::done) {
    operations_.push_back(operation);
  }
  return operations_;
}

void HangingFile::answer() {
  const std::byte command{1};
  REQUIRE(control_.try_send({&command, 1}) == ipc::SocketResult::done);
}

}  // namespace simm::test_support
