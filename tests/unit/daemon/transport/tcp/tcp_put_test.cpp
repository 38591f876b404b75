// Puts whose bytes the kernel takes from the client's own memory, on a socket that takes little (no
// TCP, whose windows would take their time), with a peer that the test plays: what the memory
// holds, and whether it is there, may change after its digest was taken.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <cstring>
#include <map>

#include "daemon/base/hash.h"
#include "daemon/transport/tcp/frame_codec.h"
#include "daemon/transport/tcp/tcp_config.h"
#include "tests/support/tcp_ends.h"
#include "tests/support/tcp_frames.h"
#include "tests/unit/daemon/transport/local/local_world.h"

namespace tcp_put_test {

using namespace local_world;
using support::TcpEnds;
using wire::FrameHeader;
using wire::FrameKind;
using Bytes = std::vector<std::byte>;

constexpr Route kRoute{base::PeerId{1}, 0};
constexpr std::uint64_t kSystemPage = 4096;
// Its last chunk is queued, and not taken, when the socket is full.
constexpr std::uint64_t kPage = 28 * kSystemPage + kChunkBytes;
constexpr std::uint64_t kPages = 2;
constexpr std::uint64_t kShortPage = 500;

struct Faults final : RegionFaults {
  void on_region_fault(const memory::Region&) noexcept override { ++count; }
  int count = 0;
};

// A page of a put as it came.
struct Arrived {
  Bytes bytes;
  std::uint64_t digest = 0;
  bool is_whole = false;
  [[nodiscard]] bool is_sound() const {
    return is_whole && base::payload_digest(bytes.data(), bytes.size()) == digest;
  }
};

class Scene {
public:
  explicit Scene(SocketIoChoice choice) : ends_(choice) {
    void* const memory =
        ::mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    region_.base = static_cast<std::byte*>(memory);
    region_.length = kPages * kPage;
    for (std::uint64_t i = 0; i < region_.length; ++i) region_.base[i] = std::byte(1 + i % 251);
    ends_.requester.connect(answers, &faults);
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
    support::UniqueFd ours(ends[0]);
    peer_ = support::UniqueFd(ends[1]);
    const int little = 1;
    REQUIRE(::setsockopt(ours.get(), SOL_SOCKET, SO_SNDBUF, &little, sizeof little) == 0);
    TcpLink link{std::move(ours), kRoute.peer, kRoute.shard, 1};
    link.takes_moved = true;
    ends_.requester.add_link(std::move(link));
  }
  ~Scene() { ::munmap(region_.base, region_.length); }

  // Asks for the pages, and works until the socket is full: all chunks wait in the queue then.
  void post_and_pull() {
    ask_ = std::make_unique<Ask>(region_, ipc::Opcode::put, kPages, kPage);
    REQUIRE(ends_.requester.post(kRoute, 1, ask_->request) == Status::ok);
    REQUIRE(works_until([this] { return read() && has_request_; }));
    send(support::tcp_pull({0, 1}));
    for (int i = 0; i < 1000; ++i) ends_.requester.do_work();
  }
  // A put of a short page; how many bytes its request has. Nothing is pulled.
  std::size_t post_short(bool is_moved, std::uint32_t ttl_ms) {
    ask_ = std::make_unique<Ask>(region_, ipc::Opcode::put, 1, kShortPage);
    ask_->request.header.is_moved = is_moved;
    ask_->request.header.ttl_ms = ttl_ms;
    REQUIRE(ends_.requester.post(kRoute, 1, ask_->request) == Status::ok);
    REQUIRE(works_until([this] { return read() && has_request_; }));
    return request_bytes_;
  }
  void reply(const std::vector<PageReply>& replies) { send(support::tcp_reply(replies)); }
  void take_all() {
    REQUIRE(works_until([this] { return read() && arrived[0].is_whole && arrived[1].is_whole; }));
  }
  template <typename Reached>
  [[nodiscard]] bool works_until(Reached&& reached) {
    return ends_.requester_works_until(reached);
  }
  [[nodiscard]] bool is_lost(LinkLost& lost) {
    return works_until([&] { return ends_.requester_mail.control_take_lost(lost); });
  }
  [[nodiscard]] std::byte* page(std::uint64_t number) { return region_.base + number * kPage; }

  std::map<std::uint16_t, Arrived> arrived;
  Answers answers;
  Faults faults;

private:
  void send(const Bytes& frame) {
    REQUIRE(::send(peer_.get(), frame.data(), frame.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(frame.size()));
  }
  // What has come so far. True: the connection lives.
  bool read() {
    Bytes more(64 * 1024);
    const ssize_t bytes = ::recv(peer_.get(), more.data(), more.size(), MSG_DONTWAIT);
    if (bytes > 0) stream_.insert(stream_.end(), more.begin(), more.begin() + bytes);
    while (stream_.size() >= sizeof(FrameHeader)) {
      FrameHeader header;
      std::memcpy(&header, stream_.data(), sizeof header);
      const std::size_t frame_bytes = sizeof header + header.body_bytes;
      if (stream_.size() < frame_bytes) break;
      if (static_cast<FrameKind>(header.kind) == FrameKind::request) {
        has_request_ = true;
        request_bytes_ = frame_bytes;
      }
      if (static_cast<FrameKind>(header.kind) == FrameKind::data) {
        Arrived& page = arrived[header.page];
        page.bytes.insert(page.bytes.end(), stream_.begin() + sizeof header,
                          stream_.begin() + static_cast<std::ptrdiff_t>(frame_bytes));
        page.digest = header.digest;
        page.is_whole = (header.flags & wire::kFlagLast) != 0;
      }
      stream_.erase(stream_.begin(), stream_.begin() + static_cast<std::ptrdiff_t>(frame_bytes));
    }
    return bytes != 0;
  }

  std::unique_ptr<Ask> ask_;  // outlives the ends
  memory::Region region_;
  support::UniqueFd peer_;
  Bytes stream_;
  bool has_request_ = false;
  std::size_t request_bytes_ = 0;
  TcpEnds ends_;
};

template <typename Body>
void on_each_io(Body&& body) {
  for (const SocketIoChoice choice : support::io_choices()) {
    CAPTURE(static_cast<int>(choice));
    Scene scene(choice);
    scene.post_and_pull();
    body(scene);
  }
}

TEST_CASE("tcp put: pages come as they lie in the client's memory, with their digests") {
  on_each_io([](Scene& scene) {
    scene.take_all();
    for (std::uint16_t page = 0; page < kPages; ++page) {
      CHECK(scene.arrived[page].is_sound());
      CHECK(std::equal(scene.arrived[page].bytes.begin(), scene.arrived[page].bytes.end(),
                       scene.page(page)));
    }
    scene.reply({{Status::ok, kPage}, {Status::ok, kPage}});
    REQUIRE(scene.works_until([&] { return !scene.answers.replied.empty(); }));
    CHECK(scene.answers.last[0].status == Status::ok);
    CHECK(scene.answers.last[1].status == Status::ok);
  });
}

TEST_CASE("tcp put: a client that writes to a page under way spoils that page, and no other") {
  on_each_io([](Scene& scene) {
    scene.page(0)[kPage - 1] ^= std::byte{0xff};
    scene.take_all();
    CHECK_FALSE(scene.arrived[0].is_sound());  // the owner stores nothing
    CHECK(scene.arrived[1].is_sound());
    CHECK(scene.faults.count == 0);
    scene.reply({{Status::corrupt, 0}, {Status::ok, kPage}});
    REQUIRE(scene.works_until([&] { return !scene.answers.replied.empty(); }));
    CHECK(scene.answers.last[0].status == Status::transfer_failed);
    CHECK(scene.answers.last[1].status == Status::ok);
  });
}

TEST_CASE("tcp put: memory that vanishes on its way costs its own page, and its session") {
  on_each_io([](Scene& scene) {
    // What was there reads as no page of this process: the kernel's EFAULT.
    REQUIRE(::munmap(scene.page(1) - kSystemPage, kSystemPage) == 0);
    scene.take_all();
    CHECK(scene.arrived[0].bytes.size() == kPage);
    CHECK_FALSE(scene.arrived[0].is_sound());
    CHECK(scene.arrived[1].is_sound());
    CHECK(scene.faults.count == 1);
    scene.reply({{Status::corrupt, 0}, {Status::ok, kPage}});
    REQUIRE(scene.works_until([&] { return !scene.answers.replied.empty(); }));
    CHECK(scene.answers.last[0].status == Status::transfer_failed);
    CHECK(scene.answers.last[1].status == Status::ok);
  });
}

TEST_CASE("tcp put: a peer that answers before it has the bytes is hung up on") {
  on_each_io([](Scene& scene) {
    // The kernel still reads the client's memory: the request is over when the connection is.
    scene.reply({{Status::ok, kPage}, {Status::ok, kPage}});
    LinkLost lost;
    REQUIRE(scene.is_lost(lost));
    CHECK(lost.cause == LinkLoss::protocol);
    CHECK(scene.answers.replied.empty());
    CHECK(scene.answers.fenced == std::vector<RequestToken>{1});
  });
}

// Its owner was stopped, reads the request much later, and would count the time from there.
TEST_CASE("tcp put: a short page that moves with a time to live waits until it is pulled") {
  for (const SocketIoChoice choice : support::io_choices()) {
    CHECK(Scene(choice).post_short(false, 100) > kShortPage);
    CHECK(Scene(choice).post_short(true, 0) > kShortPage);
    CHECK(Scene(choice).post_short(true, 100) < kShortPage);
  }
}

}  // namespace tcp_put_test
