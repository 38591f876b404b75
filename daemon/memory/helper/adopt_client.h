// AdoptClient: the daemon's end of its privileged helper.
//
// A helper that listens somewhere (a service of its own) is dialled again when it has gone, with
// the next request; a forked one is not there any more then.
//
// adopt() and spawn_worker() wait for the answer (half a second at most, the helper sees to that;
// one second here), so they belong on the control or a registrar thread, one at a time. A helper
// that lets that time pass is late. Nobody waits for a late helper before it has answered the old
// request, or ten seconds have passed. One that listens somewhere is dialled again then.
// kill_worker() waits for nothing. Thread: control or registrar; kill_worker(): any.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "daemon/memory/helper/helper_protocol.h"
#include "ipc/fd.h"
#include "ipc/fd_socket.h"
#include "ipc/peer_identity.h"
#include "simm/expected.h"

namespace simm::memory {

struct Adopted {
  ipc::UniqueFd fd;               // not inspected yet
  std::uint64_t file_offset = 0;  // of the range's first byte
};

// What a worker gets; the descriptors stay the caller's.
struct WorkerFiles {
  int jobs = -1;    // where it is told what to do
  int bounce = -1;  // in which it answers
  int arena = -1;   // out of which it copies, open for reading only
  std::uint64_t arena_bytes = 0;
};

struct SpawnedWorker {
  ipc::UniqueFd pidfd;
  std::uint32_t name = 0;  // for kill_worker
};

class AdoptClient {
public:
  // `path`: where the helper listens; empty: it does not.
  explicit AdoptClient(ipc::FdSocket socket, std::string path = "") noexcept
      : socket_(std::move(socket)), path_(std::move(path)) {}

  // The file behind a range of the client's address space. permission_denied with the rule that
  // speaks against it; unreachable when the helper has gone.
  Expected<Adopted> adopt(const ipc::PeerIdentity& client, std::uint64_t address,
                          std::uint64_t length);

  // A worker that copies between the client's memory and those files.
  Expected<SpawnedWorker> spawn_worker(const ipc::PeerIdentity& client, const WorkerFiles& files);

  // Asks for the death of a worker; its pidfd tells when it has happened. False: ask again later.
  bool kill_worker(std::uint32_t name) noexcept;

private:
  Expected<Adopted> ask(const ipc::PeerIdentity& client, HelperRequest request,
                        std::span<const int> more_fds);

  struct Answer {
    ipc::SocketResult result = ipc::SocketResult::failed;
    HelperReply reply;
    ipc::UniqueFd fd;
  };
  Answer exchange(const HelperRequest& request, std::span<const int> fds) noexcept;
  bool dial_again() noexcept;
  [[nodiscard]] bool is_late() noexcept;

  ipc::FdSocket socket_;  // the same descriptor number for good: kill_worker() uses it any time
  const std::string path_;
  std::uint64_t next_request_id_ = 1;
  std::uint32_t next_worker_ = 1;
  std::atomic<bool> gone_{false};
  std::uint64_t late_until_ns_ = 0;  // 0: it is not
};

}  // namespace simm::memory
