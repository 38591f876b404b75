// FollowedKeys: a KeyFollower of a Store, for Python. Thread: with the interpreter's lock, which
// read() gives up while it waits. Others may close it meanwhile; their read() and token() raise.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "simm/client.h"

namespace simm::python {

class FollowedKeys {
public:
  // The Client outlives the follower in it.
  FollowedKeys(std::shared_ptr<Client> client, KeyFollower follower)
      : follower_(std::make_shared<Followed>(Followed{std::move(client), std::move(follower)})) {}

  // [(change, token, bytes)]: the change as a number of KeyChange, the token as 16 bytes. Throws
  // RuntimeError with what is wrong and the remedy. `most`: 1 to kReadMax.
  static constexpr std::uint64_t kReadMax = 1024;
  pybind11::list read(std::uint32_t timeout_ms, std::uint64_t most);
  // None: nothing was read yet. Throws RuntimeError while another thread reads.
  [[nodiscard]] pybind11::object token(const std::string& key) const;
  // Safe twice; a later read() raises.
  void close() noexcept;

private:
  struct Followed {
    std::shared_ptr<Client> client;
    KeyFollower follower;
    bool is_read = false;  // by a thread, without the lock
  };
  // What nobody else uses now; null: closed. Throws RuntimeError.
  [[nodiscard]] std::shared_ptr<Followed> idle() const;

  std::shared_ptr<Followed> follower_;  // null: closed. A read keeps its own
};

void bind_followed_keys(pybind11::module_& module);

}  // namespace simm::python
