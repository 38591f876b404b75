#include "daemon/transport/rdma/registration/chunk_registrar.h"

#include <pthread.h>

#include <system_error>
#include <utility>

#include "simm/check.h"

namespace simm::transport {
namespace {

bool contains(RailSet set, std::uint32_t rail) noexcept {
  return (set >> rail & 1) != 0;
}

void move_by(std::uint64_t& number, std::uint64_t by, bool is_less) noexcept {
  number = is_less ? number - by : number + by;
}

}  // namespace

RegisteredRange::~RegisteredRange() {
  registrar_.release(*this);
}

ChunkRegistrar::ChunkRegistrar(const RegistrarConfig& config, const std::vector<RdmaDevice*>& rails,
                               const RegistrarEnvironment& environment)
    : config_(config),
      clock_(environment.clock),
      errors_(environment.errors),
      log_(environment.log) {
  SIMM_CHECK(!rails.empty() && rails.size() <= kRailsMax && config.threads >= 1);
  for (RdmaDevice* const device : rails) {
    rails_.push_back({device, true, 0, 0, RailProgress{.name = device->info().name()},
                      RailCounters(environment.counters, rails_.size())});
  }
}

ChunkRegistrar::~ChunkRegistrar() {
  stop();
  SIMM_CHECK(ranges_.empty());
}

Outcome ChunkRegistrar::start() {
  SIMM_CHECK(threads_.empty());
  if (!bell_.is_usable()) return Error{Status::out_of_memory, "no descriptor for registering"};
  for (std::uint32_t i = 0; i < config_.threads; ++i) {
    try {
      threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      break;  // those that there are do it
    }
    ::pthread_setname_np(threads_.back().native_handle(), "simm-nic-memory");
  }
  if (threads_.empty()) return Error{Status::out_of_memory, "no thread for registering"};
  return Done{};
}

void ChunkRegistrar::stop() noexcept {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_stopping_ = true;
  }
  bell_.ring();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

std::unique_ptr<RegisteredRange> ChunkRegistrar::add(const RangeSpec& spec) {
  std::unique_ptr<RegisteredRange> range(new RegisteredRange(*this, spec, rails(), bell_));
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ranges_.push_back(range.get());
    if (spec.background != 0) background_.push_back(range.get());
    for (std::uint32_t rail = 0; rail < rails(); ++rail) {
      if (!contains(spec.background, rail)) continue;
      range->rails_[rail].wanted = spec.memory.bytes;
      add_progress(rail, range->rails_[rail], false);
    }
  }
  bell_.ring();
  return range;
}

std::vector<RailProgress> ChunkRegistrar::progress() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<RailProgress> all;
  for (const Rail& rail : rails_) all.push_back(rail.progress);
  return all;
}

void ChunkRegistrar::work() {
  while (true) {
    Job job;
    base::TimeNs look_at_ns = base::kNoDeadline;
    bool has_job = false;
    bell_.answer();
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (!farewells_.empty()) {
        Farewell* const farewell = farewells_.front();
        farewells_.pop_front();
        bell_.ring();
        say(*farewell, lock);
        continue;
      }
      if (is_stopping_) break;
      has_job = take(job, look_at_ns);
    }
    if (!has_job) {
      const base::TimeNs now_ns = clock_.now_ns();
      const base::TimeNs left_ns = look_at_ns > now_ns ? look_at_ns - now_ns : 0;
      bell_.wait(look_at_ns == base::kNoDeadline ? base::kNoDeadline : left_ns);
      continue;
    }
    bell_.ring();  // who took one answered for all: the next thread looks for more
    Made made = register_chunk(job);
    if (!made) report(job, made.error());
    const std::lock_guard<std::mutex> lock(mutex_);
    finish(job, std::move(made));
  }
  bell_.ring();  // the other threads end as well
}

bool ChunkRegistrar::take(Job& job, base::TimeNs& look_at_ns) {
  const base::TimeNs now_ns = clock_.now_ns();
  for (RegisteredRange* const range : ranges_) {
    if (range->chunks_.take_wishes() || range->look_at_ns_ <= now_ns) {
      collect_wishes(*range, now_ns);
    }
    look_at_ns = std::min(look_at_ns, range->look_at_ns_);
  }
  if (!take_asked(job) && !take_background(job)) return false;
  begin(job);
  return true;
}

bool ChunkRegistrar::take_asked(Job& job) {
  if (asked_.empty()) return false;
  RegisteredRange& range = *asked_.front();
  asked_.pop_front();
  const std::uint64_t cell = range.asked_.front();
  range.asked_.pop_front();
  if (!range.asked_.empty()) asked_.push_back(&range);
  job = job_of(range, cell);
  job.is_asked = true;
  return true;
}

ChunkRegistrar::Job ChunkRegistrar::job_of(RegisteredRange& range, std::uint64_t cell) const {
  return {&range, static_cast<std::uint32_t>(cell / rails()),
          static_cast<std::uint32_t>(cell % rails())};
}

bool ChunkRegistrar::take_background(Job& job) {
  while (!background_.empty()) {
    RegisteredRange& range = *background_.front();
    background_.pop_front();
    ChunkTable& chunks = range.chunks_;
    const std::uint64_t cells = std::uint64_t{chunks.chunks()} * rails();
    while (range.next_cell_ < cells) {
      // Rail by rail: so the first one knows all of the range soon, and threads seldom make the
      // same pages present.
      job = {&range, static_cast<std::uint32_t>(range.next_cell_ % chunks.chunks()),
             static_cast<std::uint32_t>(range.next_cell_ / chunks.chunks())};
      ++range.next_cell_;
      const bool is_wanted = contains(range.spec_.background, job.rail) && rails_[job.rail].is_open;
      if (!is_wanted || chunks.state(job.chunk, job.rail) != ChunkState::absent) continue;
      chunks.set_state(job.chunk, job.rail, ChunkState::wanted);
      background_.push_back(&range);
      return true;
    }
  }
  return false;
}

void ChunkRegistrar::collect_wishes(RegisteredRange& range, base::TimeNs now_ns) {
  ChunkTable& chunks = range.chunks_;
  const bool had_wishes = !range.asked_.empty();
  range.look_at_ns_ = base::kNoDeadline;
  for (std::uint32_t chunk = 0; chunk < chunks.chunks(); ++chunk) {
    for (std::uint32_t rail = 0; rail < rails(); ++rail) {
      if (!chunks.is_asked(chunk, rail)) continue;
      const std::uint64_t cell = std::uint64_t{chunk} * rails() + rail;
      const ChunkState before = chunks.state(chunk, rail);
      if (!is_wish_due(range, cell, now_ns)) continue;
      chunks.set_state(chunk, rail, ChunkState::wanted);
      range.asked_.push_back(cell);
      const std::uint64_t bytes = chunks.chunk_bytes(chunk);
      if (before == ChunkState::failed) {  // and was wanted before
        range.rails_[rail].failed -= bytes;
        add_progress(rail, {.failed = bytes}, true);
      } else if (!contains(range.spec_.background, rail)) {  // else counted at the start
        range.rails_[rail].wanted += bytes;
        add_progress(rail, {.wanted = bytes}, false);
      }
    }
  }
  if (!had_wishes && !range.asked_.empty()) asked_.push_back(&range);
}

// A wish stays in its cell until it is fulfilled or has failed: so nobody rings for it again.
bool ChunkRegistrar::is_wish_due(RegisteredRange& range, std::uint64_t cell, base::TimeNs now_ns) {
  const Job job = job_of(range, cell);
  if (!rails_[job.rail].is_open) return false;
  switch (range.chunks_.state(job.chunk, job.rail)) {
    case ChunkState::absent:
      return true;
    case ChunkState::failed: {
      const base::TimeNs again_ns = range.again_.at(cell);
      if (again_ns <= now_ns) return true;
      range.look_at_ns_ = std::min(range.look_at_ns_, again_ns);
      return false;
    }
    case ChunkState::registered:  // between the agent's look and its wish
      range.chunks_.forget_wish(job.chunk, job.rail);
      return false;
    case ChunkState::wanted:
      break;
  }
  return false;
}

void ChunkRegistrar::begin(Job& job) {
  Rail& rail = rails_[job.rail];
  ++job.range->under_way_;
  ++rail.under_way;
  job.has_room = rail.claimed < config_.registrations_max;
  if (job.has_room) ++rail.claimed;
}

ChunkRegistrar::Made ChunkRegistrar::register_chunk(const Job& job) {
  if (!job.has_room) {
    return Error{Status::out_of_memory, "there are " + std::to_string(config_.registrations_max) +
                                            " registrations, and no more are made"};
  }
  const RangeSpec& spec = job.range->spec_;
  MemoryRange part = spec.memory;
  const std::uint64_t offset = job.chunk * kRegisteredChunkBytes;
  part.bytes = job.range->chunks_.chunk_bytes(job.chunk);
  if (part.dmabuf_descriptor >= 0) {
    part.offset += offset;
  } else {
    // SAFETY: the chunk begins inside the range.
    part.base += offset;
  }
  if (spec.pages != nullptr &&
      spec.pages->admit_whole(part.base, part.bytes, job.is_asked) != Status::ok) {
    if (!job.is_asked) return Made(nullptr);
    return Error{Status::out_of_memory,
                 "memory of a client has absent pages, and its session may not have so many made "
                 "present (memory.touch_budget_bytes): let the client touch them first"};
  }
  return rails_[job.rail].device->register_memory(part, spec.access);
}

void ChunkRegistrar::finish(const Job& job, Made made) {
  RegisteredRange& range = *job.range;
  ChunkTable& chunks = range.chunks_;
  const std::uint64_t cell = std::uint64_t{job.chunk} * rails() + job.rail;
  const bool is_registered = made.has_value() && *made != nullptr;
  chunks.forget_wish(job.chunk, job.rail);
  range.again_.erase(cell);
  if (!is_registered && job.has_room) --rails_[job.rail].claimed;
  if (is_registered) {
    const Registration& registration = **made;
    const RegisteredRange::RailBytes more{.registered = chunks.chunk_bytes(job.chunk),
                                          .registrations = 1,
                                          .on_demand = registration.is_on_demand ? 1U : 0U};
    add_progress(job.rail, more, false);
    RegisteredRange::RailBytes& its = range.rails_[job.rail];
    its.registered += more.registered;
    its.registrations += more.registrations;
    its.on_demand += more.on_demand;
    const ChunkKeys keys{registration.local_key, registration.remote_key,
                         registration.remote_address};
    range.registrations_[job.rail].push_back(std::move(*made));
    chunks.publish(job.chunk, job.rail, keys);
  } else if (made.has_value()) {
    chunks.set_state(job.chunk, job.rail, ChunkState::absent);
  } else {
    range.again_[cell] = clock_.now_ns() + config_.retry_ns;
    chunks.set_state(job.chunk, job.rail, ChunkState::failed);
    const RegisteredRange::RailBytes refused{.failed = chunks.chunk_bytes(job.chunk)};
    range.rails_[job.rail].failed += refused.failed;
    add_progress(job.rail, refused, false);
    Rail& rail = rails_[job.rail];
    ++rail.progress.failures;
    rail.counters.registration_failures.set(rail.progress.failures);
  }
  --range.under_way_;
  --rails_[job.rail].under_way;
  ended_.notify_all();
}

void ChunkRegistrar::report(const Job& job, const Error& why) {
  const std::string text = rails_[job.rail].device->info().name() + ": " + why.context;
  if (!errors_.record("rdma.register", why.status, text)) return;
  log_.warning("rdma", "memory is not registered, its bytes go another way", {{"why", text}});
}

void ChunkRegistrar::add_progress(std::uint32_t rail, const RegisteredRange::RailBytes& more,
                                  bool is_less) {
  Rail& of = rails_[rail];
  move_by(of.progress.registered_bytes, more.registered, is_less);
  move_by(of.progress.wanted_bytes, more.wanted, is_less);
  move_by(of.progress.failed_bytes, more.failed, is_less);
  move_by(of.progress.registrations, more.registrations, is_less);
  move_by(of.progress.on_demand, more.on_demand, is_less);
  of.counters.registered_bytes.set(of.progress.registered_bytes);
  of.counters.wanted_bytes.set(of.progress.wanted_bytes);
  of.counters.failed_bytes.set(of.progress.failed_bytes);
  of.counters.registrations.set(of.progress.registrations);
}

void ChunkRegistrar::release(RegisteredRange& range) {
  {
    std::unique_lock<std::mutex> lock(mutex_);
    ranges_.erase(std::find(ranges_.begin(), ranges_.end(), &range));
    for (auto* const waiting : {&background_, &asked_}) {
      waiting->erase(std::remove(waiting->begin(), waiting->end(), &range), waiting->end());
    }
    // What a rail that closes had of this range is not gone before that rail says so.
    ended_.wait(lock, [&] { return range.under_way_ == 0 && closing_ == 0; });
  }
  // Nobody else knows the range any more. A GiB takes a NIC a while, and others go on meanwhile.
  std::vector<Farewell> farewells;
  for (auto& registrations : range.registrations_) {
    if (!registrations.empty()) farewells.push_back({std::move(registrations)});
  }
  std::unique_lock<std::mutex> lock(mutex_);
  for (Farewell& farewell : farewells) farewells_.push_back(&farewell);
  if (farewells.size() > 1) bell_.ring();
  for (Farewell& farewell : farewells) {
    const auto at = std::find(farewells_.begin(), farewells_.end(), &farewell);
    if (at == farewells_.end()) continue;
    farewells_.erase(at);
    say(farewell, lock);
  }
  ended_.wait(lock, [&farewells] {
    return std::all_of(farewells.begin(), farewells.end(),
                       [](const Farewell& farewell) { return farewell.is_over; });
  });
  for (std::uint32_t rail = 0; rail < rails(); ++rail) {
    rails_[rail].claimed -= range.rails_[rail].registrations;
    add_progress(rail, range.rails_[rail], true);
  }
}

void ChunkRegistrar::say(Farewell& farewell, std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  farewell.registrations.clear();
  lock.lock();
  farewell.is_over = true;
  ended_.notify_all();
}

// ---- rails that go and come back ----

void ChunkRegistrar::close_rail(std::uint32_t rail) {
  std::vector<std::unique_ptr<Registration>> gone;
  {
    std::unique_lock<std::mutex> lock(mutex_);
    rails_.at(rail).is_open = false;
    ended_.wait(lock, [&] { return rails_[rail].under_way == 0; });
    for (RegisteredRange* const range : ranges_) forget_rail(*range, rail, gone);
    ++closing_;
  }
  gone.clear();
  const std::lock_guard<std::mutex> lock(mutex_);
  --closing_;
  ended_.notify_all();
}

void ChunkRegistrar::forget_rail(RegisteredRange& range, std::uint32_t rail,
                                 std::vector<std::unique_ptr<Registration>>& gone) {
  ChunkTable& chunks = range.chunks_;
  for (std::uint32_t chunk = 0; chunk < chunks.chunks(); ++chunk) {
    chunks.withdraw(chunk, rail);
    range.again_.erase(std::uint64_t{chunk} * rails() + rail);
  }
  const auto is_its = [&](std::uint64_t cell) { return cell % rails() == rail; };
  std::erase_if(range.asked_, is_its);
  if (range.asked_.empty()) std::erase(asked_, &range);
  for (auto& registration : range.registrations_[rail]) gone.push_back(std::move(registration));
  range.registrations_[rail].clear();
  RegisteredRange::RailBytes less = std::exchange(range.rails_[rail], {});
  rails_[rail].claimed -= less.registrations;
  if (contains(range.spec_.background, rail)) {  // and still is
    range.rails_[rail].wanted = std::exchange(less.wanted, 0);
  }
  add_progress(rail, less, true);
}

void ChunkRegistrar::open_rail(std::uint32_t rail) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    rails_.at(rail).is_open = true;
    for (RegisteredRange* const range : ranges_) {
      range->look_at_ns_ = 0;  // agents may have asked meanwhile
      if (!contains(range->spec_.background, rail)) continue;
      range->next_cell_ = 0;
      const auto at = std::find(background_.begin(), background_.end(), range);
      if (at == background_.end()) background_.push_back(range);
    }
  }
  bell_.ring();
}

}  // namespace simm::transport
