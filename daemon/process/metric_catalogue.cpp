#include "daemon/process/metric_catalogue.h"

#include "daemon/agent/pool_counters.h"
#include "daemon/attach/attach_counters.h"
#include "daemon/base/agent_runner.h"
#include "daemon/base/event_log.h"
#include "daemon/base/limits.h"
#include "daemon/engine/engine_counters.h"
#include "daemon/memory/gpu_counters.h"
#include "daemon/metrics/counter_metrics.h"
#include "daemon/metrics/metrics_server.h"
#include "daemon/moves/mover_counters.h"
#include "daemon/moves/refill_counters.h"
#include "daemon/peers/peer_counters.h"
#include "daemon/server/scrubber.h"
#include "daemon/server/server_counters.h"
#include "daemon/server/store_counters.h"
#include "daemon/session/session_counters.h"
#include "daemon/shared_reads/shared_read_counters.h"
#include "daemon/traces/exporter_counters.h"
#include "daemon/transport/rdma/device/rail_counters.h"
#include "daemon/transport/rdma/rdma_counters.h"
#include "daemon/transport/tcp/tcp_counters.h"

namespace simm {

std::string metric_catalogue() {
  base::CounterSet set;
  // A group registers its counters when it is made.
  (void)engine::EngineCounters(set, "engine.0");
  (void)session::SessionCounters(set, "session.0");
  (void)server::ServerCounters(set, "server.0");
  (void)server::StoreCounters(set, "store.0");
  (void)server::ScrubCounters(set, "scrub.0");
  (void)shared_reads::SharedReadCounters(set, "shared_reads.0");
  (void)moves::MoverCounters(set, "moves.0");
  (void)moves::RefillCounters(set, "refills.0");
  (void)transport::TcpCounters(set, "tcp.0");
  (void)transport::RdmaCounters(set, "rdma.0");
  (void)transport::RailCounters(set, 0);
  (void)base::RunnerCounters(set, "data0");
  (void)base::LimitCounters(set);
  (void)base::EventCounters(set);
  (void)control::AttachCounters(set).ended("goodbye");
  (void)control::LinkCounters(set);
  (void)control::QueuePairCounters(set);
  (void)control::ListenerCounters(set);
  (void)control::DialerCounters(set);
  (void)control::MetricsServer::answers(set);
  (void)memory::GpuRefusedCounters(set);
  (void)memory::GpuCounters(set, 0);
  (void)PoolCounters(set);
  (void)traces::ExporterCounters(set);
  control::MetricsText text;
  control::CounterMetrics(set).write(text);
  return text.take();
}

}  // namespace simm
