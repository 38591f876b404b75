// NodeDaemon: `simmd all` and `simmd node`: the control thread (this one) with its sockets, the
// data agents with their pool, and the life of the whole: ready, serve, drain, end.
// Thread: the main thread, which becomes the control thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "daemon/adopt_service.h"
#include "daemon/base/config.h"
#include "daemon/control/service_manager.h"
#include "simm/expected.h"

namespace simm {

struct NodeOptions {
  std::string role;  // "all" or "node", for people
  base::Config config;
  std::vector<control::InheritedSocket> inherited;
  control::ServiceManager service;
  HelperLink helper;
};

class NodeDaemon {
public:
  // Makes everything and listens. The errors are for people.
  static Expected<std::unique_ptr<NodeDaemon>> create(NodeOptions options);
  ~NodeDaemon();

  // Serves until SIGTERM or SIGINT; then accepts nobody, closes all sessions and returns when they
  // are gone. After drain_ms it ends the process where it stands, with the same exit status: what
  // is left belongs to clients that do not finish.
  void run();

private:
  struct Parts;
  explicit NodeDaemon(std::unique_ptr<Parts> parts);
  void begin_stop(const char* why);
  void feed_watchdog();
  void maintain_regions();
  void wait_for_signal();

  std::unique_ptr<Parts> parts_;
};

}  // namespace simm
