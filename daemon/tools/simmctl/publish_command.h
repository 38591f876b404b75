// `simmctl events --publish`: the events of keys of one namespace, for routers, over ZeroMQ. The
// process becomes simmctl-publish.py, which reads `simmctl events --keys`. Thread: the main thread.
#pragma once

#include <string>

#include "daemon/tools/simmctl/key_events_command.h"
#include "daemon/tools/simmctl/report_command.h"

namespace simm::ctl {

struct PublishWishes {
  std::string address;  // tcp://127.0.0.1:5557 or ipc:///run/simm/keys
  std::string replay;   // empty: nobody can ask for earlier messages
  std::string wire = "maps";
  std::string topic;
  std::string curve;  // a directory with keys; empty: only for this host
};

// Returns the exit code, when the program can not be started.
[[nodiscard]] int run_publish(const AdminWishes& admin, const KeyEventsWishes& keys,
                              const PublishWishes& wishes);

}  // namespace simm::ctl
