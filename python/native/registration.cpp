#include "python/native/registration.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <utility>

#include "python/native/gil_release.h"

namespace simm::python {

namespace py = pybind11;

Registration::Registration(std::uintptr_t address, std::uint64_t length, py::object owner,
                           const PieceOptions& options)
    : address_(address), length_(length), owner_(std::move(owner)), options_(options) {
  // The caller may close its descriptor; a later session needs one.
  if (options_.fd >= 0) options_.fd = ::fcntl(options_.fd, F_DUPFD_CLOEXEC, 0);
}

Registration::~Registration() {
  end();
  if (options_.fd >= 0) (void)::close(options_.fd);
}

std::vector<std::pair<std::string, std::string>> Registration::kinds() const {
  std::vector<std::pair<std::string, std::string>> kinds;
  const GilRelease released;
  const std::lock_guard lock(RegistrationBook::instance().mutex_);
  for (const Placed& placed : regions_) {
    kinds.emplace_back(region_kind_name(placed.region.kind()), placed.region.kind_reason());
  }
  return kinds;
}

void Registration::release() noexcept {
  {
    const GilRelease released;
    const std::lock_guard lock(RegistrationBook::instance().mutex_);
    if (users_ == 0 || --users_ != 0) return;
  }
  end();
}

void Registration::end() noexcept {
  const GilRelease released;
  std::vector<Placed> regions;
  {
    const std::lock_guard lock(RegistrationBook::instance().mutex_);
    ended_ = true;
    regions.swap(regions_);
  }
  // Outside the mutex: it may wait for operations.
  for (Placed& placed : regions) (void)placed.region.deregister();
}

RegistrationBook& RegistrationBook::instance() {
  // Leaked on purpose: objects of a dying interpreter may outlive static destructors.
  static RegistrationBook* const book = new RegistrationBook;
  return *book;
}

RegistrationBook::RegistrationBook() {
  // A child must not inherit the mutex from a thread that it does not have. Whoever names memory to
  // a daemon may do so for seconds: fork() does not wait for that one.
  (void)::pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                         [] {
                           new (&instance().placing_) std::mutex;
                           instance().mutex_.unlock();
                         });
}

std::shared_ptr<Registration> RegistrationBook::find(std::uintptr_t address, std::uint64_t length,
                                                     Pieces& alive) {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Registration> found;
  for (const std::weak_ptr<Registration>& entry : pieces_) {
    std::shared_ptr<Registration> other = entry.lock();
    if (!other) continue;
    if (!found && !other->ended_ && other->covers(address, length)) found = other;
    alive.push_back(std::move(other));
  }
  if (found) ++found->users_;
  return found;
}

std::shared_ptr<Registration> RegistrationBook::cover(std::uintptr_t address, std::uint64_t length,
                                                      const py::object& owner,
                                                      const PieceOptions& options) {
  auto piece = std::make_shared<Registration>(address, length, owner, options);
  Pieces alive;  // outlives the scope without the lock
  std::shared_ptr<Registration> found;
  std::string reason;
  {
    const GilRelease released;
    found = find(address, length, alive);
    if (!found) {
      const std::lock_guard placing(placing_);
      found = find(address, length, alive);
      if (!found) reason = place_everywhere(piece);
      if (!found && reason.empty()) found = piece;
    }
  }
  if (!found) throw std::runtime_error(reason);
  if (options.wait_if_stopped && !found->options_.wait_if_stopped && !found->options_.pinned) {
    found->release();
    throw std::runtime_error(
        "wait_if_stopped = True: the memory lies in a region that was registered without it: "
        "deregister that one first, or register it with wait_if_stopped=True");
  }
  return found;
}

std::string RegistrationBook::place_everywhere(const std::shared_ptr<Registration>& piece) {
  std::vector<Session> sessions;
  {
    const std::lock_guard lock(mutex_);
    forget_closed();
    sessions = sessions_;
  }
  for (const Session& session : sessions) {
    if (std::string reason = place(*piece, session); !reason.empty()) return reason;
  }
  const std::lock_guard lock(mutex_);
  pieces_.push_back(piece);
  piece->users_ = 1;
  return {};
}

std::shared_ptr<Registration> RegistrationBook::allocate(const std::string& session,
                                                         const std::shared_ptr<Client>& client,
                                                         std::uint64_t bytes,
                                                         const AllocateOptions& options) {
  std::shared_ptr<Registration> piece;
  std::string reason;
  {
    const GilRelease released;
    Expected<Region> region = client->allocate_region(bytes, options);
    if (region) {
      const auto address = reinterpret_cast<std::uintptr_t>(region->data());
      PieceOptions kept;
      kept.wait_if_stopped = options.stopped_daemon == StoppedDaemon::wait;
      piece = std::make_shared<Registration>(address, bytes, py::object(), kept);
      piece->memory_ = *region;
      piece->regions_.push_back({session, std::move(*region)});
      piece->users_ = 1;
      const std::lock_guard lock(mutex_);
      forget_closed();
      pieces_.push_back(piece);
    } else {
      reason = region.error().context;
    }
  }
  if (!piece) throw std::runtime_error(reason);
  return piece;
}

std::string RegistrationBook::open_session(const std::string& session,
                                           const std::shared_ptr<Client>& client) {
  Pieces alive;  // outlives the scope without the lock
  const GilRelease released;
  const std::lock_guard placing(placing_);
  {
    const std::lock_guard lock(mutex_);
    forget_closed();
    sessions_.push_back({session, client});
    for (const std::weak_ptr<Registration>& entry : pieces_) {
      if (std::shared_ptr<Registration> piece = entry.lock()) alive.push_back(std::move(piece));
    }
  }
  std::string first;
  for (const std::shared_ptr<Registration>& piece : alive) {
    std::string reason = place(*piece, {session, client});
    if (first.empty()) first = std::move(reason);
  }
  return first;
}

std::string RegistrationBook::place(Registration& piece, const Session& session) {
  const std::shared_ptr<Client> client = session.client.lock();
  if (!client) return {};
  {
    const std::lock_guard lock(mutex_);
    const bool is_there =
        std::any_of(piece.regions_.begin(), piece.regions_.end(),
                    [&](const auto& placed) { return placed.session == session.name; });
    if (is_there || piece.ended_) return {};
  }
  // SAFETY: the piece's owner keeps the memory where it is for as long as the region lives.
  void* const memory = reinterpret_cast<void*>(piece.address());
  RegisterOptions wish;
  const bool waits = piece.options_.pinned || piece.options_.wait_if_stopped;
  wish.stopped_daemon = waits ? StoppedDaemon::wait : StoppedDaemon::take_back;
  if (piece.options_.on_device) wish.kind = RegionKind::gpu;
  Expected<Region> region = Error{Status::unsupported, "not a memory file"};
  if (piece.options_.fd >= 0) {
    region = client->register_fd(piece.options_.fd, piece.options_.fd_offset, piece.length(),
                                 memory, wish);
  }
  if (!region) region = client->register_region(memory, piece.length(), wish);
  if (!region) return std::move(region).error().context;
  const std::lock_guard lock(mutex_);
  // Where it ended meanwhile the region goes with this handle, behind the lock.
  if (!piece.ended_) piece.regions_.push_back({session.name, *region});
  return {};
}

void RegistrationBook::forget_closed() {
  std::erase_if(pieces_, [](const auto& entry) { return entry.expired(); });
  std::erase_if(sessions_, [](const Session& entry) { return entry.client.expired(); });
}

}  // namespace simm::python
