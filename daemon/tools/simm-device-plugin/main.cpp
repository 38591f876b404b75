// simm-device-plugin: tenants by namespace on Kubernetes. See its --help and simm-device-plugin.8.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "daemon/tools/simm-device-plugin/command_line.h"

int main(int argc, char** argv) {
  try {
    return simm::kube::run(argc, argv);
  } catch (const std::exception& unexpected) {
    // Out of memory.
    std::fprintf(stderr, "simm-device-plugin: %s\n", unexpected.what());
    return EXIT_FAILURE;
  }
}
