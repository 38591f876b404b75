// Registration: one contiguous piece of the process's memory that has been named to SiMM, and the
// regions that stand for it: one for each session of the process (socket and manager), made when
// the session is opened or the memory is named, whichever comes last.
//
// RegistrationBook: all of them, and the sessions. Memory inside a registered piece is not
// registered again: both users share it, and the last one's end deregisters it.
//
// Thread: with the interpreter's lock, which is given up while daemons are asked.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "simm/client.h"

namespace simm::python {

// How the memory of a piece is named to daemons.
struct PieceOptions {
  int fd = -1;                   // memory file that it is a mapping of; duplicated
  std::uint64_t fd_offset = 0;   // where in the file the piece begins; a whole page
  bool pinned = false;           // a device uses its physical pages: they must not be exchanged
  bool wait_if_stopped = false;  // nor may they be, by the caller's wish
  bool on_device = false;        // of a GPU, or nothing: the host must not touch it
};

class Registration {
public:
  Registration(std::uintptr_t address, std::uint64_t length, pybind11::object owner,
               const PieceOptions& options = {});
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  ~Registration();

  // A user of the piece goes; the last one's going ends it: waits for the operations on its
  // regions, and deregisters them.
  void release() noexcept;

  [[nodiscard]] std::uintptr_t address() const noexcept { return address_; }
  [[nodiscard]] std::uint64_t length() const noexcept { return length_; }
  [[nodiscard]] bool covers(std::uintptr_t address, std::uint64_t length) const noexcept {
    return address >= address_ && length <= length_ && address - address_ <= length_ - length;
  }
  // Kind and reason of each of its regions.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>> kinds() const;

  // An MrExt that has it comes and goes. The only one may show the owner to the collector of
  // cycles; with several of them nobody may, since the one reference would be counted twice.
  void add_holder() noexcept { ++holders_; }
  void remove_holder() noexcept { --holders_; }
  [[nodiscard]] PyObject* sole_owner() const noexcept {
    return holders_ == 1 ? owner_.ptr() : nullptr;
  }

private:
  friend class RegistrationBook;
  void end() noexcept;  // safe twice
  struct Placed {
    std::string session;
    Region region;
  };
  std::uintptr_t address_;
  std::uint64_t length_;
  pybind11::object owner_;
  PieceOptions options_;
  Region memory_;  // of libsimm's own memory, which lives as long as this handle
  std::uint32_t holders_ = 0;
  // Under the book's mutex:
  std::vector<Placed> regions_;
  std::uint32_t users_ = 0;
  bool ended_ = false;
};

class RegistrationBook {
public:
  static RegistrationBook& instance();

  // A registration that covers the range: one that exists, or a new one with all open sessions.
  // The caller is a user of it, until release(). Throws std::runtime_error with libsimm's reason.
  std::shared_ptr<Registration> cover(std::uintptr_t address, std::uint64_t length,
                                      const pybind11::object& owner,
                                      const PieceOptions& options = {});
  // New memory that the daemon shares, zeroed. Throws std::runtime_error.
  std::shared_ptr<Registration> allocate(const std::string& session,
                                         const std::shared_ptr<Client>& client, std::uint64_t bytes,
                                         const AllocateOptions& options);
  // A session is there: registers with it what is not. Returns the first reason why a piece could
  // not be, else an empty text.
  std::string open_session(const std::string& session, const std::shared_ptr<Client>& client);

private:
  friend class Registration;
  RegistrationBook();
  struct Session {
    std::string name;
    std::weak_ptr<Client> client;
  };
  // Promoted pointers live until the interpreter's lock is back: one may be a piece's last owner.
  using Pieces = std::vector<std::shared_ptr<Registration>>;
  // All without the interpreter's lock. A piece that covers the range, with one more user, or null.
  std::shared_ptr<Registration> find(std::uintptr_t address, std::uint64_t length, Pieces& alive);
  // The reason why not, or an empty text. Both with placing_ held.
  std::string place_everywhere(const std::shared_ptr<Registration>& piece);
  std::string place(Registration& piece, const Session& session);
  void forget_closed();  // with mutex_ held

  std::mutex placing_;  // held over requests to daemons; comes before mutex_
  std::mutex mutex_;    // waits for nobody
  std::vector<std::weak_ptr<Registration>> pieces_;
  std::vector<Session> sessions_;
};

}  // namespace simm::python
