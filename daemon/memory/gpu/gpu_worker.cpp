#include "daemon/memory/gpu/gpu_worker.h"

#include <poll.h>
#include <seccomp.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/memory/gpu/gpu_imports.h"
#include "daemon/memory/gpu/gpu_tier.h"
#include "daemon/memory/helper/system_call_filter.h"
#include "ipc/cuda/driver.h"
#include "ipc/mapping.h"

namespace simm::memory {

namespace {

constexpr std::uint64_t kSayNs = 1'000'000'000;
constexpr timespec kIdle{0, 100'000'000};
constexpr timespec kCopying{0, 20'000};
// The pool is pinned in pieces: the driver holds locks of the whole host for a tenth of a second
// for each GiB. A copy may not lie in two of them.
constexpr std::uint64_t kPinBytes = 256 << 20;

// The driver makes threads, opens device files and maps memory in ways of its own. It needs no
// network, no other program and no other process.
constexpr int kDenied[] = {SCMP_SYS(execve),
                           SCMP_SYS(execveat),
                           SCMP_SYS(ptrace),
                           SCMP_SYS(process_vm_readv),
                           SCMP_SYS(process_vm_writev),
                           SCMP_SYS(connect),
                           SCMP_SYS(bind),
                           SCMP_SYS(listen),
                           SCMP_SYS(accept),
                           SCMP_SYS(accept4),
                           SCMP_SYS(mount),
                           SCMP_SYS(umount2),
                           SCMP_SYS(bpf),
                           SCMP_SYS(keyctl),
                           SCMP_SYS(add_key),
                           SCMP_SYS(request_key),
                           SCMP_SYS(setns),
                           SCMP_SYS(unshare),
                           SCMP_SYS(pidfd_getfd),
                           SCMP_SYS(userfaultfd)};

std::uint64_t monotonic_ns() {
  timespec now{};
  (void)::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

struct OpenedGpu {
  const cuda::Driver* driver = nullptr;
  int ordinal = 0;
  cuda::Device device = 0;
  std::string name;
};

Expected<OpenedGpu> open_gpu(const GpuUuid& uuid) {
  Expected<const cuda::Driver*> loaded = cuda::Driver::load();
  if (!loaded) return std::move(loaded).error();
  const cuda::Driver& driver = **loaded;
  const auto failed = [&](const char* what, cuda::Result result) {
    return Error{Status::unsupported, std::string(what) + ": " + driver.error_name(result)};
  };
  if (const cuda::Result result = driver.init(0); result != cuda::kSuccess) {
    return failed("cuInit", result);
  }
  int count = 0;
  (void)driver.device_get_count(&count);
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cuda::Device device = 0;
    cuda::Uuid own{};
    if (driver.device_get(&device, ordinal) != cuda::kSuccess) continue;
    if (driver.device_get_uuid(&own, device) != cuda::kSuccess) continue;
    if (!std::equal(uuid.begin(), uuid.end(), std::begin(own.bytes))) continue;
    cuda::Context context = nullptr;
    if (const cuda::Result result = driver.primary_context_retain(&context, device);
        result != cuda::kSuccess) {
      return failed("cuDevicePrimaryCtxRetain", result);
    }
    if (const cuda::Result result = driver.context_set_current(context); result != cuda::kSuccess) {
      return failed("cuCtxSetCurrent", result);
    }
    std::array<char, 100> name{};
    (void)driver.device_get_name(name.data(), name.size() - 1, device);
    return OpenedGpu{&driver, ordinal, device, name.data()};
  }
  return Error{Status::unsupported,
               "the daemon's host has no GPU of that UUID that its user may open"};
}

// `text`: of an outcome that is ok.
void say(ipc::FdSocket& control, const Outcome& outcome, const std::string& text = {}) {
  GpuControlReply reply;
  reply.status = static_cast<std::int32_t>(outcome.status());
  (outcome ? text : outcome.error().context).copy(reply.text, sizeof reply.text - 1);
  // A daemon that does not take its answers has gone or will hang up: nothing to be done about it.
  (void)control.send(std::as_bytes(std::span(&reply, 1)), {}, kSayNs);
}

class GpuWorker {
public:
  GpuWorker(GpuWorkerSetup setup, const OpenedGpu& gpu, ipc::Mapping file, ipc::Mapping arena)
      : setup_(std::move(setup)),
        driver_(*gpu.driver),
        name_(gpu.name),
        ordinal_(gpu.ordinal),
        imports_(driver_, gpu.ordinal, setup_.uuid),
        file_(std::move(file)),
        arena_(std::move(arena)) {
    int can_pin = 0;
    (void)driver_.device_get_attribute(&can_pin, cuda::kDeviceReadOnlyHostRegister, gpu.device);
    if (can_pin == 0 || !setup_.pins_arena) pinned_bytes_ = arena_.bytes();
    // What is not pinned is copied as well, through memory of the driver: slower.
    (void)driver_.host_register(file_.data(), file_.bytes(), cuda::kHostRegisterPortable);
  }

  // Until the daemon hangs up, or the driver fails.
  void run() {
    const Outcome ready = make_streams();
    say(setup_.control, ready, name_);
    if (!ready) return;
    while (turn()) gpu_beat(file_.data()).turns.fetch_add(1, std::memory_order_relaxed);
    if (failure_ == cuda::kSuccess) return;
    say(setup_.control,
        Error{Status::unreachable, "the driver failed: " + driver_.error_name(failure_)});
  }

private:
  struct Direction {
    cuda::Stream stream = nullptr;
    std::deque<GpuJob> waiting;  // not begun yet
    std::deque<GpuJob> begun;    // whose copies are under way, in the order of the stream
    std::uint64_t begun_bytes = 0;
    std::size_t pieces_max = 4 * kGpuQueuedPiecesMin;  // that are begun
    bool has_more = false;                             // than may be begun
    std::size_t before_release = 0;                    // of `begun`, from the front
    [[nodiscard]] bool is_idle() const noexcept { return waiting.empty() && begun.empty(); }
  };

  // Whether a call of the driver did what it should. After one that did not the helper ends.
  bool worked(cuda::Result result) {
    if (result != cuda::kSuccess) failure_ = result;
    return result == cuda::kSuccess;
  }

  Outcome make_streams() {
    for (Direction& direction : directions_) {
      if (driver_.stream_create(&direction.stream, cuda::kStreamNonBlocking) != cuda::kSuccess) {
        return Error{Status::unsupported, "the driver makes no stream"};
      }
    }
    tier_.emplace(driver_, ordinal_, directions_[1].stream, gpu_tier_counts(file_.data()),
                  gpu_names(file_.data()), monotonic_ns);
    return Done{};
  }

  // In each turn, because a stream of jobs may never end: also orders and controls.
  bool turn() {
    take_order();
    if (!finish_copies() || !begin_copies() || !tier_->do_work()) return false;
    release_when_copied();
    const bool is_idle =
        directions_[0].is_idle() && directions_[1].is_idle() && !tier_->is_giving_back();
    std::array<pollfd, 2> ready{{{setup_.control.fd(), POLLIN, 0}, {setup_.jobs.fd(), POLLIN, 0}}};
    const bool pins = is_idle && pinned_bytes_ < arena_.bytes();
    const timespec none{};
    (void)::ppoll(ready.data(), ready.size(), pins ? &none : is_idle ? &kIdle : &kCopying, nullptr);
    if (ready[1].revents != 0 && !take_jobs()) return false;
    if (ready[0].revents != 0) return take_control();
    if (pins && ready[1].revents == 0) pin_more();
    return true;
  }

  void take_order() {
    const GpuTierOrder& order = gpu_tier_order(file_.data());
    const std::uint64_t number = order.number.load(std::memory_order_acquire);
    if (number == last_order_) return;
    last_order_ = number;
    tier_->resize(order.bytes.load(std::memory_order_relaxed),
                  order.reserve_bytes.load(std::memory_order_relaxed), number);
  }

  bool take_jobs() {
    for (std::uint32_t taken = 0; taken < kGpuSlots; ++taken) {
      GpuJob job;
      const ipc::Received received =
          setup_.jobs.try_receive(std::as_writable_bytes(std::span(&job, 1)));
      if (received.result == ipc::SocketResult::would_block) return true;
      if (received.result != ipc::SocketResult::done || received.bytes != sizeof job) return false;
      if (job.slot == kGpuWakeSlot) continue;
      if (!is_gpu_job_sound(job, arena_.bytes())) return false;
      directions_[gpu_direction(job.slot)].waiting.push_back(job);
    }
    return true;
  }

  bool begin_copies() {
    for (Direction& direction : directions_) {
      const bool ran_dry = direction.has_more && direction.begun.empty();
      if (ran_dry)
        direction.pieces_max = std::min<std::size_t>(2 * direction.pieces_max, kGpuSlots);
      while (!direction.waiting.empty() && direction.begun_bytes < kGpuQueuedBytesMax &&
             direction.begun.size() < direction.pieces_max) {
        const GpuJob job = direction.waiting.front();
        direction.waiting.pop_front();
        const bool is_wanted =
            !gpu_given_up(file_.data(), job.slot).load(std::memory_order_relaxed);
        if (!is_wanted) {
          settle(job, PieceSlotState::failed);
        } else if (!begin(job)) {
          return false;
        }
      }
      direction.has_more = !direction.waiting.empty();
    }
    return true;
  }

  void settle(const GpuJob& job, PieceSlotState state) {
    gpu_beat(file_.data()).ended[gpu_direction(job.slot)].fetch_add(1, std::memory_order_relaxed);
    gpu_slot(file_.data(), job.slot).settle(state);
  }

  // False: the driver refuses a copy of sound ranges.
  bool begin(const GpuJob& job) {
    const bool is_write = is_gpu_write_slot(job.slot);
    Direction& direction = directions_[gpu_direction(job.slot)];
    const cuda::DevicePointer address = imports_.find(job.import, job.offset, job.length);
    if (address == 0) {
      settle(job, PieceSlotState::failed);
      return true;
    }
    const GpuTier::Place place = is_write ? place_of(job) : GpuTier::Place{};
    if (place.address == 0) {
      if (!queue_copy(address, job, direction.stream)) return false;
    } else if (!copy_by_tier(address, place, job, direction.stream)) {
      return false;
    }
    cuda::Event& event = events_[job.slot];
    if (event == nullptr && !worked(driver_.event_create(&event, cuda::kEventDisableTiming))) {
      return false;
    }
    if (!worked(driver_.event_record(event, direction.stream))) return false;
    direction.begun.push_back(job);
    direction.begun_bytes += job.length;
    return true;
  }

  GpuTier::Place place_of(const GpuJob& job) {
    const ObjectPart part{job.object_origin, job.object_serial, job.object_offset};
    const std::uint64_t tenant = tenants_[job.import];
    return imports_.is_of_peer(job.import)
               ? tier_->find_for_peer(part, job.length, tenant)
               : tier_->find(part, job.length, tenant, job.takes_in != 0);
  }

  // Never out of memory of the client, which the client may change at any time.
  bool copy_by_tier(cuda::DevicePointer address, const GpuTier::Place& place, const GpuJob& job,
                    cuda::Stream stream) {
    if (!place.is_filled && !queue_copy(place.address, job, stream)) return false;
    return worked(driver_.copy_on_device(address, place.address, job.length, stream));
  }

  // SAFETY: is_gpu_job_sound() made sure that the bytes lie inside.
  bool queue_copy(cuda::DevicePointer address, const GpuJob& job, cuda::Stream stream) {
    if (!has_gpu_bounce(job.slot)) return copy_in_parts(address, job, stream);
    std::byte* const own = gpu_bounce(file_.data(), job.slot);
    return worked(is_gpu_write_slot(job.slot)
                      ? driver_.copy_to_device(address, own, job.length, stream)
                      : driver_.copy_from_device(own, address, job.length, stream));
  }

  bool copy_in_parts(cuda::DevicePointer address, const GpuJob& job, cuda::Stream stream) {
    for (std::uint64_t done = 0; done < job.length;) {
      const std::uint64_t at = job.arena_offset + done;
      const std::uint64_t bytes = std::min(job.length - done, kPinBytes - at % kPinBytes);
      if (!worked(driver_.copy_to_device(address + done, arena_.data() + at, bytes, stream))) {
        return false;
      }
      done += bytes;
    }
    return true;
  }

  bool finish_copies() {
    for (Direction& direction : directions_) {
      const std::size_t begun = direction.begun.size();
      while (!direction.begun.empty()) {
        const GpuJob job = direction.begun.front();
        const cuda::Result result = driver_.event_query(events_[job.slot]);
        if (result == cuda::kNotReady) break;
        if (!worked(result)) return false;
        direction.begun.pop_front();
        if (direction.before_release > 0) --direction.before_release;
        direction.begun_bytes -= job.length;
        settle(job, PieceSlotState::ok);
      }
      const bool is_slow = begun > 0 && direction.begun.size() == begun;
      if (is_slow && direction.pieces_max > kGpuQueuedPiecesMin) --direction.pieces_max;
    }
    return true;
  }

  bool take_control() {
    GpuControl wanted;
    ipc::Received received =
        setup_.control.try_receive(std::as_writable_bytes(std::span(&wanted, 1)));
    if (received.result == ipc::SocketResult::would_block) return true;
    if (received.result != ipc::SocketResult::done || received.bytes != sizeof wanted) return false;
    switch (wanted.op) {
      case GpuControlOp::import:
        begin_control();
        if (wanted.import < tenants_.size()) tenants_[wanted.import] = wanted.tenant;
        say(setup_.control,
            received.fd_count == 1
                ? imports_.import(wanted.import, received.fds[0].get(), wanted.allocation_bytes,
                                  wanted.home)
                : Error{Status::invalid_argument, "an import comes with one descriptor"});
        return true;
      case GpuControlOp::release:
        releases_ = wanted.import;
        for (Direction& direction : directions_) direction.before_release = direction.begun.size();
        release_when_copied();
        return true;
    }
    return false;
  }

  void begin_control() { gpu_beat(file_.data()).controls.fetch_add(1, std::memory_order_release); }

  // Nothing of the import is under way for anybody who waits. What was begun before ends first, in
  // turns as any other: whoever looks after this helper sees whether it does.
  void release_when_copied() {
    const bool is_due =
        releases_ && directions_[0].before_release == 0 && directions_[1].before_release == 0;
    if (!is_due) return;
    begin_control();
    say(setup_.control, imports_.release(*std::exchange(releases_, std::nullopt)));
  }

  void pin_more() {
    const std::uint64_t bytes = std::min(kPinBytes, arena_.bytes() - pinned_bytes_);
    const cuda::Result result =
        driver_.host_register(arena_.data() + pinned_bytes_, bytes,
                              cuda::kHostRegisterPortable | cuda::kHostRegisterReadOnly);
    pinned_bytes_ = result == cuda::kSuccess ? pinned_bytes_ + bytes : arena_.bytes();
  }

  GpuWorkerSetup setup_;
  const cuda::Driver& driver_;
  const std::string name_;
  const int ordinal_;
  cuda::Result failure_ = cuda::kSuccess;
  GpuImports imports_;
  std::vector<std::uint64_t> tenants_ = std::vector<std::uint64_t>(kGpuImportsMax);  // by import
  ipc::Mapping file_;
  ipc::Mapping arena_;
  std::array<Direction, 2> directions_;  // from the GPU, to the GPU
  std::array<cuda::Event, kGpuSlots> events_{};
  std::optional<GpuTier> tier_;            // copies by the stream to the GPU
  std::uint64_t last_order_ = 0;           // of the tier
  std::optional<std::uint32_t> releases_;  // the import that the daemon waits for
  std::uint64_t pinned_bytes_ = 0;         // of the arena, or all of it when no more shall be
};

}  // namespace

void run_gpu_worker(GpuWorkerSetup setup) {
  const auto end = [&](const Error& why) {
    say(setup.control, why);
    ::_exit(1);
  };
  Expected<OpenedGpu> gpu = open_gpu(setup.uuid);
  if (!gpu) end(gpu.error());
  ipc::MappingOptions options{.dont_fork = true, .dont_dump = true};
  Expected<ipc::Mapping> file = ipc::Mapping::map(setup.file.get(), 0, kGpuFileBytes, options);
  if (!file) end(file.error());
  options.writable = false;
  ipc::Mapping arena;
  if (setup.arena_bytes > 0) {
    Expected<ipc::Mapping> mapped =
        ipc::Mapping::map(setup.arena.get(), 0, setup.arena_bytes, options);
    if (!mapped) end(mapped.error());
    arena = std::move(mapped).value();
  }
  if (Outcome filtered = deny_system_calls(kDenied); !filtered) end(filtered.error());
  GpuWorker worker(std::move(setup), *gpu, std::move(file).value(), std::move(arena));
  worker.run();
  ::_exit(0);
}

}  // namespace simm::memory
