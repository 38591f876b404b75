#include "python/native/connection.h"

#include <array>
#include <stdexcept>
#include <utility>
#include <vector>

#include "python/native/gil_release.h"
#include "python/native/log_notes.h"
#include "python/native/registration.h"

namespace simm::python {

namespace py = pybind11;

Connection::Connection(const ClientOptions& options, const std::string& name_space, bool exact_size,
                       bool immutable, py::object report, py::object warn_taken_back)
    : options_(options),
      exact_size_(exact_size),
      report_(std::move(report)),
      warn_taken_back_(std::move(warn_taken_back)) {
  std::string trouble;
  {
    const GilRelease released;
    Expected<Client> client = Client::connect(options);
    if (!client) {
      trouble = client.error().context;
    } else {
      client_ = std::make_shared<Client>(std::move(*client));
      session_ = client_->socket_path() + '\n' + options.manager_address;
      if (!name_space.empty()) {
        Expected<Namespace> opened = immutable ? client_->open_immutable_namespace(name_space)
                                               : client_->open_namespace(name_space);
        if (opened) name_space_ = *opened;
        if (!opened) trouble = "namespace " + name_space + ": " + opened.error().context;
      }
    }
  }
  if (!trouble.empty()) throw std::runtime_error(trouble);
  const std::string unplaced = RegistrationBook::instance().open_session(session_, client_);
  if (!unplaced.empty()) report_("register_mr", -1000, 1, unplaced, 0);
}

void Connection::close() noexcept {
  std::shared_ptr<Client> client = std::move(client_);
  client_.reset();
  const GilRelease released;
  client.reset();
}

py::list Connection::run(Operation operation, const py::object& keys, const py::object& views,
                         const py::object& offsets, CallOptions options) {
  options.name_space = name_space_;
  options.exact_size = options.exact_size || (exact_size_ && !options.ranged);
  Batch batch(operation, keys, views, offsets, options);
  const std::shared_ptr<Client> client = client_;  // close() in another thread does not hurt
  if (client != nullptr && !batch.refused()) batch.begin_transfer();
  std::string text = batch.reason();
  if (client == nullptr) {
    batch.refuse(Status::invalid_state);
    text = "the Store is closed: make another";
  } else if (!batch.refused()) {
    const GilRelease released;
    (void)batch.carry_out(*client);
    if (text.empty()) text = last_error();
  }
  py::list results = batch.results();
  report(batch, text);
  LogNotes::instance().tell();
  return results;
}

void Connection::report(const Batch& batch, const std::string& text) {
  const auto [status, count] = batch.failures();
  if (count == 0) return;
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  warn_if_taken_back();
  constexpr std::chrono::seconds kRepeatAfter(60);
  const auto [found, is_new] = reported_.try_emplace({batch.operation(), status});
  Reported& entry = found->second;
  if (!is_new && std::chrono::steady_clock::now() - entry.last < kRepeatAfter) {
    ++entry.unsaid;
    return;
  }
  const std::uint64_t before = std::exchange(entry.unsaid, 0);
  entry.last = std::chrono::steady_clock::now();
  try {
    report_(operation_name(batch.operation()), static_cast<int>(status), count, text, before);
  } catch (py::error_already_set& error) {
    // A data call never raises; KeyboardInterrupt and SystemExit are no errors of the report.
    if (!error.matches(PyExc_Exception)) throw;
    error.discard_as_unraisable("simm: reporting a failed call");
  }
  entry.last = std::chrono::steady_clock::now();
}

void Connection::warn_if_taken_back() {
  const std::shared_ptr<Client> client = client_;
  if (client == nullptr) return;
  const std::uint64_t slices = client->stats().taken_back;
  if (slices == std::exchange(taken_back_, slices) || slices == 0) return;  // 0: a child's session
  try {
    warn_taken_back_();
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) throw;
    error.discard_as_unraisable("simm: warning of memory that was taken back");
  }
}

std::shared_ptr<Channel> Connection::open_channel() {
  if (client_ == nullptr) throw std::runtime_error("the Store is closed: make another");
  std::string trouble;
  std::unique_ptr<Client> mine;
  {
    const GilRelease released;
    Expected<Client> client = Client::connect(options_);
    if (client) mine = std::make_unique<Client>(std::move(*client));
    if (!client) trouble = client.error().context;
    if (mine && mine->completion_fd() < 0) trouble = "no descriptor left for an event loop";
  }
  if (!trouble.empty()) throw std::runtime_error(trouble);
  LogNotes::instance().tell();
  return std::make_shared<Channel>(shared_from_this(), std::move(mine));
}

std::shared_ptr<FollowedKeys> Connection::follow_keys(bool present) {
  const std::shared_ptr<Client> client = client_;
  if (client == nullptr) throw std::runtime_error("the Store is closed: make another");
  Expected<KeyFollower> follower = client->follow_keys(name_space_, {present});
  if (!follower) throw std::runtime_error(follower.error().context);
  return std::make_shared<FollowedKeys>(client, std::move(*follower));
}

std::shared_ptr<Registration> Connection::allocate(std::uint64_t bytes,
                                                   const AllocateOptions& options) {
  const std::shared_ptr<Client> client = client_;
  if (client == nullptr) throw std::runtime_error("the Store is closed: make another");
  return RegistrationBook::instance().allocate(session_, client, bytes, options);
}

HeldLease Connection::lend_gpu(const std::string& gpu, std::uint64_t bytes,
                               std::uint32_t notice_ms) {
  const std::shared_ptr<Client> client = client_;
  if (client == nullptr) throw std::runtime_error("the Store is closed: make another");
  Expected<GpuLease> made = [&] {
    const GilRelease released;
    return client->lend_gpu(gpu, bytes, notice_ms);
  }();
  LogNotes::instance().tell();
  if (made) return HeldLease(new GpuLease(std::move(*made)));
  if (made.status() == Status::invalid_argument) throw py::value_error(made.error().context);
  throw std::runtime_error(made.error().context);
}

int Connection::ping(std::uint32_t timeout_ms) {
  const std::shared_ptr<Client> client = client_;
  if (client == nullptr) return static_cast<int>(Status::invalid_state);
  CallOptions options;
  options.timeout_ms = timeout_ms;
  Status status = Status::ok;
  {
    const GilRelease released;
    status = client->ping(options);
  }
  LogNotes::instance().tell();
  return static_cast<int>(status);
}

py::dict Connection::facts() const {
  py::dict facts;
  facts["closed"] = closed();
  if (client_ == nullptr) return facts;
  facts["socket"] = client_->socket_path();
  facts["attached"] = client_->attached();
  facts["max_value_bytes"] = client_->max_value_bytes();
  const ClientStats stats = client_->stats();
  facts["submissions"] = stats.submissions;
  facts["pages"] = stats.pages;
  facts["pages_ok"] = stats.pages_ok;
  facts["bytes_moved"] = stats.bytes_moved;
  facts["bytes_staged"] = stats.bytes_staged;
  facts["timeouts"] = stats.timeouts;
  facts["unreachable"] = stats.unreachable;
  facts["lane_waits"] = stats.lane_waits;
  facts["attaches"] = stats.attaches;
  facts["taken_back"] = stats.taken_back;
  facts["bytes_made_present"] = stats.bytes_made_present;
  return facts;
}

Channel::Channel(std::shared_ptr<Connection> connection, std::unique_ptr<Client> client)
    : connection_(std::move(connection)), started_(std::make_shared<Started>(std::move(client))) {}

Channel::Started::~Started() {
  const GilRelease released;
  std::array<Completed, 64> done;
  // Not the end of the Client: another thread may have a reference to it.
  while (client->pending() != 0) {
    constexpr std::uint32_t kLookMs = 100;
    client->wait(kLookMs);
    (void)client->drain(done);
  }
  client.reset();
}

py::object Channel::start(Operation operation, const py::object& keys, const py::object& views,
                          const py::object& offsets, CallOptions options, bool tells_pages) {
  options.name_space = connection_->name_space_;
  options.exact_size = options.exact_size || (connection_->exact_size_ && !options.ranged);
  auto batch = std::make_unique<Batch>(operation, keys, views, offsets, options);
  const std::shared_ptr<Started> mine = connection_->closed() ? nullptr : started_;
  const std::shared_ptr<Client> client = mine ? mine->client : nullptr;
  if (client != nullptr && !batch->refused()) batch->begin_transfer();
  std::string text = batch->reason();
  if (client == nullptr) {
    batch->refuse(Status::invalid_state);
    text = "the Store is closed: make another";
  } else if (!batch->refused()) {
    Status status = Status::ok;
    std::uint64_t ticket = 0;
    {
      const GilRelease released;
      CallReport report;
      if (tells_pages) {
        // Of the thread that drains, which has given the interpreter's lock up.
        report.on_page = [&ended = mine->ended_pages](const PageEnd& page) {
          ended.push_back(page);
        };
      }
      Expected<std::uint64_t> started = batch->start(client, report);
      status = started.status();
      if (started) ticket = *started;
      if (!started) text = started.error().context;
    }
    if (status == Status::ok) {
      mine->batches.emplace(ticket, std::move(batch));
      return py::int_(ticket);
    }
    batch->refuse(status);
  }
  py::list results = batch->results();
  connection_->report(*batch, text);
  return results;
}

py::list Channel::drain() {
  take(started_);
  return take_completed();
}

void Channel::take(std::shared_ptr<Started> mine) {
  std::vector<std::unique_ptr<Batch>> ended;
  std::array<Completed, 64> done;
  std::size_t count = done.size();
  while (mine != nullptr && count == done.size()) {
    {
      const GilRelease released;
      count = mine->client->drain(done);
    }
    for (const PageEnd& page : std::exchange(mine->ended_pages, {})) {
      const auto found = mine->batches.find(page.ticket);
      if (found == mine->batches.end()) continue;  // of a parent process
      pages_.append(
          py::make_tuple(page.ticket, page.index, found->second->result(page.index, page.result)));
    }
    for (std::size_t i = 0; i < count; ++i) {
      auto node = mine->batches.extract(done[i].ticket);
      if (node.empty()) continue;  // of a parent process
      completed_.append(py::make_tuple(done[i].ticket, node.mapped()->results()));
      ended.push_back(std::move(node.mapped()));
    }
  }
  for (const std::unique_ptr<Batch>& batch : ended) connection_->report(*batch, batch->reason());
  LogNotes::instance().tell();
}

py::list Channel::finish() {
  const std::shared_ptr<Started> mine = started_;
  take(mine);
  while (mine != nullptr && mine->client->pending() != 0) {
    {
      const GilRelease released;
      constexpr std::uint32_t kLookMs = 100;
      mine->client->wait(kLookMs);
    }
    take(mine);
  }
  return take_completed();
}

int Channel::fileno() {
  const std::shared_ptr<Started> mine = started_;
  return mine == nullptr ? -1 : mine->client->completion_fd();
}

void Channel::close() noexcept {
  std::exchange(started_, nullptr).reset();
}

}  // namespace simm::python
