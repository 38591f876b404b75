// A session of `lanes` lanes in a MAP_SHARED memfd, for tests: both ends, visible across fork().
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "ipc/client_lane.h"
#include "ipc/daemon_lane.h"
#include "ipc/lane_memory.h"
#include "ipc/session_words.h"
#include "simm/check.h"

namespace shared_lane {

class SharedSession {
public:
  explicit SharedSession(std::uint32_t lanes = 1) : bytes_(simm::ipc::session_bytes(lanes)) {
    const int fd = ::memfd_create("simm-test-session", MFD_CLOEXEC);
    SIMM_CHECK(fd >= 0 && ::ftruncate(fd, static_cast<off_t>(bytes_)) == 0);
    void* const base = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    SIMM_CHECK(base != MAP_FAILED);
    ::close(fd);
    base_ = static_cast<std::byte*>(base);
    simm::ipc::DaemonSessionWords(header()).publish_state(simm::ipc::SessionState::open);
  }
  ~SharedSession() { ::munmap(base_, bytes_); }
  SharedSession(const SharedSession&) = delete;
  SharedSession& operator=(const SharedSession&) = delete;

  simm::ipc::SessionHeader* header() const {
    return reinterpret_cast<simm::ipc::SessionHeader*>(base_);
  }
  simm::ipc::LaneMemory lane(std::uint32_t index = 0) const {
    return simm::ipc::LaneMemory(simm::ipc::lane_base(base_, index));
  }
  simm::ipc::LaneControl* control(std::uint32_t index = 0) const { return lane(index).control(); }

private:
  std::size_t bytes_;
  std::byte* base_ = nullptr;
};

inline simm::ipc::Submission submission(std::uint64_t token) {
  simm::ipc::Submission s{};
  s.token = token;
  s.timeout_ns = token * 3;
  s.page_first = static_cast<std::uint32_t>(token);
  s.reserved[1] = ~token;
  return s;
}
inline bool is_whole(const simm::ipc::Submission& s) {
  return s.timeout_ns == s.token * 3 && s.page_first == static_cast<std::uint32_t>(s.token) &&
         s.reserved[1] == ~s.token;
}
inline simm::ipc::Completion completion(std::uint64_t token) {
  return {token, 0, static_cast<std::uint32_t>(token), token * 5, ~token};
}
inline bool is_whole(const simm::ipc::Completion& c) {
  return c.pages_ok == static_cast<std::uint32_t>(c.token) && c.bytes_moved == c.token * 5 &&
         c.reserved == ~c.token;
}

// SIMM_TEST_SEED repeats a run; the seed is printed so that a failure can be.
inline std::uint64_t seed(const char* test) {
  const char* const given = std::getenv("SIMM_TEST_SEED");
  const std::uint64_t value =
      given != nullptr ? std::strtoull(given, nullptr, 0) : std::uint64_t{std::random_device{}()};
  std::printf("%s: repeat with SIMM_TEST_SEED=%llu bin/unit_ipc -tc='%s'\n", test,
              static_cast<unsigned long long>(value), test);
  std::fflush(stdout);  // before a fork copies the buffer
  return value;
}

// A longer run by hand: SIMM_TEST_SCALE multiplies the work of the long tests.
inline std::uint64_t scaled(std::uint64_t count) {
  const char* const given = std::getenv("SIMM_TEST_SCALE");
  return given != nullptr ? count * std::strtoull(given, nullptr, 0) : count;
}

}  // namespace shared_lane
