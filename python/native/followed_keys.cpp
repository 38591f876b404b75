#include "python/native/followed_keys.h"

#include <array>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "python/native/arguments.h"
#include "python/native/gil_release.h"
#include "python/native/log_notes.h"

namespace simm::python {

namespace py = pybind11;

namespace {

py::bytes bytes_of(const KeyToken& token) {
  std::array<char, sizeof token.low + sizeof token.high> bytes;
  std::memcpy(bytes.data(), &token.low, sizeof token.low);
  std::memcpy(bytes.data() + sizeof token.low, &token.high, sizeof token.high);
  return {bytes.data(), bytes.size()};
}

}  // namespace

std::shared_ptr<FollowedKeys::Followed> FollowedKeys::idle() const {
  if (follower_ != nullptr && follower_->is_read) {
    throw std::runtime_error("another thread reads this follower of keys: give each its own");
  }
  return follower_;
}

py::list FollowedKeys::read(std::uint32_t timeout_ms, std::uint64_t most) {
  const std::shared_ptr<Followed> followed = idle();
  if (followed == nullptr)
    throw std::runtime_error("this follower of keys is closed: make another");
  if (most == 0) throw py::value_error("most = 0: from 1 to 1024 events");
  std::array<KeyEvent, kReadMax> events;
  std::size_t count = 0;
  std::string trouble;
  followed->is_read = true;
  {
    const GilRelease released;
    const Expected<std::size_t> done =
        followed->follower.read(std::span(events).first(most), timeout_ms);
    if (done) count = *done;
    if (!done) trouble = done.error().context;
  }
  followed->is_read = false;
  LogNotes::instance().tell();
  if (!trouble.empty()) throw std::runtime_error(trouble);
  py::list told;
  for (std::size_t i = 0; i < count; ++i) {
    told.append(py::make_tuple(static_cast<int>(events[i].change), bytes_of(events[i].token),
                               events[i].bytes));
  }
  return told;
}

py::object FollowedKeys::token(const std::string& key) const {
  const std::shared_ptr<Followed> followed = idle();
  KeyToken token;
  if (followed == nullptr || !followed->follower.token(key, token)) return py::none();
  return bytes_of(token);
}

void FollowedKeys::close() noexcept {
  follower_.reset();
}

void bind_followed_keys(py::module_& module) {
  py::class_<FollowedKeys, std::shared_ptr<FollowedKeys>>(module, "FollowedKeys")
      .def(
          "read",
          [](FollowedKeys& self, const py::object& timeout_ms, const py::object& most) {
            return self.read(milliseconds(timeout_ms, "timeout_ms"),
                             whole_number(most, "most", FollowedKeys::kReadMax, "events"));
          },
          py::arg("timeout_ms") = 0, py::arg("most") = FollowedKeys::kReadMax)
      .def("token", &FollowedKeys::token, py::arg("key"))
      .def("close", &FollowedKeys::close);
}

}  // namespace simm::python
