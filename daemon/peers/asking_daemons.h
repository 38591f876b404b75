// AskingDaemons: the daemons that have data connections or queue pairs to this one, by their full
// names, and which life of each a new link is of: a process is a life. The later hello is the later
// life: who asks for anything has had this daemon's answer to its hello, so a link of a daemon that
// was killed was counted before its successor began.
//
// A name without links is forgotten, because nothing of its older lives can be left here. Two
// daemons that live and have one name end each other's links, again and again: the one whose hello
// came last works. That is an error, which names them.
// Owned by ClusterLinks. Thread: control.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/base/error_log.h"
#include "daemon/cluster/hello/hello.h"
#include "daemon/transport/link_owner.h"

namespace simm::control {

class AskingDaemons {
public:
  explicit AskingDaemons(base::ErrorLog& errors) : errors_(errors) {}
  AskingDaemons(const AskingDaemons&) = delete;
  AskingDaemons& operator=(const AskingDaemons&) = delete;

  // Kept with a link until it has ended at its data agent; may outlive this object.
  struct Link {
    transport::LinkOwner owner;
    std::shared_ptr<const void> daemon;
  };
  // For a link whose hello has just ended. Nothing: links of kAskingDaemonsMax daemons are here.
  [[nodiscard]] std::optional<Link> greet(const cluster::HelloResult& hello);

private:
  // With a pool that outlives processes, several have one incarnation.
  struct Process {
    cluster::Incarnation incarnation;
    std::uint32_t number = 0;
    bool operator==(const Process&) const = default;
  };
  struct Daemon {
    std::uint64_t life = 0;
    Process process;            // of that life
    Process before;             // of the one before it
    std::uint32_t returns = 0;  // how often that one came back
  };
  struct Entry {
    std::uint32_t number = 0;
    std::weak_ptr<Daemon> daemon;  // its links have it
  };
  // A hello of a dead daemon that comes late makes two: its own, and its successor's next one.
  static constexpr std::uint32_t kReturnsOfTwo = 3;

  void forget_gone();
  void begin_life(const std::string& name, Daemon& daemon, const Process& process);

  base::ErrorLog& errors_;
  std::map<std::string, Entry> daemons_;
  std::vector<std::uint32_t> free_;  // numbers of those that were forgotten
  std::uint32_t numbers_ = 0;        // given so far
  std::uint64_t last_life_ = 0;
};

}  // namespace simm::control
