#include "daemon/transport/rdma/device/verbs_queue_pair.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <utility>

#include "daemon/base/random.h"
#include "daemon/transport/rdma/device/verbs_device.h"
#include "daemon/transport/rdma/device/verbs_path.h"
#include "daemon/transport/rdma/device/verbs_port.h"
#include "simm/check.h"

namespace simm::transport {
namespace {

constexpr std::size_t kBatchMax = 32;
// Messages up to this size travel inside of their work, where a device can: it need not fetch them.
constexpr std::uint32_t kInlineBytesWanted = 220;
constexpr std::uint32_t kNumbers24 = 1u << 24;

// 0: no such size.
unsigned mtu_of(std::uint16_t bytes) {
  if (!std::has_single_bit(bytes) || bytes < 256 || bytes > 4096) return 0;
  return static_cast<unsigned>(std::bit_width(bytes)) - 8;
}

// The far port, as one number: whoever is behind the same path has the same one.
std::uint64_t path_of(const QueuePairAddress& far) {
  std::uint64_t path = far.lid;
  for (const std::uint8_t byte : far.gid) path = path * 0x100000001b3 + byte;
  return path;
}

ibv_wr_opcode opcode_of(WorkKind kind) {
  switch (kind) {
    case WorkKind::read:
      return IBV_WR_RDMA_READ;
    case WorkKind::write:
      return IBV_WR_RDMA_WRITE;
    case WorkKind::send:
      break;
  }
  return IBV_WR_SEND;
}

ibv_sge sge_of(const LocalPart& part) {
  return {reinterpret_cast<std::uint64_t>(part.at), part.bytes, part.key};
}

}  // namespace

VerbsQueuePair::VerbsQueuePair(VerbsDevice& device, VerbsPort& port,
                               const VerbsDevice::Place& place, const QueuePairConfig& config)
    : device_(device),
      port_(port),
      config_(config),
      place_(place),
      address_(place.address),
      sends_(config.sends_max),
      receives_(config.receives_max) {}

Expected<std::unique_ptr<VerbsQueuePair>> VerbsQueuePair::make(VerbsDevice& device, VerbsPort& port,
                                                               ibv_cq* queue,
                                                               const QueuePairConfig& config) {
  ibv_qp_init_attr wanted{};
  wanted.send_cq = queue;
  wanted.recv_cq = queue;
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap.max_send_wr = config.sends_max;
  wanted.cap.max_recv_wr = config.receives_max;
  wanted.cap.max_send_sge = Work::kPartsMax;
  wanted.cap.max_recv_sge = 1;
  wanted.cap.max_inline_data = kInlineBytesWanted;
  ibv_qp* raw = ibv_create_qp(device.domain(), &wanted);
  if (raw == nullptr) {
    wanted.cap.max_inline_data = 0;
    raw = ibv_create_qp(device.domain(), &wanted);
  }
  if (raw == nullptr) {
    return verbs_error(errno == ENOMEM ? Status::out_of_memory : Status::io_error,
                       device.info().device, "ibv_create_qp", errno,
                       "the device has at most " + std::to_string(device.info().queue_pairs_max) +
                           " queue pairs for all: have fewer connections; or raise LimitMEMLOCK= "
                           "of the systemd unit");
  }
  std::unique_ptr<VerbsQueuePair> made(new VerbsQueuePair(device, port, device.place(), config));
  made->queue_pair_ = raw;
  made->inline_bytes_max_ = wanted.cap.max_inline_data;
  made->address_.number = raw->qp_num;
  made->address_.first_packet = static_cast<std::uint32_t>(base::SystemRandom().below(kNumbers24));
  made->address_.reads_in = std::min(config.reads_max, device.info().reads_max);
  if (auto ready = made->to_init(); !ready) {
    ibv_destroy_qp(raw);
    made->queue_pair_ = nullptr;
    return std::move(ready).error();
  }
  return made;
}

Outcome VerbsQueuePair::modify(ibv_qp_attr& attributes, unsigned mask, const char* what) {
  const int error = ibv_modify_qp(queue_pair_, &attributes, static_cast<int>(mask));
  if (error == 0) return Done{};
  return verbs_error(Status::io_error, device_.info().device,
                     std::string("ibv_modify_qp to ") + what, error,
                     "can the other end be reached from " + gid_text(address_.gid) +
                         ", and are partition key, service level and GID index right?");
}

Outcome VerbsQueuePair::to_init() {
  ibv_qp_attr init{};
  init.qp_state = IBV_QPS_INIT;
  init.pkey_index = place_.partition.index;
  init.port_num = static_cast<std::uint8_t>(device_.info().port);
  if (config_.is_requester) init.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  return modify(init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
}

Outcome VerbsQueuePair::connect(const QueuePairAddress& far) {
  SIMM_CHECK(queue_pair_ != nullptr && queue_pair_->state == IBV_QPS_INIT);
  if (far.is_ethernet != address_.is_ethernet || mtu_of(far.mtu_bytes) == 0 || far.number == 0 ||
      far.number >= kNumbers24 || far.first_packet >= kNumbers24 || far.reads_in == 0) {
    return Error{Status::invalid_argument,
                 device_.info().device + ": the other end can not be connected to: " +
                     (far.is_ethernet ? "RoCE" : "InfiniBand") + ", MTU " +
                     std::to_string(far.mtu_bytes) + ", queue pair " + std::to_string(far.number) +
                     ", answers " + std::to_string(far.reads_in) + " READs"};
  }
  ending_->peer = path_of(far);
  if (auto ready = to_ready_to_receive(far); !ready) return ready;
  return to_ready_to_send(far);
}

Outcome VerbsQueuePair::to_ready_to_receive(const QueuePairAddress& far) {
  const RdmaDeviceConfig& config = device_.config();
  ibv_qp_attr ready{};
  ready.qp_state = IBV_QPS_RTR;
  ready.path_mtu = static_cast<ibv_mtu>(mtu_of(std::min(address_.mtu_bytes, far.mtu_bytes)));
  ready.dest_qp_num = far.number;
  ready.rq_psn = far.first_packet;
  ready.max_dest_rd_atomic = address_.reads_in;
  ready.min_rnr_timer = config.min_rnr_timer;
  ready.ah_attr = path_to(address_, far,
                          {static_cast<std::uint8_t>(device_.info().port), place_.gid_index,
                           config.service_level, config.traffic_class, place_.needs_global_header});
  return modify(ready,
                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                "RTR");
}

Outcome VerbsQueuePair::to_ready_to_send(const QueuePairAddress& far) {
  const RdmaDeviceConfig& config = device_.config();
  ibv_qp_attr ready{};
  ready.qp_state = IBV_QPS_RTS;
  ready.sq_psn = address_.first_packet;
  ready.timeout = config.timeout;
  ready.retry_cnt = config.retry_count;
  ready.rnr_retry = config.rnr_retry;
  ready.max_rd_atomic = reads_max_ = std::min(address_.reads_in, far.reads_in);
  return modify(ready,
                IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
                "RTS");
}

std::size_t VerbsQueuePair::post(std::span<const Work> works) noexcept {
  SIMM_CHECK(queue_pair_ != nullptr);
  std::size_t posted = 0;
  while (posted < works.size()) {
    const std::size_t count = std::min(kBatchMax, works.size() - posted);
    const std::size_t taken = post_batch(works.subspan(posted, count));
    posted += taken;
    if (taken < count) break;
  }
  return posted;
}

std::size_t VerbsQueuePair::post_batch(std::span<const Work> works) noexcept {
  SIMM_CHECK(works.size() <= sends_.room());
  std::array<ibv_send_wr, kBatchMax> requests;
  std::array<std::array<ibv_sge, Work::kPartsMax>, kBatchMax> parts;
  const std::uint64_t mine = mark();
  for (std::size_t i = 0; i < works.size(); ++i) {
    const Work& work = works[i];
    const auto number = static_cast<std::uint32_t>(sends_.posted + i);
    std::uint32_t bytes = 0;
    for (std::size_t part = 0; part < work.part_count; ++part) {
      parts[i][part] = sge_of(work.parts[part]);
      bytes += work.parts[part].bytes;
    }
    sends_.id_of(number) = work.id;
    ibv_send_wr& request = requests[i];
    request = {};
    request.wr_id = mine | number;
    // SAFETY: i + 1 < works.size() <= kBatchMax.
    request.next = i + 1 < works.size() ? &requests[i + 1] : nullptr;
    request.sg_list = parts[i].data();
    request.num_sge = work.part_count;
    request.opcode = opcode_of(work.kind);
    if (work.is_signaled) request.send_flags |= IBV_SEND_SIGNALED;
    if (work.kind == WorkKind::send && bytes <= inline_bytes_max_) {
      request.send_flags |= IBV_SEND_INLINE;
    }
    request.wr.rdma.remote_addr = work.remote.address;
    request.wr.rdma.rkey = work.remote.key;
  }
  ibv_send_wr* refused = nullptr;
  std::size_t taken = works.size();
  if (!works.empty() && ibv_post_send(queue_pair_, requests.data(), &refused) != 0) {
    taken = refused == nullptr ? 0 : static_cast<std::size_t>(refused - requests.data());
  }
  sends_.posted += static_cast<std::uint32_t>(taken);
  return taken;
}

bool VerbsQueuePair::post_receive(std::uint64_t id, const LocalPart& part) noexcept {
  SIMM_CHECK(queue_pair_ != nullptr && receives_.room() > 0);
  ibv_sge place = sge_of(part);
  receives_.id_of(receives_.posted) = id;
  ibv_recv_wr request{};
  request.wr_id = kReceiveBit | mark() | receives_.posted;
  request.sg_list = &place;
  request.num_sge = 1;
  ibv_recv_wr* refused = nullptr;
  if (ibv_post_recv(queue_pair_, &request, &refused) != 0) return false;
  ++receives_.posted;
  return true;
}

std::uint64_t VerbsQueuePair::mark() noexcept {
  if (!mark_) mark_ = port_.take_place(*this);
  return *mark_;
}

std::uint64_t VerbsQueuePair::ended(std::uint32_t number, bool is_receive) noexcept {
  Line& line = is_receive ? receives_ : sends_;
  line.ended = number + 1;
  return line.id_of(number);
}

void VerbsQueuePair::fail() noexcept {
  SIMM_CHECK(queue_pair_ != nullptr);
  if (std::exchange(is_failing_, true)) return;
  ending_->queue_pair = queue_pair_;
  device_.reaper().submit(*ending_);
}

void VerbsQueuePair::destroy() noexcept {
  if (try_destroy()) return;
  leave_port(device_.reaper().wait_for(ending_));
}

bool VerbsQueuePair::try_destroy() noexcept {
  if (queue_pair_ == nullptr) return true;
  if (!std::exchange(is_ending_, true)) {
    fail();
    device_.reaper().want(*ending_);
  }
  if (!ending_->is_done.load(std::memory_order_acquire)) return false;
  leave_port(true);
  return true;
}

void VerbsQueuePair::leave_port(bool is_fenced) noexcept {
  queue_pair_ = nullptr;
  const std::uint32_t reserved = is_fenced ? config_.sends_max + config_.receives_max : 0;
  if (mark_) {
    port_.leave_place(*mark_, reserved);
  } else {
    port_.give_back(reserved);
  }
}

}  // namespace simm::transport
