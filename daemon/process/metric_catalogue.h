// The metrics that are made of counters, as a page of Prometheus' text on which all is 0: what any
// daemon may show, also with memory, NICs or peers that this host does not have. OBSERVABILITY.md
// has its list from here. Thread: any.
#pragma once

#include <string>

namespace simm {

std::string metric_catalogue();

}  // namespace simm
