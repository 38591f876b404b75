#include "daemon/transport/rdma/device/verbs_handles.h"

namespace simm::transport {

Error verbs_error(Status status, const std::string& device, std::string_view verb, int errno_value,
                  std::string_view remedy) {
  Error error = system_error(device + ": " + std::string(verb), errno_value);
  error.status = status;
  error.context += ": " + std::string(remedy);
  return error;
}

}  // namespace simm::transport
