// MrExt: what register_mr() returns: registered memory, one piece or several. Keeps the memory
// alive. BlockView: where one page is, inside such memory; a hundred are made for a call.
// Block: memory of SiMM's own, from Store.allocate().
//
// All are Python objects. Thread: with the interpreter's lock.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "python/native/registration.h"
#include "python/native/transfers.h"

namespace simm::python {

class MrExt {
public:
  // `memory`: a tensor, an array, a buffer, or a (nested) list or tuple of those; None is nothing.
  MrExt(const pybind11::object& memory, bool wait_if_stopped);
  // `owner` is kept alive. `fd`: the memory file that is mapped there from `fd_offset` on, or -1.
  MrExt(std::uintptr_t address, std::uint64_t length, const pybind11::object& owner, int fd,
        std::uint64_t fd_offset, bool wait_if_stopped);
  MrExt(const MrExt&) = delete;
  MrExt& operator=(const MrExt&) = delete;
  ~MrExt() {
    deregister();
    drop_memory();
  }

  // Waits for the operations on its memory. Safe twice and from several threads.
  void deregister() noexcept;
  // Keeps the memory alive no longer, once it is deregistered. For whoever has the last pointer.
  void drop_memory() noexcept;
  // What the collector of cycles has to know: the references to memory that are this object's.
  int visit_memory(visitproc visit, void* arg) const;  // the names that Py_VISIT wants
  [[nodiscard]] bool closed() const noexcept { return closed_; }
  [[nodiscard]] bool covers(std::uintptr_t address, std::uint64_t length) const noexcept;
  // Have all its tensors the memory that they had when they were registered?
  [[nodiscard]] bool is_there() const noexcept;
  [[nodiscard]] std::uint64_t bytes() const noexcept;
  [[nodiscard]] pybind11::list pieces() const;  // (address, bytes, kind, reason) of each
  [[nodiscard]] std::string description() const;

private:
  struct Piece {
    std::uintptr_t address;
    std::uint64_t length;
    pybind11::object owner;
    std::shared_ptr<Registration> registration;
  };
  // Delegated to, so that a constructor that throws gives back what it has.
  explicit MrExt(bool wait_if_stopped) : wait_if_stopped_(wait_if_stopped) {}
  void add(const pybind11::object& memory);
  // What `options` says of this object and of pinning is filled in.
  void add(std::uintptr_t address, std::uint64_t length, const pybind11::object& owner,
           PieceOptions options);

  std::vector<Piece> pieces_;
  std::vector<MemoryRange> ranges_;  // of the pieces
  bool wait_if_stopped_;
  bool closed_ = false;
  bool released_ = false;  // nothing needs the memory any more
};

struct BlockView {
  std::uintptr_t address = 0;
  std::uint64_t length = 0;
  pybind11::object owner;                      // keeps the memory alive
  std::shared_ptr<MrExt> mr;                   // may be null
  bool on_device = false;                      // known of a tensor's
  std::shared_ptr<Registration> registration;  // of a Block's memory; may be null

  // Throw ValueError, TypeError with the remedy.
  static BlockView from_tensor(const pybind11::object& tensor, std::shared_ptr<MrExt> mr);
  static BlockView from_buffer(const pybind11::int_& address, const pybind11::int_& length,
                               std::shared_ptr<MrExt> mr);
};

// Views: where the pages of one call are, in one object: an engine that has addresses and sizes
// makes it in one native call, instead of a BlockView for each page.
struct Views {
  std::vector<std::pair<std::uintptr_t, std::uint64_t>> pages;  // address and length
  std::shared_ptr<MrExt> mr;                                    // may be null

  // Throws TypeError, ValueError with the remedy.
  static Views from_lists(const pybind11::object& addresses, const pybind11::object& lengths,
                          std::shared_ptr<MrExt> mr);
  // At most `count` pages from page `first` on.
  [[nodiscard]] Views part(std::size_t first, std::size_t count) const;
};

// Bytes of the longest page of a Views, or of a list or tuple of BlockViews; 0 of anything else.
std::uint64_t longest_page(const pybind11::object& views);

struct Block {
  std::shared_ptr<Registration> registration;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  [[nodiscard]] std::uintptr_t address() const noexcept { return registration->address() + offset; }
  [[nodiscard]] BlockView view() const;
};

// Adds them to the module.
void bind_memory(pybind11::module_& module);

}  // namespace simm::python
