// DataDaemon: every daemon with data agents, that is `simmd all`, `simmd node` and `simmd storage`:
// the control thread (this one) with its sockets, the data agents with their pool, its presence in
// a cluster, and the life of the whole: ready, serve, drain, end.
// Thread: the main thread, which becomes the control thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/base/config.h"
#include "daemon/cluster/slot_map.h"
#include "daemon/control/service_manager.h"
#include "daemon/process/adopt_service.h"
#include "simm/expected.h"

namespace simm {

struct NodeOptions {
  base::Role role = base::Role::all;  // one with data agents: all, node or storage
  base::Config config;
  std::vector<control::InheritedSocket> inherited;
  control::ServiceManager service;
  memory::HelperLink helper;
  ipc::FdSocket gpu_keeper;  // not valid: clients may not have memory of GPUs
};

class DataDaemon {
public:
  // Makes everything and listens; for clients only when there is nothing to recover. The errors are
  // for people.
  static Expected<std::unique_ptr<DataDaemon>> create(NodeOptions options);
  ~DataDaemon();

  // Joins the cluster, recovers what the pool holds, and then lets clients in and says that it is
  // ready. Serves until SIGTERM or SIGINT; then accepts nobody, closes all sessions, gives its
  // slots to others (unless its objects outlive it: then it will be back), and returns when both
  // are done. After drain_ms it ends the process where it stands, with the same exit status: what
  // is left belongs to clients that do not finish, or to a cluster that is busy. False: it could
  // not go on, and somebody should look why (the log says it).
  [[nodiscard]] bool run();

private:
  struct Parts;
  explicit DataDaemon(std::unique_ptr<Parts> parts);
  Outcome export_traces();
  Outcome join_cluster();
  Outcome listen();
  Outcome listen_for_clients();
  void begin_recovery();
  void tell_recovery();
  void end_recovery();
  void fail(const std::string& why);
  void say_ready();
  [[nodiscard]] std::uint32_t own_grace_ms() const;
  void begin_stop(const std::string& why);
  void give_up(const std::string& why);
  bool take_map(const cluster::SlotMap& map);
  [[nodiscard]] bool keeps_objects() const;
  void on_drained();
  void log_ready();
  void maintain_regions();
  void wait_for_signal();

  std::unique_ptr<Parts> parts_;
};

}  // namespace simm
