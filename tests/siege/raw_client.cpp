#include "tests/siege/raw_client.h"

#include <doctest/doctest.h>
#include <poll.h>

#include <chrono>
#include <thread>
#include <utility>

#include "ipc/control_codec.h"

namespace simm::siege {

namespace {

constexpr std::uint64_t kAnswerTimeoutNs = 2'000'000'000;

}  // namespace

RawClient::RawClient(const std::string& socket_path) {
  auto connected = ipc::FdSocket::connect(socket_path, kAnswerTimeoutNs);
  REQUIRE(connected.has_value());
  socket_ = std::move(*connected);
  ipc::Hello hello;
  hello.library_version = "raw";
  hello.client_name = "raw";
  const auto packet = ipc::encode(ipc::ClientMessage{hello});
  REQUIRE(socket_.send(*packet, {}, kAnswerTimeoutNs) == ipc::SocketResult::done);
  std::vector<std::byte> buffer(ipc::kControlMessageBytesMax);
  auto received = socket_.receive(buffer, kAnswerTimeoutNs);
  REQUIRE(received.result == ipc::SocketResult::done);
  REQUIRE(received.fd_count == ipc::kWelcomeFds);
  const auto message = ipc::decode_daemon_message(std::span(buffer).first(received.bytes));
  REQUIRE(message.has_value());
  const auto* welcome = std::get_if<ipc::Welcome>(&*message);
  REQUIRE(welcome != nullptr);
  auto mapping = ipc::Mapping::map(received.fds[0].get(), 0, welcome->session_bytes);
  REQUIRE(mapping.has_value());
  mapping_ = std::move(*mapping);
  memory_fd_ = std::move(received.fds[0]);
  bell_ = ipc::BellSocket(received.fds[1].release());
  const auto opened = ask(ipc::Mapped{});
  REQUIRE(opened.has_value());
  REQUIRE(std::holds_alternative<ipc::Opened>(*opened));
}

ipc::SessionHeader* RawClient::header() const {
  // SAFETY: the mapping begins with the header and is page-aligned.
  return reinterpret_cast<ipc::SessionHeader*>(mapping_.data());
}

ipc::LaneMemory RawClient::lane_memory(std::uint32_t lane) const {
  return ipc::LaneMemory(mapping_.data() + sizeof(ipc::SessionHeader) + lane * ipc::kLaneBytes);
}

std::optional<ipc::DaemonMessage> RawClient::ask(const ipc::ClientMessage& message,
                                                 std::span<const int> fds) {
  const auto packet = ipc::encode(message);
  REQUIRE(packet.has_value());
  if (socket_.send(*packet, fds, kAnswerTimeoutNs) != ipc::SocketResult::done) return {};
  std::vector<std::byte> buffer(ipc::kControlMessageBytesMax);
  const auto received = socket_.receive(buffer, kAnswerTimeoutNs);
  if (received.result != ipc::SocketResult::done) return {};
  auto answer = ipc::decode_daemon_message(std::span(buffer).first(received.bytes));
  REQUIRE(answer.has_value());
  return std::move(*answer);
}

ipc::RegionReply RawClient::register_region(int fd, const void* address, std::uint64_t length,
                                            ipc::RegionRequestKind kind) {
  ipc::RegisterRegion wish;
  wish.request_id = 7;
  wish.kind = kind;
  wish.address = reinterpret_cast<std::uintptr_t>(address);
  wish.length = length;
  wish.has_fd = fd >= 0;
  wish.name = "raw";
  const auto answer = fd >= 0 ? ask(wish, std::span(&fd, 1)) : ask(wish);
  REQUIRE(answer.has_value());
  const auto* reply = std::get_if<ipc::RegionReply>(&*answer);
  REQUIRE(reply != nullptr);
  CHECK(reply->request_id == 7);
  return *reply;
}

ipc::PoisonReason RawClient::wait_for_poison() {
  ipc::ClientSessionWords words(header());
  for (int tries = 0; tries < 3000; ++tries) {
    if (words.state() == ipc::SessionState::poisoned) return words.poison_reason();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return ipc::PoisonReason::none;
}

ipc::PageDescriptor RawClient::page(ipc::RegionHandle region, std::uint64_t offset,
                                    std::uint64_t length, std::uint32_t key_offset,
                                    std::uint32_t key_bytes) {
  ipc::PageDescriptor page{};
  page.region = region;
  page.offset = offset;
  page.length = length;
  page.key_offset = key_offset;
  page.key_bytes = key_bytes;
  return page;
}

}  // namespace simm::siege
