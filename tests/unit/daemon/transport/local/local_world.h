// Local transports for unit tests: a mesh of agents, a region of anonymous memory, and a server
// that does what the test says.
#pragma once

#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "daemon/transport/local/local_mesh.h"
#include "daemon/transport/region_mover.h"
#include "simm/check.h"

namespace local_world {

using namespace simm;
using namespace simm::transport;

// Anonymous memory as a client's region.
class TestRegion {
public:
  explicit TestRegion(std::uint64_t bytes) {
    void* mapped =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    SIMM_CHECK(mapped != MAP_FAILED);
    region.base = static_cast<std::byte*>(mapped);
    region.length = bytes;
  }
  ~TestRegion() { ::munmap(region.base, region.length); }
  TestRegion(const TestRegion&) = delete;
  TestRegion& operator=(const TestRegion&) = delete;
  memory::Region region;
};

// One request with `pages` slices of `length` bytes each, in a row from `offset` on.
struct Ask {
  Ask(const memory::Region& region, ipc::Opcode opcode, std::uint32_t pages, std::uint64_t length,
      std::uint64_t offset = 0) {
    for (std::uint32_t i = 0; i < pages; ++i) {
      PageRequest page;
      page.key = "key";
      page.key_bytes = 3;
      page.slice = {&region, offset + i * length, length};
      page.index = static_cast<std::uint16_t>(i);
      list.push_back(page);
    }
    request.header.opcode = opcode;
    request.pages = list;
  }
  std::vector<PageRequest> list;
  Request request;
};

struct Answers final : RequesterEvents {
  std::vector<RequestToken> replied;
  std::vector<RequestToken> fenced;
  std::vector<PageReply> last;
  std::function<void()> on_answer;
  void on_reply(RequestToken token, std::span<const PageReply> pages) noexcept override {
    replied.push_back(token);
    last.assign(pages.begin(), pages.end());
    if (on_answer) on_answer();
  }
  void on_fenced(RequestToken token, FenceCause) noexcept override {
    fenced.push_back(token);
    if (on_answer) on_answer();
  }
};

// Moves all pages of a request at once and answers when the last has moved. Every get reads the
// same extent, every put writes the same sink.
struct MovingServer final : ResponderEvents {
  explicit MovingServer(std::uint64_t extent_bytes) : extent(extent_bytes), sink(extent_bytes) {}
  struct Job {
    std::vector<PageReply> replies;
    std::size_t open = 0;
  };
  void on_request(Incoming& incoming) noexcept override {
    order.push_back(&incoming);
    Job* job = new Job;
    incoming.server_data = job;
    job->replies.resize(incoming.pages.size());
    job->open = incoming.pages.size();
    for (std::size_t i = 0; i < incoming.pages.size(); ++i) {
      const auto page = static_cast<std::uint16_t>(i);
      const std::uint64_t length = incoming.pages[i].slice.length;
      if (incoming.header.opcode == ipc::Opcode::put) {
        incoming.responder->pull(incoming, page, std::span(sink).first(length));
      } else {
        incoming.responder->push(incoming, page, std::span(extent).first(length), true);
      }
    }
  }
  void on_moved(Incoming& incoming, std::uint16_t page, MoveResult result) noexcept override {
    Job* job = static_cast<Job*>(incoming.server_data);
    job->replies[page] = {result.status, result.digest};  // tests look at the digest
    if (--job->open > 0) return;
    incoming.responder->reply(incoming, job->replies);
    delete job;
  }
  void on_cancel(Incoming&) noexcept override {}
  void on_aborted(Incoming& incoming) noexcept override {
    delete static_cast<Job*>(incoming.server_data);
    ++aborted;
  }
  std::vector<std::byte> extent;
  std::vector<std::byte> sink;
  std::vector<Incoming*> order;
  int aborted = 0;
};

}  // namespace local_world
