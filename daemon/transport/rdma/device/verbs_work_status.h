// How a work ended, from the words of libibverbs to ours. Thread: any.
#pragma once

#include <infiniband/verbs.h>

#include "daemon/transport/rdma/device/rdma_work.h"

namespace simm::transport {

constexpr WorkStatus work_status(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_SUCCESS:
      return WorkStatus::ok;
    case IBV_WC_WR_FLUSH_ERR:
      return WorkStatus::flushed;
    case IBV_WC_REM_ACCESS_ERR:
      return WorkStatus::remote_access;
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RESP_TIMEOUT_ERR:
      return WorkStatus::peer_lost;
    case IBV_WC_RNR_RETRY_EXC_ERR:
      return WorkStatus::receiver_full;
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
    case IBV_WC_REM_ABORT_ERR:
      return WorkStatus::remote_failure;
    default:
      return WorkStatus::local_failure;
  }
}

}  // namespace simm::transport
