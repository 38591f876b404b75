#include "daemon/tools/simmctl/admin_client.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "ipc/admin_codec.h"

namespace simm::ctl {

Expected<AdminClient> AdminClient::connect(const std::string& path, std::uint32_t timeout_ms) {
  const std::uint64_t timeout_ns = std::uint64_t{timeout_ms} * 1'000'000;
  Expected<ipc::FdSocket> socket = ipc::FdSocket::connect(path, timeout_ns);
  if (!socket) {
    Error error = std::move(socket).error();
    if (error.status == Status::unreachable) {
      error.context = "no daemon at " + path +
                      ": start `simmd all`, or name its admin socket with " +
                      "--admin (it is beside the daemon's other files)";
    } else if (error.status == Status::permission_denied) {
      error.context = path + ": only root and the daemon's own user may ask";
    }
    return error;
  }
  return AdminClient(std::move(*socket), path, timeout_ns);
}

Expected<std::string> AdminClient::ask(const std::string& command, const std::string& argument) {
  std::string text;
  std::array<std::byte, ipc::kControlMessageBytesMax> buffer;
  ipc::AdminRequest request;
  request.command = command;
  request.argument = argument;
  do {
    request.request_id = next_id_++;
    const Expected<std::vector<std::byte>> packet = ipc::encode(request);
    if (!packet) return packet.error();
    if (socket_.send(*packet, {}, timeout_ns_) != ipc::SocketResult::done) {
      return Error{Status::unreachable,
                   path_ + ": the daemon closed the connection: only root and the daemon's own " +
                       "user may ask"};
    }
    const ipc::Received received = socket_.receive(buffer, timeout_ns_);
    if (received.result == ipc::SocketResult::would_block) {
      return Error{Status::timeout, path_ + ": the daemon does not answer: is it stopped?"};
    }
    if (received.result != ipc::SocketResult::done) {
      return Error{Status::unreachable,
                   path_ + ": the daemon closed the connection: only root and the daemon's own " +
                       "user may ask"};
    }
    Expected<ipc::AdminReply> reply =
        ipc::decode_admin_reply(std::span(buffer.data(), received.bytes));
    if (!reply) return std::move(reply).error();
    if (reply->request_id != request.request_id) {
      return Error{Status::incompatible, path_ + ": an answer to another question"};
    }
    if (reply->status != Status::ok) return Error{reply->status, reply->text};
    text += reply->text;
    request.cursor = reply->next_cursor;
  } while (request.cursor != 0);
  return text;
}

std::string find_admin_socket() {
  constexpr const char* kName = "/admin.sock";
  const char* const data_socket = std::getenv("SIMM_SOCKET");
  if (data_socket != nullptr && *data_socket != '\0') {
    const std::string path = data_socket;
    const std::size_t slash = path.rfind('/');
    return (slash == std::string::npos ? "." : path.substr(0, slash)) + kName;
  }
  std::vector<std::string> places = {"/run/simm"};
  const char* const runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime != '\0') places.push_back(std::string(runtime) + "/simm");
  places.push_back("/tmp/simm-" + std::to_string(::getuid()));
  for (const std::string& place : places) {
    if (::access((place + kName).c_str(), F_OK) == 0) return place + kName;
  }
  return places.front() + kName;
}

}  // namespace simm::ctl
