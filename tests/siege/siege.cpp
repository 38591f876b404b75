#include "tests/siege/siege.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace simm::siege {
namespace {

// So much slower than undisturbed rounds the victim's may be, and how many of those are compared.
constexpr std::uint64_t kTimesMax = 4;
constexpr std::uint64_t kQuietRounds = 60;

// SIMM_SIEGE_SECONDS are shared out, as there are many attacks.
constexpr int kParts = 10;

std::chrono::milliseconds time_of_one() {
  const char* const seconds = std::getenv("SIMM_SIEGE_SECONDS");
  return std::chrono::milliseconds(seconds != nullptr ? std::atoi(seconds) * 1000 / kParts : 500);
}

std::string ratio(std::uint64_t now, std::uint64_t before) {
  const std::uint64_t tenths = before == 0 ? 0 : 10 * now / before;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + "x";
}

std::vector<pid_t> pids(const LoopWatch::Daemons& daemons) {
  std::vector<pid_t> found;
  for (const test_support::DaemonProcess* daemon : daemons) found.push_back(daemon->pid());
  return found;
}

}  // namespace

std::string besieged_keys() {
  std::string tenants = R"({"name": "red"}, {"name": "blue"})";
  for (unsigned i = 0; i < kCrowdTenants; ++i) {
    tenants += ", {\"name\": \"crowd-" + std::to_string(i) + "\", \"uids\": [" +
               std::to_string(kCrowdUid + i) + "]}";
  }
  return R"("sockets": [{"path": "$DIR/red.sock", "tenant": "red", "mode": "0666"},
                        {"path": "$DIR/blue.sock", "tenant": "blue", "mode": "0666"},
                        {"path": "$DIR/crowd.sock", "mode": "0666"}],
            "tenants": [)" +
         tenants + "]";
}

Place::Place(test_support::DaemonProcess& of, LoopWatch::Daemons behind)
    : daemon(of),
      agents(std::move(behind)),
      red(of.directory() + "/red.sock"),
      blue(of.directory() + "/blue.sock"),
      crowd(of.directory() + "/crowd.sock") {
  agents.push_back(&of);
  REQUIRE(::chmod(of.directory().c_str(), 0755) == 0);
}

Until::Until() : end_(std::chrono::steady_clock::now() + time_of_one()) {}

Siege::Siege(const std::string& where, const Place& place)
    : where_(where), place_(place), victim_(place.blue, pids(place.agents)), loops_(place.agents) {
  REQUIRE(victim_.does_rounds(20));
  (void)victim_.take_course();
  const Until until;
  while (!until.is_over()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  REQUIRE(victim_.does_rounds(20));
  undisturbed_ = victim_.take_course();
  if (!victim_.has_precedence()) {
    MESSAGE(where_ << ": this machine gives nobody precedence, so the times tell of its load, too");
  }
  MESSAGE(where_ << ", undisturbed: " << undisturbed_.rounds << " rounds, p50 "
                 << undisturbed_.p50_us << " us, p99 " << undisturbed_.p99_us << " us");
  check_loops("undisturbed");
}

// Also what comes behind an attack, as when the daemon sweeps up.
void Siege::check_loops(const std::string& name) {
  const Absences away = loops_.take_longest();
  const auto text = [](const Absence& of) {
    return std::to_string(of.us) + " us (" + std::to_string(of.on_cpu_us) + " on its CPU)";
  };
  MESSAGE(where_ << ", " << name << ": away from its loop was a data thread for at most "
                 << text(away.data) << ", the control thread for " << text(away.control) << ", of "
                 << away.asked << " answers");
  CHECK_MESSAGE(away.data.on_cpu_us <= LoopWatch::kCpuUsMax, away.data.thread);
  CHECK(away.control.on_cpu_us <= LoopWatch::kCpuUsMax);
}

void Siege::endure(const std::string& name, const Attack& attack) {
  INFO(where_ << ": " << name);
  const std::uint64_t wrong = victim_.wrong();
  const std::uint64_t failed = victim_.failed();
  (void)victim_.take_course();
  attack(place_, Until());
  CHECK(victim_.does_rounds(3));
  const Course course = victim_.take_course();
  MESSAGE(where_ << ", " << name << ": " << victim_.wrong() - wrong << " wrong, "
                 << victim_.failed() - failed << " failed, " << course.rounds << " rounds, p50 "
                 << course.p50_us << " us (" << ratio(course.p50_us, undisturbed_.p50_us)
                 << "), p99 " << course.p99_us << " us ("
                 << ratio(course.p99_us, undisturbed_.p99_us) << "), worst " << course.worst_us
                 << " us");
  CHECK(victim_.wrong() == wrong);
  CHECK_MESSAGE(victim_.failed() == failed, victim_.take_failures());
  REQUIRE(place_.daemon.alive());
  CHECK(place_.daemon.sessions_settled_to(1) == 1);
  check_loops(name);
  check_pace(course);
}

// The machine may have become slower meanwhile, so undisturbed rounds are done once more. Single
// rounds are not compared: without precedence over the whole machine any of them may be slow.
void Siege::check_pace(const Course& attacked) {
  (void)victim_.take_course();
  CHECK(victim_.does_rounds(kQuietRounds));
  const std::uint64_t quiet_us = std::max(undisturbed_.p99_us, victim_.take_course().p99_us);
  if (victim_.has_precedence()) CHECK(attacked.p50_us <= kTimesMax * quiet_us);
}

}  // namespace simm::siege
