#include "tests/support/impostor.h"

#include <doctest/doctest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <utility>

namespace simm::test_support {
namespace {

// So often somebody who waits looks whether all is over.
constexpr int kLookMs = 20;

bool is_ready(int socket, short what) {
  pollfd one{socket, what, 0};
  return ::poll(&one, 1, kLookMs) == 1;
}

}  // namespace

Impostor::Impostor(ImpostorWords words)
    : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), words_(std::move(words)) {
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof here;
  auto* const raw = reinterpret_cast<sockaddr*>(&here);
  REQUIRE(::bind(listener_.get(), raw, bytes) == 0);
  REQUIRE(::listen(listener_.get(), 128) == 0);
  REQUIRE(::getsockname(listener_.get(), raw, &bytes) == 0);
  address_ = "127.0.0.1:" + std::to_string(ntohs(here.sin_port));
  thread_ = std::thread([this] { take_calls(); });
}

Impostor::~Impostor() {
  is_over_ = true;
  thread_.join();
}

void Impostor::say(ImpostorWords words) {
  const std::lock_guard<std::mutex> lock(mutex_);
  words_ = std::move(words);
}

void Impostor::take_calls() {
  while (!is_over_) {
    if (!is_ready(listener_.get(), POLLIN)) continue;
    ipc::UniqueFd caller(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!caller.valid()) continue;
    ++callers_;
    const std::lock_guard<std::mutex> lock(mutex_);
    talks_.emplace_back(
        [this, words = words_, its = std::move(caller)]() mutable { talk(its, words); });
  }
  for (std::thread& talk : talks_) talk.join();
}

void Impostor::talk(const ipc::UniqueFd& caller, const ImpostorWords& words) const {
  std::array<char, 65536> heard;
  while (!is_over_ && !is_ready(caller.get(), POLLIN)) continue;
  bool is_gone = false;
  // False: the caller has gone, or all is over. What the caller says is read all the time.
  const auto say_all = [&](const std::string& text) {
    for (std::size_t said = 0; said < text.size() && !is_over_ && !is_gone;) {
      const ssize_t sent =
          ::send(caller.get(), text.data() + said, text.size() - said, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) said += static_cast<std::size_t>(sent);
      if (sent <= 0 && !is_ready(caller.get(), POLLOUT | POLLIN)) continue;
      is_gone = ::recv(caller.get(), heard.data(), heard.size(), MSG_DONTWAIT) == 0;
    }
    return !is_over_ && !is_gone;
  };
  bool goes_on = say_all(words.first);
  while (goes_on && !words.again.empty()) {
    std::this_thread::sleep_for(words.pause);
    goes_on = say_all(words.again);
  }
  while (goes_on && !words.hangs_up) {
    if (!is_ready(caller.get(), POLLIN)) {
      goes_on = !is_over_;
      continue;
    }
    goes_on = ::recv(caller.get(), heard.data(), heard.size(), MSG_DONTWAIT) > 0;
  }
}

}  // namespace simm::test_support
