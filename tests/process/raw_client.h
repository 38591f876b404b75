// RawClient: the attach protocol by hand, to say what libclient would never say.
// Thread: the test's.
#pragma once

#include <doctest/doctest.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ipc/control_codec.h"
#include "ipc/fd_socket.h"
#include "ipc/mapping.h"

namespace process_test {

class RawClient {
public:
  static constexpr std::uint64_t kPatienceNs = 5'000'000'000;

  explicit RawClient(const std::string& path) {
    auto connected = simm::ipc::FdSocket::connect(path, kPatienceNs);
    REQUIRE(connected.has_value());
    socket = std::move(*connected);
  }

  bool send(const simm::ipc::ClientMessage& message, std::span<const int> more = {}) {
    const auto packet = simm::ipc::encode(message);
    REQUIRE(packet.has_value());
    return socket.send(*packet, more, kPatienceNs) == simm::ipc::SocketResult::done;
  }

  // Nothing: the daemon hung up.
  std::optional<simm::ipc::DaemonMessage> receive() {
    std::vector<std::byte> buffer(simm::ipc::kControlMessageBytesMax);
    simm::ipc::Received received = socket.receive(buffer, kPatienceNs);
    CHECK(received.result != simm::ipc::SocketResult::would_block);
    if (received.result != simm::ipc::SocketResult::done) return std::nullopt;
    fds.clear();
    for (std::size_t i = 0; i < received.fd_count; ++i) fds.push_back(std::move(received.fds[i]));
    auto message = simm::ipc::decode_daemon_message(std::span(buffer.data(), received.bytes));
    REQUIRE(message.has_value());
    return std::move(*message);
  }
  bool hung_up() {
    while (receive().has_value()) {
    }
    return true;
  }

  // Hello and Mapped; true when the session is open. The session memory is mapped.
  bool attach(std::uint32_t lanes = 2) {
    simm::ipc::Hello hello;
    hello.lane_count = lanes;
    hello.client_name = "raw";
    if (!send(hello)) return false;
    const auto welcome = receive();
    if (!welcome || !std::holds_alternative<simm::ipc::Welcome>(*welcome)) return false;
    auto mapped = simm::ipc::Mapping::map(fds[0].get(), 0,
                                          std::get<simm::ipc::Welcome>(*welcome).session_bytes);
    REQUIRE(mapped.has_value());
    memory = std::move(*mapped);
    bell = std::move(fds[1]);
    if (!send(simm::ipc::Mapped{})) return false;
    const auto opened = receive();
    return opened && std::holds_alternative<simm::ipc::Opened>(*opened);
  }

  simm::ipc::FdSocket socket;
  simm::ipc::UniqueFd bell;
  simm::ipc::Mapping memory;
  std::vector<simm::ipc::UniqueFd> fds;  // of the last message
};

}  // namespace process_test
