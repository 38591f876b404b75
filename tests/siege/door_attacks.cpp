#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/siege/attacks.h"
#include "tests/siege/two_tenant_daemon.h"
#include "tests/support/raw_client.h"
#include "tests/support/temporary_directory.h"

namespace simm::siege {
namespace {

using test_support::RawClient;

bool may_be_anybody() {
  if (::geteuid() == 0) return true;
  MESSAGE("skipped: to connect as another user needs root");
  return false;
}

// The kernel keeps a user for each thread: this one's clients are that user's.
std::thread as_user(unsigned uid, std::function<void()> what) {
  return std::thread([uid, what = std::move(what)] {
    if (::syscall(SYS_setresuid, uid, uid, uid) == 0) what();
  });
}

void live_briefly(const std::string& socket) {
  RawClient client(socket);
  if (!client.attach(1)) return;
  ipc::ClientLane lane(client.lane_memory(0));
  (void)lane.push(ipc::Submission{});
  client.ring();
}

}  // namespace

void attack_by_many_tenants(const Place& place, const Until& until) {
  if (!may_be_anybody()) return;
  // The 65th is of the default tenant.
  std::vector<std::thread> users;
  for (unsigned i = 0; i <= kCrowdTenants; ++i) {
    users.push_back(as_user(kCrowdUid + i, [&] {
      do {
        live_briefly(place.crowd);
      } while (!until.is_over());
    }));
  }
  for (std::thread& user : users) user.join();
}

void attack_by_a_locked_directory(const Place& place, const Until& until) {
  const ipc::UniqueFd held(::open(place.daemon.directory().c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::flock(held.get(), LOCK_EX | LOCK_NB) == 0);
  CHECK(lets_in(place.blue));
  test_support::DaemonProcess next;
  const ipc::UniqueFd other(::open(next.directory().c_str(), O_RDONLY | O_CLOEXEC));
  REQUIRE(::flock(other.get(), LOCK_EX | LOCK_NB) == 0);
  const bool has_started = next.start();
  CHECK_MESSAGE(has_started, next.log());
  while (!until.is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Who owns a directory replaces the sockets in it, and so does everybody who may write to it.
void attack_by_a_strangers_directory(const Place& place, const Until& until) {
  if (!may_be_anybody()) return;
  const auto home = test_support::TemporaryDirectory::for_all_users();
  REQUIRE(::chmod(home.path().c_str(), 01777) == 0);
  const std::string owned = home / "owned";
  const std::string link = home / "link";
  const std::string open = home / "open";
  as_user(kCrowdUid, [&] {
    CHECK(::mkdir(owned.c_str(), 0777) == 0);
    CHECK(::symlink(place.daemon.directory().c_str(), link.c_str()) == 0);
  }).join();
  REQUIRE(::mkdir(open.c_str(), 0777) == 0);
  REQUIRE(::chmod(open.c_str(), 0777) == 0);
  do {
    for (const std::string& taken : {owned, link, open}) {
      test_support::DaemonProcess next("\"run_directory\": \"" + taken + "\"");
      CHECK_FALSE(next.start());
      CHECK(next.log().find("run_directory") != std::string::npos);
    }
  } while (!until.is_over());
}

void attack_by_all_sessions_of_a_user(const Place& place, const Until& until) {
  if (!may_be_anybody()) return;
  std::vector<RawClient> sessions;
  sessions.reserve(300);
  as_user(kCrowdUid, [&] {
    for (int i = 0; i < 256; ++i) {
      if (!sessions.emplace_back(place.crowd).attach(1)) break;
    }
  }).join();
  do {
    bool is_in = false;
    as_user(kCrowdUid + 1, [&] {
      RawClient client(place.crowd);
      is_in = client.attach(1);
    }).join();
    CHECK(is_in);
  } while (!until.is_over());
}

void attack_by_attach_flood(const Place& place, const Until& until) {
  std::vector<std::thread> attackers;
  for (int i = 0; i < 8; ++i) {
    attackers.emplace_back([&] {
      while (!until.is_over()) {
        RawClient client(place.red);
        (void)client.attach(ipc::kLanesMax);
      }
    });
  }
  do {
    CHECK(lets_in(place.blue));
  } while (!until.is_over());
  for (std::thread& attacker : attackers) attacker.join();
}

void attack_by_garbage(const Place& place, const Until& until) {
  for (std::size_t bytes = 1; bytes <= 800 && !until.is_over(); ++bytes) {
    RawClient client(place.red);
    (void)RawClient::pass(client.socket().fd(), {}, bytes);
  }
}

}  // namespace simm::siege
