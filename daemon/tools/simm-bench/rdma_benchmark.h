// `simm-bench rdma`: pages of a storage daemon over RDMA devices of this host, through a node
// daemon that holds none itself.
//   rdma.get_bw, rdma.put_bw   batches of 1 MiB pages; baseline: ib_write_bw, ib_read_bw
//   rdma.get_4k_p50            one page of 4 KiB, the default waiting mode everywhere
//                              baseline: two ib_send_lat of 64 bytes and an ib_write_lat of 4 KiB
//   rdma.get_4k_event_p50      the same, everybody sleeping whenever there is nothing to do
// Thread: the main thread of a process without other threads (it forks).
#pragma once

#include "daemon/tools/simm-bench/bench_options.h"

namespace simm::bench {

// Over the devices that `options` names. With --daemon through that node, whatever its waiting mode
// and its devices; the baseline still goes over those that are named.
Outcome run_rdma_bandwidth(const BenchOptions& options, ResultPrinter& printer);
Outcome run_rdma_latency(const BenchOptions& options, ResultPrinter& printer);

}  // namespace simm::bench
