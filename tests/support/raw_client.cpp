#include "tests/support/raw_client.h"

#include <doctest/doctest.h>
#include <sys/socket.h>

#include <cstring>
#include <utility>

#include "ipc/control_codec.h"
#include "tests/support/daemon_process.h"

namespace simm::test_support {

namespace {

// An answer that does not come is a defect, however busy the machine is.
constexpr std::uint64_t kPatienceNs = 60'000'000'000;

}  // namespace

RawClient::RawClient(const std::string& socket_path) {
  auto connected = ipc::FdSocket::connect(socket_path, kPatienceNs);
  REQUIRE(connected.has_value());
  socket_ = std::move(*connected);
}

RawClient RawClient::attached(const std::string& socket_path) {
  RawClient client(socket_path);
  REQUIRE(client.attach());
  return client;
}

bool RawClient::attach(std::uint32_t lanes) {
  if (!greet(lanes)) return false;
  const auto opened = ask(ipc::Mapped{});
  return opened && std::holds_alternative<ipc::Opened>(*opened);
}

bool RawClient::greet(std::uint32_t lanes) {
  ipc::Hello hello;
  hello.library_version = "raw";
  hello.client_name = "raw";
  hello.lane_count = lanes;
  const auto answer = ask(hello);
  const auto* welcome = answer ? std::get_if<ipc::Welcome>(&*answer) : nullptr;
  if (welcome == nullptr) return false;
  REQUIRE(fds_.size() == ipc::kWelcomeFds);
  auto mapping = ipc::Mapping::map(fds_[0].get(), 0, welcome->session_bytes);
  REQUIRE(mapping.has_value());
  mapping_ = std::move(*mapping);
  memory_fd_ = std::move(fds_[0]);
  bell_ = ipc::BellSocket(fds_[1].release());
  return true;
}

bool RawClient::send(const ipc::ClientMessage& message, std::span<const int> fds) {
  const auto packet = ipc::encode(message);
  REQUIRE(packet.has_value());
  return socket_.send(*packet, fds, kPatienceNs) == ipc::SocketResult::done;
}

void RawClient::send_descriptors(const std::vector<int>& fds) {
  CHECK(pass(socket_.fd(), fds, 1));
}

bool RawClient::pass(int socket, const std::vector<int>& fds, std::size_t message_bytes) {
  const std::size_t bytes = fds.size() * sizeof(int);
  std::vector<char> control(CMSG_SPACE(bytes));
  std::string text(message_bytes, 'x');
  iovec part{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(header), fds.data(), bytes);
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) >= 0;
}

std::optional<ipc::DaemonMessage> RawClient::receive() {
  std::vector<std::byte> buffer(ipc::kControlMessageBytesMax);
  ipc::Received received = socket_.receive(buffer, kPatienceNs);
  CHECK(received.result != ipc::SocketResult::would_block);
  if (received.result != ipc::SocketResult::done) return std::nullopt;
  fds_.clear();
  for (std::size_t i = 0; i < received.fd_count; ++i) fds_.push_back(std::move(received.fds[i]));
  auto message = ipc::decode_daemon_message(std::span(buffer).first(received.bytes));
  REQUIRE(message.has_value());
  return std::move(*message);
}

std::optional<ipc::DaemonMessage> RawClient::ask(const ipc::ClientMessage& message,
                                                 std::span<const int> fds) {
  if (!send(message, fds)) return std::nullopt;
  return receive();
}

bool RawClient::hung_up() {
  while (receive().has_value()) {
  }
  return true;
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
  const bool poisoned = eventually([&] { return words.state() == ipc::SessionState::poisoned; });
  return poisoned ? words.poison_reason() : ipc::PoisonReason::none;
}

ipc::SessionHeader* RawClient::header() const {
  // SAFETY: the mapping begins with the header and is page-aligned.
  return reinterpret_cast<ipc::SessionHeader*>(mapping_.data());
}

ipc::LaneMemory RawClient::lane_memory(std::uint32_t lane) const {
  return ipc::LaneMemory(mapping_.data() + sizeof(ipc::SessionHeader) + lane * ipc::kLaneBytes);
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

}  // namespace simm::test_support
