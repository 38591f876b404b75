// RawClient: a session attached by hand, with nothing of libsimm between the test and the bytes: it
// can write anything anywhere into what it shares. Thread: any (it is a bundle of pointers).
#pragma once

#include <optional>
#include <string>

#include "ipc/bell_socket.h"
#include "ipc/client_lane.h"
#include "ipc/control_message.h"
#include "ipc/fd_socket.h"
#include "ipc/mapping.h"
#include "ipc/session_words.h"

namespace simm::siege {

class RawClient {
public:
  // Attaches completely; REQUIREs success.
  explicit RawClient(const std::string& socket_path);

  [[nodiscard]] ipc::SessionHeader* header() const;
  [[nodiscard]] ipc::LaneMemory lane_memory(std::uint32_t lane) const;
  [[nodiscard]] std::byte* bytes() const { return mapping_.data(); }
  [[nodiscard]] std::size_t size() const { return mapping_.bytes(); }

  void ring() { bell_.ring(); }
  [[nodiscard]] const ipc::BellSocket& bell() const { return bell_; }
  [[nodiscard]] ipc::FdSocket& socket() { return socket_; }
  [[nodiscard]] int memory_fd() const { return memory_fd_.get(); }

  // The daemon's answer to a message, or nothing when it hung up or said nothing within 2 s.
  std::optional<ipc::DaemonMessage> ask(const ipc::ClientMessage& message,
                                        std::span<const int> fds = {});
  // Registers a memory file or, with fd < 0, the range of this process.
  ipc::RegionReply register_region(int fd, const void* address, std::uint64_t length,
                                   ipc::RegionRequestKind kind);
  // Waits until the daemon has poisoned or closed the session; the reason, none after 3 s.
  ipc::PoisonReason wait_for_poison();

  static ipc::PageDescriptor page(ipc::RegionHandle region, std::uint64_t offset,
                                  std::uint64_t length, std::uint32_t key_offset,
                                  std::uint32_t key_bytes);

private:
  ipc::FdSocket socket_;
  ipc::BellSocket bell_{-1};
  ipc::UniqueFd memory_fd_;
  ipc::Mapping mapping_;
};

}  // namespace simm::siege
