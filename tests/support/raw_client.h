// RawClient: the attach protocol and the rings by hand, with nothing of libsimm between the test
// and the bytes: it says what libsimm would never say, and writes anything anywhere into what it
// shares. Thread: one for the socket; the lanes' memory: any.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ipc/bell_socket.h"
#include "ipc/client_lane.h"
#include "ipc/control_message.h"
#include "ipc/fd.h"
#include "ipc/fd_socket.h"
#include "ipc/mapping.h"
#include "ipc/session_words.h"

namespace simm::test_support {

class RawClient {
public:
  // Connects, and says nothing yet; REQUIREs success.
  explicit RawClient(const std::string& socket_path);
  // One that is attached completely; REQUIREs success.
  static RawClient attached(const std::string& socket_path);

  // Hello and Mapped; true when the session is open. 0 lanes: as many as the daemon likes.
  bool attach(std::uint32_t lanes = 0);
  // The first half of that: the session memory is mapped, and the daemon does not know it.
  bool greet(std::uint32_t lanes = 0);

  bool send(const ipc::ClientMessage& message, std::span<const int> fds = {});
  // One byte that is no message, with more descriptors than a message may have.
  void send_descriptors(const std::vector<int>& fds);
  // The same through any socket, with `bytes` bytes (0 or more); false when the kernel refuses.
  static bool pass(int socket, const std::vector<int>& fds, std::size_t bytes);
  // The next message, its descriptors in fds_; nothing when the daemon hung up.
  std::optional<ipc::DaemonMessage> receive();
  // send() and receive().
  std::optional<ipc::DaemonMessage> ask(const ipc::ClientMessage& message,
                                        std::span<const int> fds = {});
  // Reads until the daemon hangs up.
  bool hung_up();
  // Registers a memory file or, with fd < 0, the range of this process.
  ipc::RegionReply register_region(int fd, const void* address, std::uint64_t length,
                                   ipc::RegionRequestKind kind);
  // Waits until the daemon has poisoned the session; the reason, none after some seconds.
  ipc::PoisonReason wait_for_poison();

  [[nodiscard]] ipc::SessionHeader* header() const;
  [[nodiscard]] ipc::LaneMemory lane_memory(std::uint32_t lane) const;
  [[nodiscard]] std::byte* bytes() const { return mapping_.data(); }
  [[nodiscard]] int memory_fd() const { return memory_fd_.get(); }
  [[nodiscard]] ipc::FdSocket& socket() { return socket_; }
  [[nodiscard]] const ipc::BellSocket& bell() const { return bell_; }
  // As a client that pushed: takes an announced sleep back. It sends a message in any case.
  void ring() {
    (void)ipc::ClientSessionWords(header()).take_sleep();
    bell_.ring();
  }

  static ipc::PageDescriptor page(ipc::RegionHandle region, std::uint64_t offset,
                                  std::uint64_t length, std::uint32_t key_offset,
                                  std::uint32_t key_bytes);

private:
  ipc::FdSocket socket_;
  std::vector<ipc::UniqueFd> fds_;  // of the last message
  ipc::BellSocket bell_{-1};
  ipc::UniqueFd memory_fd_;
  ipc::Mapping mapping_;
};

}  // namespace simm::test_support
