// MrExt: what register_mr() returns: registered memory, one piece or several. Keeps the memory
// alive. BlockView: where one page is, inside such memory; a hundred are made for a call.
// Block: memory of SiMM's own, from Store.allocate().
//
// All three are Python objects. Thread: with the interpreter's lock.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "python/native/registration.h"

namespace simm::python {

class MrExt {
public:
  // `memory`: a tensor, an array, a buffer, or a (nested) list or tuple of those; None is nothing.
  explicit MrExt(const pybind11::object& memory);
  MrExt(std::uintptr_t address, std::uint64_t length);
  MrExt(const MrExt&) = delete;
  MrExt& operator=(const MrExt&) = delete;
  ~MrExt() { deregister(); }

  // Waits for the operations on its memory. Safe twice.
  void deregister() noexcept;
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
  MrExt() = default;  // delegated to, so that a constructor that throws gives back what it has
  void add(const pybind11::object& memory);
  void add(std::uintptr_t address, std::uint64_t length, const pybind11::object& owner);

  std::vector<Piece> pieces_;
  bool closed_ = false;
};

struct BlockView {
  std::uintptr_t address = 0;
  std::uint64_t length = 0;
  pybind11::object owner;                      // keeps the memory alive
  std::shared_ptr<MrExt> mr;                   // may be null
  std::shared_ptr<Registration> registration;  // of a Block's memory; may be null

  // Throw ValueError, TypeError with the remedy.
  static BlockView from_tensor(const pybind11::object& tensor, std::shared_ptr<MrExt> mr);
  static BlockView from_buffer(const pybind11::int_& address, const pybind11::int_& length,
                               std::shared_ptr<MrExt> mr);
};

struct Block {
  std::shared_ptr<Registration> registration;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;

  [[nodiscard]] std::uintptr_t address() const noexcept { return registration->address() + offset; }
  [[nodiscard]] BlockView view() const;
};

// Adds the three to the module.
void bind_memory(pybind11::module_& module);

}  // namespace simm::python
