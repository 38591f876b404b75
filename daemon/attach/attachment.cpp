#include "daemon/attach/attachment.h"

#include <unistd.h>

#include <array>
#include <span>
#include <string>
#include <utility>
#include <variant>

#include "daemon/attach/attach_counters.h"
#include "daemon/attach/region_release.h"
#include "daemon/base/sanitize.h"
#include "daemon/session/session_counters.h"
#include "ipc/attach_rules.h"
#include "ipc/control_codec.h"
#include "ipc/cuda/gpu_descriptor.h"
#include "ipc/memory_file.h"
#include "simm/version.h"

namespace simm::control {

Attachment::Attachment(AttachServices services, AttachmentOwner& owner, std::uint64_t session_id,
                       ipc::FdSocket socket, ipc::PeerIdentity peer, const Tenant& tenant,
                       std::size_t listener)
    : services_(services),
      owner_(owner),
      session_id_(session_id),
      socket_(std::move(socket)),
      account_(std::make_shared<RegionAccount>(
          std::move(peer), tenant.id, services.environment.config.memory.map_bytes_max,
          services.environment.config.session.regions_max,
          services.environment.config.memory.touch_budget_bytes,
          services.accounts.of(tenant).pins(), services.accounts.of(tenant).touches())),
      tenant_(tenant),
      listener_(listener),
      readable_(services.environment.io),
      process_exit_(services.environment.io),
      deadline_(services.environment.io),
      leases_(services.environment, services.adopter, services.opener, tenant, session_id) {}

void Attachment::start() {
  const auto self = shared_from_this();
  if (!readable_.watch(socket_.fd())) return close("unwatchable");
  if (peer().pidfd() >= 0 && process_exit_.watch(peer().pidfd())) {
    process_exit_.when_readable([this] { later([this] { close("exited"); }); });
  }
  deadline_.expires_after(
      std::chrono::milliseconds(services_.environment.config.session.handshake_ms));
  deadline_.async_wait([weak = weak_from_this()](const boost::system::error_code& cancelled) {
    const auto alive = weak.lock();
    if (cancelled || alive == nullptr || !alive->in_handshake_) return;
    alive->services_.environment.errors.record("control.attach", Status::timeout,
                                               "handshake not finished in time");
    alive->close("handshake_timeout", ipc::PoisonReason::handshake_timeout);
  });
  read_next();
}

void Attachment::later(std::function<void()> call) {
  const auto self = shared_from_this();
  owner_.turns().take(self, [self, call = std::move(call)] { call(); });
}

void Attachment::later(std::shared_ptr<Attachment> self, std::function<void()> call) {
  boost::asio::io_context& io = self->services_.environment.io;
  boost::asio::post(io, [self = std::move(self), call = std::move(call)]() mutable {
    self->later(std::move(call));
  });
}

void Attachment::read_next() {
  if (closing_elsewhere_ > 0) return;  // on_closed_elsewhere() goes on
  readable_.when_readable(
      [self = shared_from_this()] { self->later([&its = *self] { its.on_readable(); }); });
}

void Attachment::on_readable() {
  if (state_ == State::draining || state_ == State::closed) return;  // meanwhile
  std::array<std::byte, ipc::kControlMessageBytesMax> buffer;
  ipc::Received received = socket_.try_receive(buffer);
  if (received.result != ipc::SocketResult::done) {
    (void)keep_memory(received, false);
    return on_no_message(received.result);
  }
  auto message = ipc::decode_client_message(std::span(buffer.data(), received.bytes));
  if (!message) {
    (void)keep_memory(received, false);
    services_.environment.errors.record("control.message", message.status(),
                                        message.error().context);
    return close("bad_message", ipc::PoisonReason::bad_message);
  }
  const auto* region = std::get_if<ipc::RegisterRegion>(&*message);
  const bool brings_memory = std::holds_alternative<ipc::Mapped>(*message) &&
                             state_ == State::mapping && memory_->is_of_client;
  const bool has_fd = brings_memory || (region != nullptr && region->has_fd);
  const std::size_t expected_fds = has_fd ? 1 : 0;
  const bool is_as_expected = received.fd_count == expected_fds;
  const bool is_in_place = brings_memory || state_ == State::open;
  std::vector<ipc::UniqueFd> fds = keep_memory(received, is_as_expected && is_in_place);
  if (!is_as_expected) {
    return close("unexpected_descriptors", ipc::PoisonReason::bad_descriptor_passing);
  }
  handle(std::move(*message), std::move(fds));
}

void Attachment::on_no_message(ipc::SocketResult why) {
  switch (why) {
    case ipc::SocketResult::would_block:
      return read_next();
    case ipc::SocketResult::hung_up:
      return close("hung_up");
    case ipc::SocketResult::too_many_fds:
      return close("too_many_descriptors", ipc::PoisonReason::bad_descriptor_passing);
    case ipc::SocketResult::too_long:
      return close("message_too_long", ipc::PoisonReason::bad_message);
    case ipc::SocketResult::done:
    case ipc::SocketResult::failed:
      return close("receive_failed");
  }
}

// What nobody wants is closed elsewhere: of memory too it may be the last reference, and then its
// closer frees the pages. Memory of a GPU comes as a descriptor of its driver's device. Whoever
// closes one of those waits for the driver at most, so the adopter may: not for what another client
// does.
std::vector<ipc::UniqueFd> Attachment::keep_memory(ipc::Received& received, bool is_wanted) {
  std::vector<ipc::UniqueFd> memory;
  auto odd = std::make_shared<std::vector<ipc::UniqueFd>>();
  for (std::size_t i = 0; i < received.fd_count; ++i) {
    ipc::UniqueFd& fd = received.fds[i];
    const bool is_kept =
        is_wanted && (ipc::MemoryFile::is_memory(fd.get()) || ipc::is_gpu_descriptor(fd.get()));
    (is_kept ? memory : *odd).push_back(std::move(fd));
  }
  if (!odd->empty()) close_elsewhere(std::move(odd));
  return memory;
}

void Attachment::close_elsewhere(std::shared_ptr<void> closed_last) {
  ++closing_elsewhere_;
  services_.closers.submit(tenant_,
                           [self = shared_from_this(), last = std::move(closed_last)]() mutable {
                             last.reset();
                             // The attachment's end belongs to the control thread.
                             Attachment& its = *self;
                             later(std::move(self), [&its] { its.on_closed_elsewhere(); });
                           });
}

void Attachment::on_closed_elsewhere() {
  if (--closing_elsewhere_ > 0) return;
  if (is_finished_) return owner_.on_closed(*this);
  // While it opens or is busy, whoever ends that reads on.
  if (state_ == State::hello || state_ == State::mapping || state_ == State::open) read_next();
}

void Attachment::handle(ipc::ClientMessage message, std::vector<ipc::UniqueFd> fds) {
  if (const auto* hello = std::get_if<ipc::Hello>(&message); hello && state_ == State::hello) {
    return on_hello(*hello);
  }
  if (std::holds_alternative<ipc::Mapped>(message) && state_ == State::mapping) {
    return on_mapped(std::move(fds));
  }
  if (std::holds_alternative<ipc::Goodbye>(message)) return close("goodbye");
  if (state_ == State::open) {
    if (const auto* wanted = std::get_if<ipc::OpenNamespace>(&message)) {
      return on_open_name_space(*wanted);
    }
    if (const auto* wanted = std::get_if<ipc::RegisterRegion>(&message)) {
      return on_register_region(*wanted, std::move(fds));
    }
    if (const auto* wanted = std::get_if<ipc::DeregisterRegion>(&message)) {
      return on_deregister_region(*wanted);
    }
    if (const auto* wanted = std::get_if<ipc::GpuLend>(&message)) {
      return leases_.lend(*wanted, lease_answer());
    }
    if (const auto* wanted = std::get_if<ipc::GpuReclaim>(&message)) {
      return leases_.reclaim(*wanted, lease_answer());
    }
    const auto* question = std::get_if<ipc::FollowKeys>(&message);
    if (question != nullptr && services_.key_followers != nullptr) {
      return reply(services_.key_followers->follow(session_id_, tenant_, *question));
    }
  }
  // A message out of its place. (In `opening` and `busy` nothing is read.)
  close("message_out_of_place", ipc::PoisonReason::bad_message);
}

void Attachment::on_hello(const ipc::Hello& hello) {
  client_name_ = base::sanitize(hello.client_name, 100);
  const base::Config& config = services_.environment.config;
  ipc::DaemonFacts facts;
  facts.version = SIMM_VERSION_STRING;
  facts.manager_address = config.cluster.manager;
  const Outcome fits = ipc::check_hello(hello, facts);
  if (!fits) return refuse(fits.status(), fits.error().context);

  const std::uint32_t lanes =
      ipc::granted_lanes(hello.lane_count, config.session.lanes_default, ipc::kLanesMax);
  const std::uint32_t layout = ipc::common_layout(hello, facts);
  const std::uint32_t extensions = hello.extensions & granted_extensions();
  if ((extensions & ipc::kClientMemory) == 0) return make_memory(lanes, layout, extensions);
  auto memory = SessionMemory::without_pages(lanes, layout);
  if (!memory) return refuse_memory(memory.error());
  welcome(std::move(*memory), extensions);
}

void Attachment::refuse_memory(const Error& why) {
  services_.environment.errors.record("control.session_memory", why.status, why.context);
  refuse(Status::out_of_memory, "no memory for another session: " + why.context);
}

// On the sealer: to make the pages of many lanes takes longer than the control thread may be away.
void Attachment::make_memory(std::uint32_t lanes, std::uint32_t layout, std::uint32_t extensions) {
  const std::uint64_t bytes = ipc::session_bytes(lanes);
  if (const Outcome room = services_.session_memory.admit(tenant_, bytes); !room) {
    meet(base::Limit::session_memory_bytes);
    return refuse(room.status(), room.error().context);
  }
  services_.session_memory.add(tenant_, session_id_, bytes, -1);
  state_ = State::making;
  ++closing_elsewhere_;
  services_.sealers.submit(tenant_,
                           [self = shared_from_this(), lanes, layout, extensions]() mutable {
                             auto made = std::make_shared<Expected<SessionMemory>>(
                                 SessionMemory::create(self->session_id_, lanes, layout));
                             Attachment& its = *self;
                             later(std::move(self), [&its, made = std::move(made), extensions] {
                               its.on_made(made, extensions);
                               its.on_closed_elsewhere();
                             });
                           });
}

void Attachment::on_made(std::shared_ptr<Expected<SessionMemory>> made, std::uint32_t extensions) {
  if (!*made) services_.session_memory.forget(session_id_);
  if (*made) services_.session_memory.watch(session_id_, (*made)->pages.file->fd());
  if (state_ != State::making) {  // it is over; unmapping takes its time
    services_.session_memory.end(session_id_);
    return releaser().submit_release([made = std::move(made)] {}, tenant_.id.value);
  }
  if (!*made) return refuse_memory(made->error());
  welcome(std::move(**made), extensions);
}

void Attachment::welcome(SessionMemory memory, std::uint32_t extensions) {
  const base::Config& config = services_.environment.config;
  memory_.emplace(std::move(memory));
  ipc::Welcome welcome;
  welcome.layout_version = memory_->layout;
  welcome.daemon_version = SIMM_VERSION_STRING;
  welcome.session_id = session_id_;
  welcome.tenant = tenant_.name;
  welcome.session_bytes = ipc::session_bytes(memory_->lanes);
  welcome.lane_count = memory_->lanes;
  welcome.limits = {
      ipc::kValueBytesMax,           ipc::kKeyBytesMax,
      config.session.regions_max,    config.engine.timeout_default_ms * base::kNsPerMs,
      config.store.lease_default_ms, config.store.lease_max_ms};
  welcome.extensions = extensions;
  std::array<int, ipc::kWelcomeFds + 2> fds{};
  std::size_t fd_count = 0;
  if (!memory_->is_of_client) fds[fd_count++] = memory_->pages.file->fd();
  fds[fd_count++] = memory_->client_bell.fd();
  if ((welcome.extensions & ipc::kProcessDescriptor) != 0) {
    fds[fd_count++] = services_.reach.process_fd;
  }
  if ((welcome.extensions & ipc::kDeathMark) != 0) {
    fds[fd_count++] = services_.reach.death_mark->fd();
  }
  if (!send(welcome, std::span(fds).first(fd_count))) return close("unreachable");
  memory_->client_bell = ipc::BellSocket(-1);
  state_ = State::mapping;
  read_next();
}

std::uint32_t Attachment::granted_extensions() const noexcept {
  const ipc::DeathMark* const mark = services_.reach.death_mark;
  const std::uint32_t marked = mark != nullptr && mark->is_complete() ? ipc::kDeathMark : 0;
  const std::uint32_t here = marked | ipc::kGpuLeases |
                             (services_.takes_pages ? ipc::kClientMemory : 0u) |
                             (services_.key_followers != nullptr ? ipc::kKeyNews : 0u);
  if (!services_.reach.outlives_socket) return here;
  // A pidfd lets a process of the daemon's own user do what that user may do to the daemon. Where
  // such a client can not name the daemon's process, it does not get a name for it here.
  const bool is_hidden_twin = peer().pid() == 0 && peer().uid() == ::geteuid();
  const bool has_process = services_.reach.process_fd >= 0 && !is_hidden_twin;
  return here | ipc::kReachOutlivesSocket | (has_process ? ipc::kProcessDescriptor : 0u);
}

void Attachment::on_mapped(std::vector<ipc::UniqueFd> fds) {
  if (!memory_->is_of_client) return seal_pages();
  if (fds.empty()) {  // keep_memory() took it
    return refuse(Status::invalid_argument,
                  "session memory of the client: the descriptor is no memory: pass a memfd");
  }
  take_pages(std::move(fds.front()));
}

void Attachment::take_pages(ipc::UniqueFd fd) {
  state_ = State::sealing;
  ++closing_elsewhere_;
  services_.sealers.submit(
      tenant_, [self = shared_from_this(), lanes = memory_->lanes, layout = memory_->layout,
                fd = std::make_shared<ipc::UniqueFd>(std::move(fd))]() mutable {
        auto pages = std::make_shared<Expected<SessionPages>>(
            SessionPages::take(std::move(*fd), lanes, layout));
        // The attachment's end belongs to the control thread.
        Attachment& its = *self;
        later(std::move(self), [&its, pages = std::move(pages)] {
          its.on_taken(pages);
          its.on_closed_elsewhere();
        });
      });
}

void Attachment::on_taken(std::shared_ptr<Expected<SessionPages>> pages) {
  if (state_ != State::sealing) {  // it is over; unmapping takes its time
    return releaser().submit_release([pages = std::move(pages)] {}, tenant_.id.value);
  }
  if (!*pages) return refuse(pages->status(), pages->error().context);
  memory_->pages = std::move(**pages);
  on_sealed(Done{});
}

void Attachment::seal_pages() {
  state_ = State::sealing;
  ++closing_elsewhere_;
  services_.sealers.submit(tenant_,
                           [self = shared_from_this(), file = memory_->pages.file]() mutable {
                             const Outcome sealed = file->seal_final();
                             // The attachment's end belongs to the control thread.
                             Attachment& its = *self;
                             later(std::move(self), [&its, sealed] {
                               if (its.state_ == State::sealing) its.on_sealed(sealed);
                               its.on_closed_elsewhere();
                             });
                           });
}

void Attachment::on_sealed(const Outcome& sealed) {
  // From here on nobody can take pages away, so the rings may be read.
  if (!sealed) {
    services_.environment.errors.record("control.seal", sealed.status(), sealed.error().context);
    return close("seal_failed");
  }
  state_ = State::opening;
  services_.plane.open_session({session_id_, &*memory_, &tenant_, &services_.accounts.of(tenant_)});
}

void Attachment::on_opened(Status status) {
  if (state_ != State::opening) return;  // it is closing already
  if (status != Status::ok) {
    send(ipc::Refused{status, "no memory for another session on the data agents"});
    return close("refused");
  }
  state_ = State::open;
  was_open_ = true;
  deadline_.cancel();
  services_.environment.events.tell(base::EventKind::session_attached,
                                    {{"session", session_id_},
                                     {"tenant", tenant_.name},
                                     {"pid", static_cast<std::uint64_t>(peer().pid())},
                                     {"client", client_name_}});
  leave_handshake();
  reply(ipc::Opened{});
}

void Attachment::on_open_name_space(const ipc::OpenNamespace& wanted) {
  state_ = State::busy;
  request_id_ = wanted.request_id;
  const base::NamespaceId name_space = services_.tenants.namespace_id(wanted.name);
  const bool is_counted = wanted.name.empty() || name_spaces_.count(name_space.value) != 0;
  if (!is_counted) {
    if (!services_.accounts.of(tenant_).open_name_space(name_space)) {
      return on_name_space(Status::out_of_memory, 0);
    }
    name_spaces_.insert(name_space.value);
  }
  const bool is_immutable =
      wanted.immutable || services_.tenants.is_immutable(tenant_.id, wanted.name);
  services_.plane.open_name_space(session_id_, {name_space, is_immutable});
}

void Attachment::on_name_space(Status status, std::uint16_t id) {
  if (state_ != State::busy) return;
  if (status != Status::ok) {
    meet(base::Limit::namespaces_per_tenant);
  }
  reply(
      ipc::NamespaceReply{request_id_, status, id,
                          status == Status::ok ? "" : "this tenant has too many namespaces open"});
}

// What the client asked for is refused.
void Attachment::meet(base::Limit limit) {
  services_.environment.limits.reached(limit);
  services_.environment.events.record(
      base::EventKind::tenant_over_budget, tenant_.name,
      "limit=" + std::string(base::limit_name(limit)) + " pid=" + std::to_string(peer().pid()));
}

void Attachment::refuse(Status status, const std::string& reason) {
  AttachCounters(services_.environment.counters).refused.add();
  send(ipc::Refused{status, reason});
  close("refused");
}

bool Attachment::send(const ipc::DaemonMessage& message, std::span<const int> fds) {
  const auto packet = ipc::encode(message);
  if (!packet) {
    services_.environment.errors.record("control.encode", packet.status(), packet.error().context);
    return false;
  }
  return socket_.try_send(*packet, fds) == ipc::SocketResult::done;
}

void Attachment::reply(const ipc::DaemonMessage& message) {
  // A client that does not read its replies does not want them.
  if (!send(message)) return close("reply_undeliverable");
  state_ = State::open;
  read_next();
}

void Attachment::on_poisoned(ipc::PoisonReason reason) {
  if (state_ == State::draining || state_ == State::closed) return;
  close("poisoned", reason);
}

void Attachment::end(const char* cause, ipc::PoisonReason poison, bool client_waits) {
  if (state_ == State::draining || state_ == State::closed) return;
  const auto self = shared_from_this();
  const bool running = state_ >= State::opening;
  AttachCounters(services_.environment.counters).ended(cause).add();
  readable_.stop();
  process_exit_.stop();
  deadline_.cancel();
  leases_.end();
  state_ = State::draining;
  end_cause_ = cause;
  poison_ = poison;
  if (!running) return finish();
  if (services_.key_followers != nullptr) services_.key_followers->leave_all(session_id_);
  leave_handshake();
  if (poison != ipc::PoisonReason::none) send(ipc::Poisoned{poison});
  const bool is_expelled = poison != ipc::PoisonReason::none;
  services_.environment.events.tell(
      is_expelled ? base::EventKind::session_expelled : base::EventKind::session_ended,
      {{"session", session_id_},
       {"tenant", tenant_.name},
       {"pid", static_cast<std::uint64_t>(peer().pid())},
       {"cause", cause},
       {"poisoned", session::poison_reason_name(poison)}});
  // The socket stays open until nothing of the session is used any more: its hang-up tells a client
  // that drains with us that everything has ended.
  services_.plane.close_session(session_id_, poison, client_waits);
}

void Attachment::leave_handshake() {
  if (!in_handshake_) return;
  in_handshake_ = false;
  owner_.on_handshake_over(*this);
}

void Attachment::on_gone(SessionRemains remains, ipc::BellSocket bell) {
  remains_ = std::move(remains);
  if (memory_) memory_->bell = std::move(bell);
  if (registering_) {
    // A job of ours is under way; on_region_ready() comes here again.
    state_ = State::closed;
    return;
  }
  finish();
}

void Attachment::finish() {
  const auto self = shared_from_this();
  readable_.stop();
  process_exit_.stop();
  deadline_.cancel();
  state_ = State::closed;
  leave_handshake();
  close_sockets();
  regions_.clear();
  for (const std::uint64_t value : name_spaces_) {
    services_.accounts.of(tenant_).close_name_space({value});
  }
  name_spaces_.clear();
  services_.session_memory.end(session_id_);
  if (memory_) {
    auto memory = std::make_shared<SessionMemory>(std::move(*memory_));
    memory_.reset();
    // Regions first: they may lie in the session's budgets and lanes.
    RegionRelease::start(releaser(), tenant_.id.value, std::move(remains_.regions),
                         [session = std::move(remains_.session), account = account_,
                          memory = std::move(memory)]() mutable {
                           session.reset();
                           account.reset();
                           memory.reset();
                         });
  }
  is_finished_ = true;
  if (closing_elsewhere_ == 0) owner_.on_closed(*this);
}

void Attachment::close_sockets() {
  if (socket_.shut()) {
    socket_.close();
  } else {
    close_elsewhere(std::make_shared<ipc::FdSocket>(std::move(socket_)));
  }
  if (!memory_) return;
  if (memory_->bell.shut()) return;
  close_elsewhere(std::make_shared<ipc::BellSocket>(std::move(memory_->bell)));
}

const char* Attachment::state_name() const noexcept {
  constexpr std::array<const char*, 9> kNames = {
      "hello", "making", "mapping", "sealing", "opening", "open", "busy", "draining", "closed"};
  return kNames[static_cast<std::size_t>(state_)];
}

}  // namespace simm::control
