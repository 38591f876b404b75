// The command line of simm-device-plugin, and what it makes of it. Thread: the main thread.
#pragma once

namespace simm::kube {

// The exit status of the program.
int run(int argc, char** argv);

}  // namespace simm::kube
