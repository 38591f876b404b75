#include "python/native/mr_ext.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>
#include <utility>

#include "python/native/arguments.h"
#include "python/native/extent.h"
#include "python/native/gil_release.h"

namespace simm::python {

namespace py = pybind11;

namespace {

std::string range_text(std::uintptr_t address, std::uint64_t length) {
  std::ostringstream text;
  text << "[0x" << std::hex << address << ", +" << std::dec << length << ")";
  return text.str();
}

// Memory that a GPU's driver has pinned: torch knows.
bool is_pinned(const py::object& owner) {
  if (!owner || owner.is_none() || !py::hasattr(owner, "is_pinned")) return false;
  try {
    return owner.attr("is_pinned")().cast<bool>();
  } catch (const std::exception&) {
    return false;  // a torch without GPU support
  }
}

void check_inside(std::uintptr_t address, std::uint64_t length, const std::shared_ptr<MrExt>& mr) {
  if (length == 0) throw py::value_error("size = 0: a value has at least 1 byte");
  if (mr && !mr->covers(address, length)) {
    throw py::value_error("view " + range_text(address, length) + ": outside its region, " +
                          mr->description() + ": register the memory that it is in");
  }
}

}  // namespace

MrExt::MrExt(const py::object& memory, bool wait_if_stopped) : MrExt(wait_if_stopped) {
  add(memory);
}

MrExt::MrExt(std::uintptr_t address, std::uint64_t length, const py::object& owner, int fd,
             std::uint64_t fd_offset, bool wait_if_stopped)
    : MrExt(wait_if_stopped) {
  PieceOptions options;
  options.fd = fd;
  options.fd_offset = fd_offset;
  add(address, length, owner, options);
}

void MrExt::add(const py::object& memory) {
  if (memory.is_none()) return;
  if (py::isinstance<py::list>(memory) || py::isinstance<py::tuple>(memory)) {
    for (const py::handle& entry : memory) add(py::reinterpret_borrow<py::object>(entry));
    return;
  }
  const Extent extent = extent_of(memory);
  if (extent.length == 0) return;
  if (!extent.on_device && !is_writable(extent)) {
    throw py::type_error("memory of a tensor: it is mapped read-only: use tensor.clone()");
  }
  PieceOptions options;
  options.on_device = extent.on_device;
  add(extent.address, extent.length, extent.owner, options);
}

void MrExt::add(std::uintptr_t address, std::uint64_t length, const py::object& owner,
                PieceOptions options) {
  options.pinned = !options.on_device && is_pinned(owner);
  options.wait_if_stopped = wait_if_stopped_;
  pieces_.push_back({address, length, owner,
                     RegistrationBook::instance().cover(address, length, owner, options)});
  pieces_.back().registration->add_holder();
  ranges_.push_back({address, length});
}

void MrExt::deregister() noexcept {
  const bool first = !std::exchange(closed_, true);
  {
    // Whoever comes second waits as well: its caller may use the memory again, too. A piece that
    // others have registered stays, so that its region waits for nothing.
    const GilRelease released;
    Transfers::instance().wait(ranges_);
  }
  if (!first) return;
  for (Piece& piece : pieces_) piece.registration->release();
  released_ = true;
}

void MrExt::drop_memory() noexcept {
  if (!released_) return;  // another thread is about to
  for (Piece& piece : pieces_) {
    // Out of the piece first: their ends may run Python.
    const py::object owner = std::move(piece.owner);
    const std::shared_ptr<Registration> registration = std::move(piece.registration);
    if (registration) registration->remove_holder();
  }
}

int MrExt::visit_memory(visitproc visit, void* arg) const {
  for (const Piece& piece : pieces_) {
    Py_VISIT(piece.owner.ptr());
    if (piece.registration) Py_VISIT(piece.registration->sole_owner());
  }
  return 0;
}

bool MrExt::covers(std::uintptr_t address, std::uint64_t length) const noexcept {
  return std::any_of(pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
    return address >= piece.address && length <= piece.length &&
           address - piece.address <= piece.length - length;
  });
}

bool MrExt::is_there() const noexcept {
  return std::all_of(pieces_.begin(), pieces_.end(), [](const Piece& piece) {
    const py::object owner = piece.owner;  // it is asked in Python: the piece may lose it meanwhile
    return is_still_at(owner, piece.address);
  });
}

std::uint64_t MrExt::bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const Piece& piece : pieces_) sum += piece.length;
  return sum;
}

py::list MrExt::pieces() const {
  py::list list;
  for (const Piece& piece : pieces_) {
    std::pair<std::string, std::string> kind("unregistered", "no Store is open");
    const std::shared_ptr<Registration> registration = piece.registration;
    if (closed_ || !registration) {
      list.append(py::make_tuple(piece.address, piece.length, "deregistered",
                                 "deregister_mr() was called"));
      continue;
    }
    const auto kinds = registration->kinds();
    // Of several sessions, what a daemon has: the others may be away.
    const auto mapped = std::find_if(kinds.begin(), kinds.end(),
                                     [](const auto& one) { return one.first != "staged"; });
    if (!kinds.empty()) kind = mapped == kinds.end() ? kinds.front() : *mapped;
    list.append(py::make_tuple(piece.address, piece.length, kind.first, kind.second));
  }
  return list;
}

std::string MrExt::description() const {
  if (pieces_.empty()) return "which is empty";
  std::string text = range_text(pieces_.front().address, pieces_.front().length);
  if (pieces_.size() > 1) text += " and " + std::to_string(pieces_.size() - 1) + " more";
  return text;
}

BlockView BlockView::from_tensor(const py::object& tensor, std::shared_ptr<MrExt> mr) {
  Extent extent = extent_of(tensor);
  if (extent.lazy != nullptr) throw py::value_error(std::string("tensor: ") + extent.lazy);
  if (!extent.contiguous) {
    throw py::value_error(
        "tensor: not contiguous in C's order: use tensor.contiguous(), numpy.ascontiguousarray(), "
        "or one view a piece");
  }
  check_inside(extent.address, extent.length, mr);
  return {extent.address, extent.length,    std::move(extent.owner),
          std::move(mr),  extent.on_device, nullptr};
}

BlockView BlockView::from_buffer(const py::int_& address, const py::int_& length,
                                 std::shared_ptr<MrExt> mr) {
  const std::uint64_t start = PyLong_AsUnsignedLongLong(address.ptr());
  const bool bad_start = PyErr_Occurred() != nullptr;
  PyErr_Clear();
  const std::uint64_t size = PyLong_AsUnsignedLongLong(length.ptr());
  const bool bad_size = PyErr_Occurred() != nullptr;
  PyErr_Clear();
  if (bad_start || bad_size) {
    throw py::value_error("ptr = " + std::string(py::repr(address)) + ", size = " +
                          std::string(py::repr(length)) + ": both are 0 to 2^64 - 1, in bytes");
  }
  check_inside(start, size, mr);
  return {start, size, py::none(), std::move(mr), false, nullptr};
}

namespace {

std::uint64_t number_at(const py::tuple& entries, std::size_t i, const char* name) {
  const py::handle entry = PyTuple_GET_ITEM(entries.ptr(), static_cast<Py_ssize_t>(i));
  if (PyLong_CheckExact(entry.ptr())) {
    const std::uint64_t value = PyLong_AsUnsignedLongLong(entry.ptr());
    if (PyErr_Occurred() == nullptr) return value;
    PyErr_Clear();
  }
  const std::string named = std::string(name) + "[" + std::to_string(i) + "]";
  return whole_number(entry, named.c_str(), std::numeric_limits<std::uint64_t>::max(), "bytes");
}

}  // namespace

Views Views::from_lists(const py::object& addresses, const py::object& lengths,
                        std::shared_ptr<MrExt> mr) {
  // Tuples: what an entry does when it is asked for its number may change a list.
  const py::tuple starts = entries_of(addresses, "ptrs");
  const py::tuple sizes = entries_of(lengths, "sizes");
  if (starts.size() != sizes.size()) {
    throw py::value_error("ptrs: " + std::to_string(starts.size()) +
                          ", sizes: " + std::to_string(sizes.size()) + ": give one for each page");
  }
  Views views;
  views.pages.reserve(starts.size());
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::uint64_t start = number_at(starts, i, "ptrs");
    const std::uint64_t size = number_at(sizes, i, "sizes");
    check_inside(start, size, mr);
    views.pages.emplace_back(start, size);
  }
  views.mr = std::move(mr);
  return views;
}

Views Views::part(std::size_t first, std::size_t count) const {
  const auto begin = pages.begin() + static_cast<std::ptrdiff_t>(std::min(first, pages.size()));
  const auto end =
      begin + std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(count), pages.end() - begin);
  return {{begin, end}, mr};
}

std::uint64_t longest_page(const py::object& views) {
  std::uint64_t longest = 0;
  if (py::isinstance<Views>(views)) {
    for (const auto& page : views.cast<const Views&>().pages) {
      longest = std::max(longest, page.second);
    }
    return longest;
  }
  if (!PyList_Check(views.ptr()) && !PyTuple_Check(views.ptr())) return 0;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(views.ptr()); ++i) {
    const py::handle view = PySequence_Fast_GET_ITEM(views.ptr(), i);
    if (!py::isinstance<BlockView>(view)) return 0;
    longest = std::max(longest, view.cast<const BlockView*>()->length);
  }
  return longest;
}

BlockView Block::view() const {
  return {address(), length, py::none(), nullptr, false, registration};
}

namespace {

// What has an address and a length is a writable buffer of bytes.
template <typename T>
py::buffer_info buffer_of(std::uintptr_t address, std::uint64_t length) {
  const auto count = static_cast<py::ssize_t>(length);
  return {reinterpret_cast<void*>(address),
          1,
          py::format_descriptor<T>::format(),
          1,
          {count},
          {py::ssize_t{1}}};
}

// As a 1-D uint8 tensor (array without torch): simm/tensors.py knows how.
template <typename T>
py::object as_ref(const py::object& self) {
  return py::module_::import("simm.tensors").attr("bytes_of")(self);
}

void bind_views(py::module_& module) {
  py::class_<BlockView>(module, "BlockView", py::buffer_protocol(),
                        "Where one page is: `size` bytes at `ptr`. Keeps its memory alive.")
      .def_buffer([](BlockView& self) {
        // pybind11 before 2.14 ends the process when this throws.
        return buffer_of<std::uint8_t>(self.address, self.on_device ? 0 : self.length);
      })
      .def_static("from_tensor", &BlockView::from_tensor, py::arg("tensor"),
                  py::arg("mr").none(true) = std::shared_ptr<MrExt>(),
                  "The bytes of a contiguous tensor or array inside `mr` (None: inside any "
                  "registered memory).\nValueError: outside the region, not contiguous, empty.")
      .def_static("from_buffer", &BlockView::from_buffer, py::arg("ptr"), py::arg("size"),
                  py::arg("mr").none(true) = std::shared_ptr<MrExt>(),
                  "`size` bytes at the address `ptr`, inside `mr`.\n"
                  "ValueError: outside the region, empty.")
      .def(
          "as_ref",
          [](const py::object& self) {
            if (self.cast<const BlockView&>().on_device) {
              throw py::value_error(
                  "as_ref: memory of a GPU: use the tensor that the view was made of");
            }
            return as_ref<BlockView>(self);
          },
          "The bytes as a 1-D uint8 torch tensor (numpy array without torch): no copy, writable.\n"
          "ValueError: of a tensor on a GPU, whose buffer is empty here.")
      .def(
          "view", [](py::object self) { return self; }, "Itself.")
      .def_property_readonly("ptr", [](const BlockView& self) { return self.address; })
      .def_property_readonly("size", [](const BlockView& self) { return self.length; })
      .def("__len__", [](const BlockView& self) { return self.length; })
      .def("__repr__", [](const BlockView& self) {
        return "<simm.kv.BlockView " + range_text(self.address, self.length) + ">";
      });
}

void bind_lists(py::module_& module) {
  py::class_<Views>(module, "Views",
                    "Where the pages of one call are, instead of a list of BlockView: `sizes[i]` "
                    "bytes at\n`ptrs[i]`, all inside `mr`. ValueError: outside, empty, lists of "
                    "different length.")
      .def(py::init(&Views::from_lists), py::arg("ptrs"), py::arg("sizes"),
           py::arg("mr").none(true) = std::shared_ptr<MrExt>())
      .def_property_readonly("sizes",
                             [](const Views& self) {
                               py::list sizes;
                               for (const auto& page : self.pages) sizes.append(page.second);
                               return sizes;
                             })
      .def("part", &Views::part, py::arg("first"), py::arg("count"),
           "The same without all others: at most `count` pages from page `first` on.")
      .def("__len__", [](const Views& self) { return self.pages.size(); });
  module.def("longest_page", &longest_page, py::arg("views"),
             "Bytes of the longest page of a list; 0 where it is no list of BlockView.");
}

// Whether a slab is still there, without keeping it.
struct SlabWatch {
  std::weak_ptr<Registration> slab;
  std::uint64_t length = 0;
};

void bind_blocks(py::module_& module) {
  py::class_<Block>(module, "Block", py::buffer_protocol(),
                    "Memory that the daemon shares, from Store.allocate(): no copy on the way.")
      .def_buffer([](Block& self) { return buffer_of<std::uint8_t>(self.address(), self.length); })
      .def("as_ref", &as_ref<Block>,
           "The bytes as a 1-D uint8 torch tensor (numpy array without torch): no copy, writable,\n"
           "keeps the memory alive.")
      .def("view", &Block::view, "The whole block, for put and get. Keeps the memory alive.")
      .def_property_readonly("ptr", &Block::address)
      .def_property_readonly("size", [](const Block& self) { return self.length; })
      .def("__len__", [](const Block& self) { return self.length; })
      .def("__repr__", [](const Block& self) {
        return "<simm.kv.Block " + range_text(self.address(), self.length) + ">";
      });
  py::class_<SlabWatch>(module, "SlabWatch")
      .def_property_readonly(
          "size", [](const SlabWatch& self) { return self.slab.expired() ? 0 : self.length; },
          "Bytes of the slab; 0 when it has gone with its last block.");
  // A piece of allocated memory that blocks are cut from (simm/slab.py).
  py::class_<Registration, std::shared_ptr<Registration>>(module, "Slab")
      .def("watch",
           [](const std::shared_ptr<Registration>& self) {
             return SlabWatch{self, self->length()};
           })
      .def_property_readonly("size", &Registration::length)
      .def(
          "block",
          [](std::shared_ptr<Registration> self, std::uint64_t offset, std::uint64_t length) {
            if (length == 0 || !self->covers(self->address() + offset, length)) {
              throw py::value_error("block: outside the slab");
            }
            return Block{std::move(self), offset, length};
          },
          py::arg("offset"), py::arg("length"));
}

using Holder = std::shared_ptr<MrExt>;

// The object's own pointer, when no view shares it: a view is not seen by the collector, and needs
// the memory. Else nullptr. All pointers come and go with the interpreter's lock held.
Holder* sole_holder(PyObject* self) {
  auto* const instance = reinterpret_cast<py::detail::instance*>(self);
  // The collector may run before pybind11 has laid the object out.
  if (!instance->simple_layout && instance->nonsimple.values_and_holders == nullptr) return nullptr;
  auto place = instance->get_value_and_holder();
  if (!place.holder_constructed()) return nullptr;
  Holder& holder = place.holder<Holder>();
  return holder.use_count() == 1 ? &holder : nullptr;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
#if PY_VERSION_HEX >= 0x03090000
  Py_VISIT(Py_TYPE(self));
#endif
  const Holder* const holder = sole_holder(self);
  return holder == nullptr ? 0 : (*holder)->visit_memory(visit, arg);
}

// Before anything of the cycle is taken apart: a tensor would give its memory away first.
void finalize(PyObject* self) {
  if (Holder* const holder = sole_holder(self)) (*holder)->deregister();
}

int clear(PyObject* self) {
  if (Holder* const holder = sole_holder(self)) (*holder)->drop_memory();
  return 0;
}

// The end of an MrExt gives the interpreter's lock up: the collector must not find it meanwhile.
void dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  reinterpret_cast<PyTypeObject*>(py::detail::get_internals().instance_base)->tp_dealloc(self);
}

// Memory may refer to its own region: `tensor.mr = register_mr(tensor)`.
void show_to_collector(PyHeapTypeObject* heap_type) {
  PyTypeObject& type = heap_type->ht_type;
  type.tp_flags |= Py_TPFLAGS_HAVE_GC;
  type.tp_traverse = &traverse;
  type.tp_finalize = &finalize;
  type.tp_clear = &clear;
  type.tp_dealloc = &dealloc;
}

void deregister(const Holder& self) {
  self->deregister();
  constexpr int kOurs = 2;  // the object's pointer, and the call's
  if (self.use_count() <= kOurs) self->drop_memory();
}

}  // namespace

void bind_memory(py::module_& module) {
  py::class_<MrExt, Holder>(module, "MrExt",
                            "Registered memory, from register_mr(). Keeps the memory alive.",
                            py::custom_type_setup(&show_to_collector))
      .def(py::init<const py::object&, bool>(), py::arg("memory"), py::kw_only(),
           py::arg("wait_if_stopped") = false)
      .def(py::init<std::uintptr_t, std::uint64_t, const py::object&, int, std::uint64_t, bool>(),
           py::arg("ptr"), py::arg("size"), py::arg("owner") = py::none(), py::arg("fd") = -1,
           py::arg("fd_offset") = 0, py::kw_only(), py::arg("wait_if_stopped") = false)
      .def("deregister", &deregister)
      .def_property_readonly("closed", &MrExt::closed)
      .def_property_readonly("size", &MrExt::bytes, "Bytes, of all its pieces.")
      .def_property_readonly("pieces", &MrExt::pieces,
                             "[(ptr, size, kind, reason)]: how each piece is reached, and why.")
      .def("__repr__", [](const MrExt& self) {
        return "<simm.kv.MrExt " + self.description() + (self.closed() ? ", deregistered>" : ">");
      });
  bind_views(module);
  bind_lists(module);
  bind_blocks(module);
}

}  // namespace simm::python
