#include "tests/siege/daemon_process.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "ipc/admin_codec.h"
#include "ipc/fd_socket.h"

namespace simm::siege {

namespace {

constexpr std::uint64_t kAdminTimeoutNs = 5'000'000'000;

std::string make_directory() {
  std::string name = "/tmp/simm-siege-XXXXXX";
  REQUIRE(::mkdtemp(name.data()) != nullptr);
  return name;
}

void write_config(const std::string& directory) {
  const nlohmann::json config = {
      {"run_directory", directory},
      {"admin_socket", directory + "/admin.sock"},
      {"counters_file", directory + "/counters"},
      {"sockets",
       {{{"path", directory + "/red.sock"}, {"tenant", "red"}, {"mode", "0666"}},
        {{"path", directory + "/blue.sock"}, {"tenant", "blue"}, {"mode", "0666"}}}},
      {"tenants", {{{"name", "red"}}, {{"name", "blue"}}}},
      {"node", {{"pool_bytes", "256MiB"}}},
      {"store", {{"verify", "always"}}},
      {"log", {{"level", "error"}}}};
  std::ofstream(directory + "/simm.json") << config.dump(2);
}

}  // namespace

DaemonProcess::DaemonProcess() : directory_(make_directory()) {
  write_config(directory_);
  const std::string config = directory_ + "/simm.json";
  pid_ = ::fork();
  REQUIRE(pid_ >= 0);
  if (pid_ == 0) {
    ::execl(SIMM_DAEMON, "simmd", "all", "--config", config.c_str(), nullptr);
    ::_exit(127);
  }
  for (int tries = 0; tries < 1000; ++tries) {
    if (ipc::FdSocket::connect(red_socket(), kAdminTimeoutNs).has_value()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  FAIL("simmd did not open " << red_socket());
}

DaemonProcess::~DaemonProcess() {
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

bool DaemonProcess::alive() const {
  return ::waitpid(pid_, nullptr, WNOHANG) == 0;
}

nlohmann::json DaemonProcess::report(const std::string& command) const {
  auto socket = ipc::FdSocket::connect(directory_ + "/admin.sock", kAdminTimeoutNs);
  REQUIRE(socket.has_value());
  std::string text;
  std::uint64_t cursor = 0;
  do {
    const auto packet = ipc::encode(ipc::AdminRequest{1, command, "", cursor});
    REQUIRE(packet.has_value());
    REQUIRE(socket->send(*packet, {}, kAdminTimeoutNs) == ipc::SocketResult::done);
    std::vector<std::byte> buffer(ipc::kControlMessageBytesMax);
    const auto received = socket->receive(buffer, kAdminTimeoutNs);
    REQUIRE(received.result == ipc::SocketResult::done);
    const auto reply = ipc::decode_admin_reply(std::span(buffer).first(received.bytes));
    REQUIRE(reply.has_value());
    REQUIRE(reply->status == Status::ok);
    text += reply->text;
    cursor = reply->next_cursor;
  } while (cursor != 0);
  return nlohmann::json::parse(text);
}

std::uint64_t DaemonProcess::counter(const std::string& name) const {
  const auto stats = report("stats");
  const auto& counters = stats.contains("counters") ? stats["counters"] : stats;
  return counters.contains(name) ? counters[name].get<std::uint64_t>() : 0;
}

std::size_t DaemonProcess::sessions_settled_to(std::size_t wanted) const {
  std::size_t open = 0;
  for (int tries = 0; tries < 500; ++tries) {
    open = report("status")["sessions"].get<std::size_t>();
    if (open <= wanted) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return open;
}

std::size_t DaemonProcess::descriptors() const {
  const std::filesystem::directory_iterator all("/proc/" + std::to_string(pid_) + "/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

std::uint64_t DaemonProcess::resident_bytes() const {
  std::ifstream status("/proc/" + std::to_string(pid_) + "/status");
  std::string word;
  while (status >> word) {
    std::uint64_t kib = 0;
    if (word == "VmRSS:" && status >> kib) return kib * 1024;
  }
  return 0;
}

}  // namespace simm::siege
