// What simmctl shows of GPUs. Thread: control.
#pragma once

#include <string>
#include <vector>

#include "daemon/memory/gpu/gpu_figures.h"

namespace simm::control {

// A row each, by number: that of its counters.
std::string gpus_text(const std::vector<memory::GpuView>& gpus);

}  // namespace simm::control
