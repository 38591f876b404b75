#include "fake_daemon.h"

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

#include "ipc/attach_rules.h"
#include "ipc/bell_socket.h"
#include "ipc/control_codec.h"
#include "ipc/daemon_lane.h"
#include "ipc/fd_listener.h"
#include "ipc/mapping.h"
#include "ipc/memory_file.h"
#include "ipc/session_words.h"
#include "tests/support/eventually.h"

namespace libclient_test {
namespace ipc = simm::ipc;
using simm::Status;
using simm::test_support::eventually;

struct FakeRegion {
  ipc::Mapping mapping;
  std::byte* base = nullptr;
  std::uint64_t length = 0;
  bool is_staging = false;
};

bool is_absent(const std::byte* slice, std::uint64_t bytes) {
  constexpr std::uintptr_t kPage = 4096;
  const std::uintptr_t first = reinterpret_cast<std::uintptr_t>(slice) / kPage * kPage;
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(slice) + bytes;
  std::vector<unsigned char> present((end - first + kPage - 1) / kPage);
  if (::mincore(reinterpret_cast<void*>(first), end - first, present.data()) != 0) return true;
  return std::any_of(present.begin(), present.end(), [](auto page) { return (page & 1) == 0; });
}

struct Held {
  std::uint32_t lane = 0;
  ipc::Submission submission;
};

struct FakeDaemon::Session {
  Session(ipc::FdSocket accepted) : control(std::move(accepted)) {}

  ipc::FdSocket control;
  ipc::BellSocket bell{-1};
  std::optional<ipc::MemoryFile> file;
  ipc::Mapping memory;
  std::uint32_t lane_count = 0;
  std::vector<ipc::DaemonLane> lanes;
  std::optional<ipc::DaemonSessionWords> words;
  std::map<ipc::RegionHandle, FakeRegion> regions;
  std::vector<std::string> namespaces;  // id - 1
  std::vector<Held> held;
  std::uint16_t next_region = 1;
  bool open = false;
  bool gone = false;
};

struct FakeDaemon::Loop {
  Loop(FakeDaemon& owner, ipc::FdListener made) : daemon(owner), listener(std::move(made)) {}

  void run();
  void accept();
  void read_control(Session& session);
  std::uint32_t sessions_with_messages() const;
  void answer(Session& session, const ipc::ClientMessage& message, ipc::Received& received);
  void welcome(Session& session, const ipc::Hello& hello);
  void use_memory(Session& session);
  void take_memory(Session& session, ipc::Received& received);
  void register_region(Session& session, const ipc::RegisterRegion& request,
                       ipc::Received& received);
  void send(Session& session, const ipc::DaemonMessage& message, std::span<const int> fds = {});
  bool take(Session& session);
  void carry_out(Session& session, const Held& held);
  ipc::PageResult page(Session& session, const ipc::Submission& submission,
                       const ipc::PageDescriptor& descriptor, const std::string& key);
  void sleep();

  FakeDaemon& daemon;
  ipc::FdListener listener;
  std::vector<std::unique_ptr<Session>> sessions;
};

FakeDaemon::FakeDaemon(FakeOptions options, std::shared_ptr<FakeStore> store)
    : options_(std::move(options)),
      store_(store ? std::move(store) : std::make_shared<FakeStore>()) {
  auto listener = ipc::FdListener::listen(options_.path, 0600, 64);
  if (!listener) throw std::runtime_error(listener.error().context);
  loop_ = std::make_unique<Loop>(*this, std::move(*listener));
  thread_ = std::thread([this] { loop_->run(); });
}

FakeDaemon::~FakeDaemon() {
  dying_ = true;
  thread_.join();
}

bool FakeDaemon::wait_until_holding(std::uint32_t submissions) const {
  return eventually([&] { return counts_.holding >= submissions; });
}

bool FakeDaemon::wait_until_idle() const {
  return eventually([&] { return counts_.holding == 0; });
}

ipc::Submission FakeDaemon::last_submission() const {
  const std::lock_guard lock(mutex_);
  return last_;
}
std::vector<std::string> FakeDaemon::namespaces() const {
  const std::lock_guard lock(mutex_);
  return namespaces_;
}
std::vector<std::string> FakeDaemon::client_names() const {
  const std::lock_guard lock(mutex_);
  return client_names_;
}

void FakeDaemon::Loop::run() {
  while (!daemon.dying_) {
    ++daemon.turns_;
    accept();
    bool worked = false;
    for (const auto& session : sessions) {
      // Work before messages: who was stopped in the middle of a transfer ends it first, and only
      // then sees that its client has gone.
      if (session->open) worked = take(*session) || worked;
      if (!daemon.stopped_ && !session->gone) read_control(*session);
      if (daemon.poison_ && session->open) {
        session->words->publish_poisoned(ipc::PoisonReason::bad_submission);
        for (ipc::DaemonLane& lane : session->lanes) {
          if (lane.wake_client() == ipc::Wake::bell) (void)session->bell.ring();
        }
        session->gone = true;
      }
    }
    daemon.poison_ = false;
    if (daemon.stopped_) daemon.counts_.unread = sessions_with_messages();
    for (const auto& session : sessions) {
      if (!session->gone) continue;
      daemon.counts_.sessions -= session->open ? 1 : 0;
      daemon.counts_.regions -= static_cast<std::uint32_t>(session->regions.size());
      daemon.counts_.holding -= static_cast<std::uint32_t>(session->held.size());
    }
    std::erase_if(sessions, [](const auto& session) { return session->gone; });
    if (!worked) sleep();
  }
}

void FakeDaemon::Loop::accept() {
  if (daemon.stopped_) return;
  auto accepted = listener.accept();
  if (accepted && *accepted) sessions.push_back(std::make_unique<Session>(std::move(**accepted)));
}

// Announces the sleep to every session, looks again, and sleeps for a moment.
void FakeDaemon::Loop::sleep() {
  std::vector<pollfd> entries{{listener.fd(), POLLIN, 0}};
  bool busy = false;
  for (const auto& session : sessions) {
    if (!daemon.stopped_) entries.push_back({session->control.fd(), POLLIN, 0});
    if (!session->open) continue;
    session->words->announce_sleep();
    for (ipc::DaemonLane& lane : session->lanes) busy = busy || lane.has_submissions();
    entries.push_back({session->bell.fd(), POLLIN, 0});
  }
  if (!busy) (void)::poll(entries.data(), entries.size(), 1);
  for (const auto& session : sessions) {
    if (!session->open) continue;
    session->words->withdraw_sleep();
    (void)session->bell.drain();
  }
}

void FakeDaemon::Loop::read_control(Session& session) {
  std::vector<std::byte> buffer(ipc::kControlMessageBytesMax);
  for (;;) {
    ipc::Received received = session.control.try_receive(buffer);
    if (received.result == ipc::SocketResult::would_block) return;
    if (received.result != ipc::SocketResult::done) {
      session.gone = true;
      return;
    }
    auto message = ipc::decode_client_message(std::span(buffer.data(), received.bytes));
    if (!message) {
      session.gone = true;
      return;
    }
    answer(session, *message, received);
  }
}

std::uint32_t FakeDaemon::Loop::sessions_with_messages() const {
  std::uint32_t count = 0;
  for (const auto& session : sessions) {
    pollfd entry{session->control.fd(), POLLIN, 0};
    count += ::poll(&entry, 1, 0) == 1 ? 1u : 0u;
  }
  return count;
}

void FakeDaemon::Loop::send(Session& session, const ipc::DaemonMessage& message,
                            std::span<const int> fds) {
  auto packet = ipc::encode(message);
  if (!packet || session.control.try_send(*packet, fds) != ipc::SocketResult::done) {
    session.gone = true;
  }
}

void FakeDaemon::Loop::answer(Session& session, const ipc::ClientMessage& message,
                              ipc::Received& received) {
  if (daemon.options_.silent) return;
  if (const auto* hello = std::get_if<ipc::Hello>(&message)) return welcome(session, *hello);
  if (std::holds_alternative<ipc::Mapped>(message)) {
    if (!session.file) take_memory(session, received);
    if (!session.file->seal_final()) throw std::runtime_error("seal");
    session.open = true;
    ++daemon.counts_.sessions;
    session.words->publish_state(ipc::SessionState::open);
    return send(session, ipc::Opened{});
  }
  if (const auto* region = std::get_if<ipc::RegisterRegion>(&message)) {
    if (daemon.stops_at_region_) {
      daemon.stopped_ = true;
      daemon.stops_at_region_ = false;
      while (daemon.stopped_ && !daemon.dying_) std::this_thread::yield();
    }
    return register_region(session, *region, received);
  }
  if (const auto* gone = std::get_if<ipc::DeregisterRegion>(&message)) {
    const bool known = session.regions.erase(gone->handle) == 1;
    daemon.counts_.regions -= known ? 1 : 0;
    return send(session, ipc::DeregisterReply{gone->request_id,
                                              known ? Status::ok : Status::invalid_argument});
  }
  if (const auto* name_space = std::get_if<ipc::OpenNamespace>(&message)) {
    {
      const std::lock_guard lock(daemon.mutex_);
      daemon.namespaces_.push_back(name_space->name);
    }
    if (session.namespaces.size() == daemon.options_.namespaces_max) {
      return send(session, ipc::NamespaceReply{name_space->request_id, Status::out_of_memory, 0,
                                               "all namespaces are taken"});
    }
    session.namespaces.push_back(name_space->name);
    return send(session,
                ipc::NamespaceReply{name_space->request_id, Status::ok,
                                    static_cast<std::uint16_t>(session.namespaces.size()), ""});
  }
  if (const auto* question = std::get_if<ipc::FollowKeys>(&message)) {
    return send(session, daemon.store_->answer(*question));
  }
  session.gone = true;  // Goodbye
}

void FakeDaemon::Loop::welcome(Session& session, const ipc::Hello& hello) {
  ++daemon.counts_.hellos;
  {
    const std::lock_guard lock(daemon.mutex_);
    daemon.client_names_.push_back(hello.client_name);
  }
  ipc::DaemonFacts facts;
  facts.manager_address = daemon.options_.manager_address;
  const simm::Outcome allowed = ipc::check_hello(hello, facts);
  if (!allowed || !daemon.options_.refuses.empty()) {
    send(session, ipc::Refused{allowed ? Status::out_of_memory : allowed.status(),
                               allowed ? daemon.options_.refuses : allowed.error().context});
    session.gone = true;
    return;
  }
  session.lane_count = ipc::granted_lanes(hello.lane_count, 8, daemon.options_.lanes_max);
  const bool brings_memory =
      daemon.options_.takes_memory && (hello.extensions & ipc::kClientMemory) != 0;
  if (!brings_memory) {
    ipc::MemoryFileSpec spec;
    spec.name = "fake-session";
    spec.bytes = ipc::session_bytes(session.lane_count);
    spec.prefault = true;
    session.file.emplace(ipc::MemoryFile::create(spec).value());
    use_memory(session);
  }
  auto bells = ipc::BellSocket::make_pair().value();
  session.bell = std::move(bells.first);
  ipc::Welcome reply;
  reply.daemon_version = "fake";
  reply.session_id = 1;
  reply.tenant = "default";
  reply.session_bytes = ipc::session_bytes(session.lane_count);
  reply.lane_count = session.lane_count;
  reply.limits = {daemon.options_.value_bytes_max,
                  ipc::kKeyBytesMax,
                  ipc::kRegionsMax,
                  1'000'000'000,
                  15'000,
                  60'000};
  std::vector<int> fds;
  if (!brings_memory) fds.push_back(session.file->fd());
  fds.push_back(bells.second.fd());
  if (daemon.options_.process_fd >= 0) {
    reply.extensions = hello.extensions & (ipc::kReachOutlivesSocket | ipc::kProcessDescriptor);
    if (reply.extensions != 0) fds.push_back(daemon.options_.process_fd);
  }
  if (brings_memory) reply.extensions |= ipc::kClientMemory;
  if (daemon.options_.tells_keys) reply.extensions |= hello.extensions & ipc::kKeyNews;
  send(session, reply, fds);
}

void FakeDaemon::Loop::take_memory(Session& session, ipc::Received& received) {
  session.file.emplace(ipc::MemoryFile::inspect(std::move(received.fds[0])).value());
  const std::uint64_t bytes = ipc::session_bytes(session.lane_count);
  const bool is_whole = session.file->bytes() == bytes && session.file->first_hole() &&
                        session.file->first_hole().value() == bytes;
  daemon.counts_.taken += is_whole ? 1 : 0;
  use_memory(session);
}

void FakeDaemon::Loop::use_memory(Session& session) {
  session.memory = ipc::Mapping::map(session.file->fd(), 0, session.file->bytes()).value();
  // SAFETY: the memory begins with the header.
  auto& header = *reinterpret_cast<ipc::SessionHeader*>(session.memory.data());
  if (daemon.options_.knows_patience) header.progress.word = ipc::kProgressBegin;
  if (daemon.options_.takes_traces) header.traces.word = 1;
  session.words.emplace(reinterpret_cast<ipc::SessionHeader*>(session.memory.data()));
  for (std::uint32_t i = 0; i < session.lane_count; ++i) {
    session.lanes.emplace_back(ipc::LaneMemory(ipc::lane_base(session.memory.data(), i)));
  }
}

void FakeDaemon::Loop::register_region(Session& session, const ipc::RegisterRegion& request,
                                       ipc::Received& received) {
  ipc::RegionReply reply;
  reply.request_id = request.request_id;
  FakeRegion region;
  region.length = request.length;
  region.is_staging = request.name == "simm-staging";
  const bool automatic = request.kind == ipc::RegionRequestKind::automatic;
  if (request.kind == ipc::RegionRequestKind::gpu) {
    reply.status = Status::not_implemented;
    reply.reason = "gpu memory is not built";
  } else if (request.has_fd && daemon.options_.stages_files && !region.is_staging) {
    reply.kind = ipc::RegionRequestKind::staged;
    reply.reason = "staged; not shared: its owner can punch holes";
  } else if (request.has_fd) {
    region.mapping =
        ipc::Mapping::map(received.fds[0].get(), request.fd_offset, request.length).value();
    region.base = region.mapping.data();
    reply.kind = ipc::RegionRequestKind::shared;
    reply.reason = "shared: a memory file came with it";
  } else if ((automatic || request.kind == ipc::RegionRequestKind::adopted) &&
             daemon.options_.adopts) {
    // One process: the client's address is ours.
    region.base = reinterpret_cast<std::byte*>(request.address);
    reply.kind = ipc::RegionRequestKind::adopted;
    reply.reason = "adopted: a shared mapping";
  } else if (request.kind == ipc::RegionRequestKind::foreign && daemon.options_.does_foreign) {
    region.base = reinterpret_cast<std::byte*>(request.address);
    reply.kind = ipc::RegionRequestKind::foreign;
    reply.reason = "foreign: configured";
  } else {
    reply.kind = ipc::RegionRequestKind::staged;
    reply.reason = "staged: the memory is private";
    if (!automatic) reply.status = Status::unsupported;
  }
  if (region.base != nullptr) {
    reply.handle = ipc::make_region_handle(session.next_region++, 7);
    session.regions.emplace(reply.handle, std::move(region));
    ++daemon.counts_.regions;
  }
  send(session, reply);
}

bool FakeDaemon::Loop::take(Session& session) {
  bool worked = false;
  for (std::uint32_t i = 0; i < session.lanes.size(); ++i) {
    ipc::Submission submission;
    while (session.lanes[i].poll_submission(submission) == ipc::Poll::taken) {
      worked = true;
      session.held.push_back({i, submission});
      ++daemon.counts_.submissions;
      ++daemon.counts_.holding;
      daemon.counts_.pages += submission.page_count;
      daemon.counts_.pages_most = std::max(daemon.counts_.pages_most.load(), submission.page_count);
      daemon.counts_.outstanding_most =
          std::max(daemon.counts_.outstanding_most.load(), session.lanes[i].outstanding());
      const std::lock_guard lock(daemon.mutex_);
      daemon.last_ = submission;
    }
  }
  if (daemon.tells_progress_) session.words->tell_progress();
  if (daemon.stopped_) return worked;
  // Newest first: completions need not come in the order of the submissions.
  while (!session.held.empty() && !session.gone) {
    const Held held = session.held.back();
    session.held.pop_back();
    carry_out(session, held);
    --daemon.counts_.holding;
    worked = true;
  }
  return worked;
}

void FakeDaemon::Loop::carry_out(Session& session, const Held& held) {
  ipc::DaemonLane& lane = session.lanes[held.lane];
  const ipc::Submission& submission = held.submission;
  ipc::Completion completion{};
  completion.token = submission.token;
  std::vector<ipc::PageDescriptor> pages(submission.page_count);
  if (submission.page_count > ipc::kPagesPerSubmissionMax ||
      lane.copy_pages(submission.page_first, submission.page_count, pages.data()) != Status::ok) {
    session.words->publish_poisoned(ipc::PoisonReason::bad_submission);
    session.gone = true;
    return;
  }
  for (std::uint32_t i = 0; i < submission.page_count; ++i) {
    std::string key(pages[i].key_bytes, '\0');
    if (pages[i].key_bytes == 0 || pages[i].key_bytes > ipc::kKeyBytesMax ||
        lane.copy_keys(pages[i].key_offset, pages[i].key_bytes,
                       reinterpret_cast<std::byte*>(key.data())) != Status::ok) {
      session.gone = true;
      return;
    }
    ipc::PageResult result = page(session, submission, pages[i], key);
    const std::string& late = daemon.options_.late;
    if (!late.empty() && key.compare(0, late.size(), late) == 0) {
      result = {static_cast<std::int32_t>(Status::timeout), 0, 0};
      if (daemon.options_.is_older) completion.status = result.status;
    }
    completion.pages_ok += result.status == 0 ? 1 : 0;
    completion.bytes_moved += result.bytes;
    lane.write_result(submission.page_first + i, result);
  }
  if (daemon.options_.loses_completions) return;
  if (lane.publish_completion(completion) == ipc::Wake::bell) (void)session.bell.ring();
}

ipc::PageResult FakeDaemon::Loop::page(Session& session, const ipc::Submission& submission,
                                       const ipc::PageDescriptor& descriptor,
                                       const std::string& key) {
  const auto result = [](Status status, std::uint64_t bytes = 0) {
    return ipc::PageResult{static_cast<std::int32_t>(status), 0, bytes};
  };
  const std::string name_space =
      submission.name_space == 0 ? "" : session.namespaces.at(submission.name_space - 1u);
  const std::string full = name_space + "/" + key;
  const std::lock_guard lock(daemon.store_->mutex);
  auto& objects = daemon.store_->objects;
  const auto found = objects.find(full);
  const auto opcode = static_cast<ipc::Opcode>(submission.opcode);
  if (opcode == ipc::Opcode::exists) {
    return found == objects.end() ? result(Status::not_found)
                                  : result(Status::ok, found->second.size());
  }
  if (opcode == ipc::Opcode::pin) {
    if (found == objects.end()) return result(Status::not_found);
    // A budget of one object.
    const bool fits = daemon.store_->pinned.empty() || daemon.store_->pinned.count(full) > 0;
    if (fits) daemon.store_->pinned.insert(full);
    return result(fits ? Status::ok : Status::no_space);
  }
  if (opcode == ipc::Opcode::unpin) {
    daemon.store_->pinned.erase(full);
    return result(found == objects.end() ? Status::not_found : Status::ok);
  }
  if (opcode == ipc::Opcode::remove) {
    return result(objects.erase(full) == 1 ? Status::ok : Status::not_found);
  }
  const auto region = session.regions.find(descriptor.region);
  if (region == session.regions.end() ||
      !ipc::range_within(descriptor.offset, descriptor.length, region->second.length)) {
    return result(Status::invalid_argument);
  }
  std::byte* const slice = region->second.base + descriptor.offset;
  const FakeOptions& options = daemon.options_;
  if ((options.maps_in_vain && !region->second.is_staging) ||
      (options.checks_presence && is_absent(slice, descriptor.length))) {
    ++daemon.counts_.absent;
    return {static_cast<std::int32_t>(Status::out_of_memory), ipc::kDetailAbsent, 0};
  }
  if (opcode == ipc::Opcode::put) {
    const bool replace = submission.put_mode == static_cast<std::uint8_t>(ipc::PutMode::replace);
    if (found == objects.end() || replace) {
      objects[full].assign(reinterpret_cast<const char*>(slice), descriptor.length);
    }
    return result(Status::ok, descriptor.length);
  }
  if (found == objects.end()) return result(Status::not_found);
  const std::string& object = found->second;
  const bool exact = (submission.flags & ipc::kFlagExactSize) != 0;
  if (exact && object.size() != descriptor.length) return result(Status::not_found);
  if (descriptor.object_offset > object.size()) return result(Status::invalid_argument);
  const std::uint64_t bytes = object.size() - descriptor.object_offset;
  if (bytes > descriptor.length) return result(Status::invalid_argument);
  std::memcpy(slice, object.data() + descriptor.object_offset, bytes);
  return result(Status::ok, bytes);
}

}  // namespace libclient_test
