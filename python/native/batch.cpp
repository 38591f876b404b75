#include "python/native/batch.h"

#include <algorithm>
#include <limits>
#include <span>

#include "python/native/arguments.h"
#include "python/native/extent.h"
#include "python/native/mr_ext.h"
#include "python/native/results.h"

namespace simm::python {

namespace py = pybind11;

namespace {

constexpr const char* kDeregistered =
    "its region was deregistered: register the memory again and make new views";
constexpr std::uint64_t kOffsetMax = std::numeric_limits<std::uint64_t>::max();
constexpr const char* kFreed =
    "its tensor has lost its memory: register the tensor again and make new views";

std::vector<std::uint64_t> numbers_of(const py::object& list) {
  std::vector<std::uint64_t> numbers;
  if (list.is_none()) return numbers;
  for (const py::handle& entry : entries_of(list, "offsets")) {
    const std::string name = "offsets[" + std::to_string(numbers.size()) + "]";
    numbers.push_back(whole_number(entry, name.c_str(), kOffsetMax, "bytes"));
  }
  return numbers;
}

}  // namespace

const char* operation_name(Operation operation) noexcept {
  switch (operation) {
    case Operation::put:
      return "put";
    case Operation::get:
      return "get";
    case Operation::exists:
      return "exists";
    case Operation::length:
      return "length";
    case Operation::remove:
      return "delete";
    case Operation::pin:
      return "pin";
    case Operation::unpin:
      return "unpin";
  }
  return "?";
}

Batch::Batch(Operation operation, const py::object& keys, const py::object& views,
             const py::object& offsets, const CallOptions& options)
    : operation_(operation), options_(options), keys_(entries_of(keys, "keys")) {
  const bool moves_bytes = operation == Operation::put || operation == Operation::get;
  const std::size_t count = keys_.size();
  results_.resize(count);
  const bool is_list = moves_bytes && py::isinstance<Views>(views);
  if (is_list) list_ = views;
  if (moves_bytes && !is_list) views_ = entries_of(views, "views");
  const std::size_t places = is_list ? views.cast<const Views&>().pages.size() : views_.size();
  const std::vector<std::uint64_t> starts = numbers_of(offsets);
  if (moves_bytes && (places != count || (!offsets.is_none() && starts.size() != count))) {
    refuse(Status::invalid_argument);
    reason_ = "keys: " + std::to_string(count) + ", views: " + std::to_string(places) +
              (offsets.is_none() ? "" : ", offsets: " + std::to_string(starts.size())) +
              ": give one for each key";
    return;
  }
  names_.reserve(count);
  items_.reserve(moves_bytes ? count : 0);
  for (std::size_t i = 0; i < count; ++i) {
    add_key(PyTuple_GET_ITEM(keys_.ptr(), static_cast<Py_ssize_t>(i)), i);
    if (moves_bytes && !is_list) {
      add_view(PyTuple_GET_ITEM(views_.ptr(), static_cast<Py_ssize_t>(i)), i,
               starts.empty() ? 0 : starts[i]);
    }
  }
  if (is_list) add_views(views.cast<const Views&>(), starts);
}

void Batch::add_views(const Views& views, const std::vector<std::uint64_t>& starts) {
  const char* const trouble = views.mr ? trouble_of(*views.mr) : nullptr;
  for (std::size_t i = 0; i < views.pages.size(); ++i) {
    if (trouble != nullptr) {
      items_.push_back({});
      preset(i, Status::invalid_state, trouble);
      continue;
    }
    // SAFETY: an address only: libsimm looks it up in its table of registered memory.
    const View where(reinterpret_cast<const void*>(views.pages[i].first), views.pages[i].second);
    items_.push_back({names_[i], where, starts.empty() ? 0 : starts[i], 0});
  }
}

void Batch::add_key(PyObject* key, std::size_t index) {
  if (!PyUnicode_Check(key)) {
    throw py::type_error("keys[" + std::to_string(index) + "]: " + type_of(key) +
                         ": a key is a str of 1 to 1,024 UTF-8 bytes" +
                         (PyBytes_Check(key) ? ": use .decode()" : ""));
  }
  // The text's own UTF-8 form: no copy for ASCII, made once for others. It lives with the str.
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(key, &size);
  if (text == nullptr) {
    PyErr_Clear();
    names_.emplace_back();
    return preset(index, Status::invalid_argument,
                  "a lone surrogate has no UTF-8 form: use another text");
  }
  names_.emplace_back(text, static_cast<std::size_t>(size));
}

void Batch::add_view(PyObject* view, std::size_t index, std::uint64_t offset) {
  if (!py::isinstance<BlockView>(view)) {
    throw py::type_error("views[" + std::to_string(index) + "]: " + type_of(view) +
                         ": give a BlockView: block.view(), BlockView.from_tensor() or "
                         ".from_buffer()");
  }
  const auto& page = *py::handle(view).cast<const BlockView*>();
  if (const char* trouble = trouble_of(page); trouble != nullptr) {
    items_.push_back({});
    return preset(index, Status::invalid_state, trouble);
  }
  // SAFETY: an address only: libsimm looks it up in its table of registered memory.
  const View where(reinterpret_cast<const void*>(page.address), page.length);
  items_.push_back({names_[index], where, offset, 0});
}

const char* Batch::trouble_of(const BlockView& page) {
  if (page.mr) return trouble_of(*page.mr);
  return is_still_at(page.owner, page.address) ? nullptr : kFreed;
}

const char* Batch::trouble_of(const MrExt& mr) {
  if (&mr != looked_at_) {
    looked_at_ = &mr;
    found_ = looked_at_->is_there() ? nullptr : kFreed;
    if (looked_at_->closed()) found_ = kDeregistered;
    if (found_ == nullptr) regions_.push_back(looked_at_);
  }
  return found_;
}

void Batch::begin_transfer() {
  if (items_.empty()) return;
  transfer_.begin(items_);
  // Looking at tensors runs Python: another thread may have deregistered a region since.
  const bool open = std::none_of(regions_.begin(), regions_.end(),
                                 [](const MrExt* region) { return region->closed(); });
  if (open) return;
  transfer_.end();
  refuse(Status::invalid_state);
  reason_ = kDeregistered;
}

void Batch::preset(std::size_t index, Status status, std::string reason) {
  // With an empty key libsimm refuses the page before it looks at its memory.
  names_[index] = {};
  presets_.emplace_back(index, status);
  if (reason_.empty()) reason_ = "page " + std::to_string(index) + ": " + std::move(reason);
}

void Batch::apply_presets() noexcept {
  for (const auto& [index, status] : presets_) results_[index] = {status, 0};
}

void Batch::refuse(Status status) noexcept {
  refused_ = true;
  for (PageResult& result : results_) result = {status, 0};
}

Status Batch::carry_out(Client& client) noexcept {
  const Status status = call(client);
  transfer_.end();
  return status;
}

Status Batch::call(Client& client) noexcept {
  switch (operation_) {
    case Operation::put:
      return client.put(items_, results_, options_);
    case Operation::get:
      return client.get(items_, results_, options_);
    case Operation::exists:
    case Operation::length:
      return client.exists(names_, results_, options_);
    case Operation::remove:
      return client.remove(names_, results_, options_);
    case Operation::pin:
      return client.pin(names_, results_, options_);
    case Operation::unpin:
      return client.unpin(names_, results_, options_);
  }
  return Status::invalid_argument;
}

Expected<std::uint64_t> Batch::start(const std::shared_ptr<Client>& client,
                                     const CallReport& report) {
  Expected<std::uint64_t> started = call_async(*client, report);
  if (started && !items_.empty()) transfer_.goes_on(client, *started);
  if (!started) transfer_.end();
  return started;
}

Expected<std::uint64_t> Batch::call_async(Client& client, const CallReport& report) {
  switch (operation_) {
    case Operation::put:
      return client.put_async(items_, results_, options_, {}, report);
    case Operation::get:
      return client.get_async(items_, results_, options_, {}, report);
    case Operation::exists:
    case Operation::length:
      return client.exists_async(names_, results_, options_, {}, report);
    case Operation::remove:
      return client.remove_async(names_, results_, options_, {}, report);
    case Operation::pin:
    case Operation::unpin:
      break;  // for operators and warm-up: nobody waits for them in an event loop
  }
  return Error{Status::invalid_argument, "no such operation"};
}

py::list Batch::results() {
  apply_presets();
  py::list list(results_.size());
  ResultMaker make(operation_);
  for (std::size_t i = 0; i < results_.size(); ++i) {
    PyList_SET_ITEM(list.ptr(), static_cast<Py_ssize_t>(i), make(results_[i]).release().ptr());
  }
  return list;
}

py::object Batch::result(std::size_t index, PageResult told) const {
  // In the order of the pages.
  const auto is_before = [](const auto& preset, std::size_t page) { return preset.first < page; };
  const auto preset = std::lower_bound(presets_.begin(), presets_.end(), index, is_before);
  if (preset != presets_.end() && preset->first == index) told = {preset->second, 0};
  return ResultMaker(operation_)(told);
}

std::pair<Status, std::size_t> Batch::failures() const noexcept {
  Status first = Status::ok;
  std::size_t count = 0;
  for (const PageResult& result : results_) {
    if (result.status == Status::ok || result.status == Status::not_found) continue;
    if (count++ == 0) first = result.status;
  }
  return {first, count};
}

}  // namespace simm::python
