// The host's libibverbs, found at run time: a host without RDMA need not have it, and one with
// MLNX_OFED has another than the distribution's. Nothing of it is linked. Its providers are
// plugins, so it could not be linked statically either.
//
// verbs_library.cpp defines the functions of infiniband/verbs.h that this project calls, under
// their own names: the header has inline functions that call some of them. Each goes on to the
// library, and may be called once load_verbs_library() has succeeded. VerbsDevice::open() sees to
// that; whoever has a device may call all of them.
// Thread: any.
#pragma once

#include "simm/expected.h"

namespace simm::transport {

// Loads the library with the first call; it stays until the process ends. unsupported, with the
// remedy, where it is not installed, or lacks a function; that stays so until the daemon restarts.
Outcome load_verbs_library();

}  // namespace simm::transport
