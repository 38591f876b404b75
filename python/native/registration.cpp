#include "python/native/registration.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
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
  // A child must not inherit the mutex from a thread that it does not have.
  (void)::pthread_atfork([] { instance().mutex_.lock(); }, [] { instance().mutex_.unlock(); },
                         [] { instance().mutex_.unlock(); });
}

std::shared_ptr<Registration> RegistrationBook::cover(std::uintptr_t address, std::uint64_t length,
                                                      const py::object& owner,
                                                      const PieceOptions& options) {
  auto piece = std::make_shared<Registration>(address, length, owner, options);
  // Promoted pointers live until the interpreter's lock is back: one may be a piece's last owner.
  std::vector<std::shared_ptr<Registration>> alive;
  std::string reason;
  {
    const GilRelease released;
    const std::lock_guard lock(mutex_);
    for (const std::weak_ptr<Registration>& entry : pieces_) {
      if (std::shared_ptr<Registration> other = entry.lock()) alive.push_back(std::move(other));
    }
    const auto found = std::find_if(alive.begin(), alive.end(), [&](const auto& other) {
      return !other->ended_ && other->covers(address, length);
    });
    if (found == alive.end()) {
      forget_closed();
      for (const Session& session : sessions_) {
        if (reason.empty()) reason = place(*piece, session);
      }
      if (reason.empty()) pieces_.push_back(piece);
    }
    alive.push_back(found == alive.end() ? piece : *found);
    ++alive.back()->users_;
  }
  if (!reason.empty()) throw std::runtime_error(reason);
  return alive.back();
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
      piece = std::make_shared<Registration>(address, bytes, py::object());
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
  std::vector<std::shared_ptr<Registration>> alive;  // outlives the scope without the lock
  const GilRelease released;
  const std::lock_guard lock(mutex_);
  forget_closed();
  sessions_.push_back({session, client});
  std::string first;
  for (const std::weak_ptr<Registration>& entry : pieces_) {
    std::shared_ptr<Registration> piece = entry.lock();
    if (!piece) continue;
    std::string reason = piece->ended_ ? std::string() : place(*piece, sessions_.back());
    if (first.empty()) first = std::move(reason);
    alive.push_back(std::move(piece));
  }
  return first;
}

std::string RegistrationBook::place(Registration& piece, const Session& session) {
  const auto is_there = [&](const Registration::Placed& placed) {
    return placed.session == session.name;
  };
  if (std::any_of(piece.regions_.begin(), piece.regions_.end(), is_there)) return {};
  const std::shared_ptr<Client> client = session.client.lock();
  if (!client) return {};
  // SAFETY: the piece's owner keeps the memory where it is for as long as the region lives.
  void* const memory = reinterpret_cast<void*>(piece.address());
  RegisterOptions wish;
  wish.stopped_daemon = piece.options_.pinned ? StoppedDaemon::wait : StoppedDaemon::take_back;
  Expected<Region> region = Error{Status::unsupported, "not a memory file"};
  if (piece.options_.fd >= 0) {
    region = client->register_fd(piece.options_.fd, piece.options_.fd_offset, piece.length(),
                                 memory, wish);
  }
  if (!region) region = client->register_region(memory, piece.length(), wish);
  if (!region) return std::move(region).error().context;
  piece.regions_.push_back({session.name, std::move(*region)});
  return {};
}

void RegistrationBook::forget_closed() {
  std::erase_if(pieces_, [](const auto& entry) { return entry.expired(); });
  std::erase_if(sessions_, [](const Session& entry) { return entry.client.expired(); });
}

}  // namespace simm::python
