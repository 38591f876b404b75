// Batch: the pages of one call on their way between Python's lists and libsimm's. It owns copies of
// the lists, and with them keys, views and their memory, until the call has ended, whatever other
// threads do to the lists meanwhile.
// Thread: with the interpreter's lock, except carry_out() and start().
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "python/native/transfers.h"
#include "simm/client.h"

namespace simm::python {

class MrExt;
struct BlockView;
struct Views;

enum class Operation : std::uint8_t { put, get, exists, length, remove, pin, unpin };

class Batch {
public:
  // `views`: for put and get a list or a Views, else None. `offsets`: for ranged gets, else None.
  // Throws TypeError for what is no list, and for a page that is not str and BlockView.
  Batch(Operation operation, const pybind11::object& keys, const pybind11::object& views,
        const pybind11::object& offsets, const CallOptions& options);
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // Lists of different length: every page is invalid_argument and nothing is to be carried out.
  [[nodiscard]] bool refused() const noexcept { return refused_; }
  // Ends every page with that status.
  void refuse(Status status) noexcept;
  // Before the interpreter's lock is given up: from now on deregister_mr() waits for the pages.
  // Refuses the batch when a region was deregistered while it was made.
  void begin_transfer();
  Status carry_out(Client& client) noexcept;  // without the interpreter's lock
  // Throws nothing; the ticket, or the error. The batch must stay until it has completed.
  Expected<std::uint64_t> start(const std::shared_ptr<Client>& client, const CallReport& report);

  // The list that the call returns: Code, Length or bool for each page.
  [[nodiscard]] pybind11::list results();
  // The same of one page, which libsimm has told of before the others.
  [[nodiscard]] pybind11::object result(std::size_t index, PageResult told) const;
  // The first page that failed (a miss is no failure) and how many did; ok when none did.
  [[nodiscard]] std::pair<Status, std::size_t> failures() const noexcept;
  [[nodiscard]] Operation operation() const noexcept { return operation_; }
  // Why the first page was refused before libsimm saw it; else empty.
  [[nodiscard]] const std::string& reason() const noexcept { return reason_; }

private:
  Status call(Client& client) noexcept;
  Expected<std::uint64_t> call_async(Client& client, const CallReport& report);
  void add_key(PyObject* key, std::size_t index);
  void add_views(const Views& views, const std::vector<std::uint64_t>& starts);
  void add_view(PyObject* view, std::size_t index, std::uint64_t offset);
  // What is wrong with the memory of a view, or nullptr.
  const char* trouble_of(const BlockView& page);
  const char* trouble_of(const MrExt& mr);
  void preset(std::size_t index, Status status, std::string reason);
  void apply_presets() noexcept;

  Operation operation_;
  CallOptions options_;
  pybind11::tuple keys_;
  pybind11::tuple views_;
  pybind11::object list_;  // the Views, which keep the memory alive; or nothing
  std::vector<std::string_view> names_;
  std::vector<Item> items_;
  std::vector<PageResult> results_;
  std::vector<std::pair<std::size_t, Status>> presets_;  // pages that libsimm must not be asked for
  std::string reason_;
  const MrExt* looked_at_ = nullptr;  // the pages of one call mostly are in one region
  const char* found_ = nullptr;
  std::vector<const MrExt*> regions_;  // those that were open; the views keep them alive
  Transfer transfer_;
  bool refused_ = false;
};

// The name of an operation in messages: "put", "get", ...
const char* operation_name(Operation operation) noexcept;

}  // namespace simm::python
