#include "tests/sim/sim_client.h"

#include <algorithm>
#include <utility>

#include "daemon/base/mix.h"
#include "simm/check.h"

namespace simm::sim {
namespace {

constexpr base::TimeNs kFenceGraceNs = 100 * kMs;
// A node needs a few turns of its own, and its timers tick.
constexpr base::TimeNs kTurnsNs = 2 * kMs;
// Each page has its own place for a key; longer ones would not fit.
constexpr std::uint32_t kKeySlotBytes = 128;
constexpr std::size_t kDoubtfulMax = 4;

}  // namespace

SimClient::SimClient(const Scenario& scenario, std::uint32_t number, std::uint32_t tenant,
                     EventLoop& loop, Dice dice, EventLog& log, Report& report, History& history)
    : scenario_(scenario),
      number_(number),
      tenant_(tenant),
      loop_(loop),
      dice_(dice),
      log_(log),
      report_(report),
      history_(history),
      frames_(scenario.frames, scenario.frame_bytes, number),
      doubts_(scenario.seed, 1'000 + number) {}

void SimClient::attached(ClientLink& link, Process& node) {
  link_ = &link;
  node_ = &node;
  next_page_.assign(scenario_.lanes, 0);
  link.on_activity = [this, &link] {
    loop_.after(dice_.skewed(100, 10 * kUs), [this, &link] {
      if (link_ == &link) poll();
    });
  };
}

void SimClient::detached(Serial node, bool has_devices) {
  link_ = nullptr;
  std::vector<ClientBatch> batches = std::exchange(batches_, {});
  if (!has_devices) return give_up(batches);
  if (!batches.empty()) bereft_[node] = std::move(batches);
}

void SimClient::on_devices_gone(Serial node) {
  const auto found = bereft_.find(node);
  if (found == bereft_.end()) return;
  give_up(found->second);
  bereft_.erase(found);
}

void SimClient::give_up(const std::vector<ClientBatch>& batches) {
  for (const ClientBatch& batch : batches) {
    for (const ClientPage& page : batch.pages) {
      if (batch.opcode == ipc::Opcode::put) {
        history_.end_put(page.put, Status::unreachable);
        doubt(page.key);
      }
      if (page.length > 0) frames_.abandon(page.frame);
    }
  }
}

void SimClient::start() {
  think();
}

void SimClient::think() {
  loop_.after(dice_.skewed(1 * kUs, scenario_.think_max_ns), [this] { step(); });
}

void SimClient::step() {
  if (submitted_ >= scenario_.batches || !report_.clean()) return;
  think();
  if (link_ == nullptr || batches_.size() >= scenario_.unfinished_max) return;
  if (!frames_.has_free(scenario_.batch_pages_max)) return;
  ++submitted_;
  submit(draw());
}

// ---- batches ----

std::uint64_t SimClient::draw_length() {
  if (scenario_.one_size) return scenario_.frame_bytes / 2;
  return dice_.between(24, scenario_.frame_bytes);
}

std::uint64_t SimClient::draw_length(KeyIndex key) {
  const std::uint64_t any = draw_length();
  if (!history_.is_immutable(key) || scenario_.one_size) return any;
  return 24 + base::mix(key) % (scenario_.frame_bytes - 24 + 1);
}

KeyIndex SimClient::key_of(std::uint32_t name_space, std::uint32_t number) {
  // The same texts in all tenants and namespaces. Half of them name groups by a digest.
  std::string text = "key-" + std::to_string(number);
  if (number % 2 == 0) {
    const std::string digits = std::to_string(number / 4);
    text = std::string(32 - digits.size(), 'a') + digits + (number % 4 == 0 ? "_k" : "_v");
  }
  if (number % 7 == 3) text += std::string(kKeySlotBytes - text.size(), '.');
  return history_.key({tenant(), name_space_id(name_space), text});
}

KeyIndex SimClient::draw_key(std::uint32_t name_space) {
  return key_of(name_space, dice_.between32(0, scenario_.keys - 1));
}

void SimClient::doubt(KeyIndex key) {
  if (!scenario_.tcp.is_used) return;
  std::erase_if(doubtful_, [key](const Doubt& doubt) { return doubt.key == key; });
  if (doubtful_.size() == kDoubtfulMax) doubtful_.erase(doubtful_.begin());
  doubtful_.push_back({key, false});
}

void SimClient::settle(KeyIndex key) {
  for (Doubt& doubt : doubtful_) {
    if (doubt.key == key) doubt.is_put_again = true;
  }
}

ClientBatch SimClient::follow_up() {
  const Doubt doubt = doubtful_[doubts_.between(0, doubtful_.size() - 1)];
  ClientBatch batch;
  batch.opcode = doubt.is_put_again ? ipc::Opcode::get : ipc::Opcode::put;
  batch.replace = true;
  batch.name_space = history_.name(doubt.key).name_space == name_space_id(0) ? 0 : 1;
  batch.timeout_ns = doubts_.between(scenario_.timeout_low_ns, scenario_.timeout_high_ns);
  ClientPage& page = batch.pages.emplace_back();
  page.key = doubt.key;
  page.frame = frames_.take(report_);
  page.length = doubt.is_put_again ? scenario_.frame_bytes : draw_length(page.key);
  return batch;
}

ClientBatch SimClient::draw() {
  if (!doubtful_.empty() && doubts_.percent(50)) return follow_up();
  ClientBatch batch;
  const std::uint64_t kind = dice_.between(0, 99);
  batch.opcode = kind < 40   ? ipc::Opcode::put
                 : kind < 78 ? ipc::Opcode::get
                 : kind < 92 ? ipc::Opcode::exists
                             : ipc::Opcode::remove;
  batch.replace = dice_.percent(50);
  batch.exact_size = dice_.percent(30);
  batch.shared = dice_.percent(scenario_.shared_reads.is_used ? 80 : 20);
  batch.ranged = batch.opcode == ipc::Opcode::get && dice_.percent(25);
  batch.name_space = dice_.percent(scenario_.has_immutable() ? 50 : 80) ? 0 : 1;
  // Some do not say so: they get the rules of any other namespace, from the same copies.
  if (scenario_.has_immutable() && batch.name_space == kImmutableNameSpace) {
    batch.says_immutable = scenario_.replicated || dice_.percent(75);
  }
  if (dice_.percent(15)) batch.ttl_ms = dice_.between32(1, 2'000);
  if (dice_.percent(60)) batch.lease_ms = dice_.between32(1, 5'000);
  batch.timeout_ns = dice_.between(scenario_.timeout_low_ns, scenario_.timeout_high_ns);
  draw_pages(batch);
  return batch;
}

void SimClient::draw_pages(ClientBatch& batch) {
  const bool moves = batch.opcode == ipc::Opcode::put || batch.opcode == ipc::Opcode::get;
  batch.pages.resize(dice_.between(1, scenario_.batch_pages_max));
  for (ClientPage& page : batch.pages) {
    page.key = draw_key(batch.name_space);
    if (!moves) continue;
    page.frame = frames_.take(report_);
    page.length = draw_length(page.key);
    if (batch.opcode == ipc::Opcode::put) continue;
    if (!batch.exact_size && dice_.percent(60)) page.length = scenario_.frame_bytes;
    if (batch.ranged) {
      page.object_offset = dice_.percent(20) ? 0 : dice_.between(1, scenario_.frame_bytes - 1);
      page.length = dice_.between(24, scenario_.frame_bytes);
    }
  }
}

void SimClient::write_pages(ClientBatch& batch) {
  ipc::ClientLane& lane = link_->lanes[batch.lane];
  std::uint32_t& next = next_page_[batch.lane];
  const auto count = static_cast<std::uint32_t>(batch.pages.size());
  if (next + count > ipc::kKeyArenaBytes / kKeySlotBytes) next = 0;
  batch.page_first = next;
  next += count;
  for (std::uint32_t i = 0; i < count; ++i) {
    ClientPage& page = batch.pages[i];
    if (batch.opcode == ipc::Opcode::put) {
      const std::span<std::byte> bytes = frames_.bytes(page.frame, page.length);
      // Where a key has one value, a put leaves what is there, whatever it says.
      const bool replaces =
          batch.replace && !batch.says_immutable && !history_.is_replicated(page.key);
      page.put =
          history_.begin_put(page.key, replaces, page.length, batch.ttl_ms * kMs, bytes.data());
      page.payload = history_.payload(page.put);
      page.payload.fill(bytes);
    }
    if (batch.opcode == ipc::Opcode::remove) page.removal = history_.begin_remove(page.key);
    const std::string& text = history_.name(page.key).text;
    ipc::PageDescriptor descriptor{};
    descriptor.key_offset = (batch.page_first + i) * kKeySlotBytes;
    descriptor.key_bytes = static_cast<std::uint32_t>(text.size());
    if (page.length > 0) {
      descriptor.region = link_->handle;
      descriptor.offset = frames_.offset(page.frame);
      descriptor.length = page.length;
      descriptor.object_offset = page.object_offset;
    }
    SIMM_CHECK(lane.write_key(descriptor.key_offset, text.data(), descriptor.key_bytes) ==
               Status::ok);
    SIMM_CHECK(lane.write_page(batch.page_first + i, descriptor) == Status::ok);
  }
}

void SimClient::submit(ClientBatch batch) {
  batch.token = ++token_;
  batch.when = history_.begin();
  batch.lane = dice_.between32(0, scenario_.lanes - 1);
  write_pages(batch);
  ipc::Submission submission{};
  submission.token = batch.token;
  submission.timeout_ns = batch.timeout_ns;
  submission.page_first = batch.page_first;
  submission.page_count = static_cast<std::uint32_t>(batch.pages.size());
  submission.ttl_ms = batch.opcode == ipc::Opcode::put ? batch.ttl_ms : 0;
  submission.lease_ms = batch.lease_ms;
  submission.name_space = batch.name_space == 0  ? std::uint16_t{0}
                          : batch.says_immutable ? link_->immutable_name_space
                                                 : link_->other_name_space;
  submission.flags = static_cast<std::uint16_t>((batch.exact_size ? ipc::kFlagExactSize : 0) |
                                                (batch.shared ? ipc::kFlagShared : 0) |
                                                (batch.ranged ? ipc::kFlagRanged : 0));
  submission.opcode = static_cast<std::uint8_t>(batch.opcode);
  submission.put_mode = batch.replace ? 1 : 0;
  SIMM_CHECK(link_->lanes[batch.lane].push(submission) == Status::ok);
  if (log_.on()) {
    log_.line("client %u submits batch %llu: opcode %u%s, %zu pages, timeout %llu us", number_,
              static_cast<unsigned long long>(batch.token), submission.opcode,
              batch.replace ? " replace" : "", batch.pages.size(),
              static_cast<unsigned long long>(batch.timeout_ns / kUs));
    for (const ClientPage& page : batch.pages) {
      log_.line("    '%s' put %u, %llu bytes at %llu, page %u",
                history_.name(page.key).text.c_str(), page.put,
                static_cast<unsigned long long>(page.length),
                static_cast<unsigned long long>(page.object_offset), page.frame);
    }
  }
  batches_.push_back(std::move(batch));
  watch(batches_.back());
  node_->wake();
}

// P5: a completion comes in time, whatever has died. The time of a submission begins when the node
// takes it from the ring, and one that waits for a limit lets those behind it in its lane wait. A
// node that is paused has time to give before and after: its clients' library takes back what it
// can, which is not simulated.
void SimClient::watch(ClientBatch& batch) {
  base::TimeNs taken_by_ns = node_time_ns();
  for (const ClientBatch& open : batches_) {
    if (open.lane == batch.lane) taken_by_ns = std::max(taken_by_ns, open.complete_by_ns);
  }
  batch.complete_by_ns = taken_by_ns + batch.timeout_ns + kFenceGraceNs + kTurnsNs;
  check_in_time(batch.token, link_);
}

void SimClient::check_in_time(std::uint64_t token, const ClientLink* link) {
  if (link_ != link) return;
  const auto open = std::find_if(batches_.begin(), batches_.end(),
                                 [&](const ClientBatch& batch) { return batch.token == token; });
  if (open == batches_.end()) return;
  const base::TimeNs now_ns = node_time_ns();
  if (now_ns >= open->complete_by_ns) {
    return report_.violation("P5", "client %u: batch %llu is not complete in time", number_,
                             static_cast<unsigned long long>(token));
  }
  // Of a pause that goes on nobody knows the end.
  const base::TimeNs left_ns = open->complete_by_ns - now_ns;
  const base::TimeNs after_ns = node_->paused() ? std::max(left_ns, 1 * kMs) : left_ns;
  loop_.after(after_ns, [this, token, link] { check_in_time(token, link); });
}

// ---- completions ----

void SimClient::poll() {
  for (std::uint32_t lane = 0; lane < scenario_.lanes; ++lane) {
    ipc::Completion completion{};
    while (link_->lanes[lane].poll_completion(completion) == ipc::Poll::taken) {
      const auto found =
          std::find_if(batches_.begin(), batches_.end(), [&](const ClientBatch& batch) {
            return batch.token == completion.token && batch.lane == lane;
          });
      if (found == batches_.end()) {
        return report_.violation("P5", "client %u: batch %llu completes a second time", number_,
                                 static_cast<unsigned long long>(completion.token));
      }
      const ClientBatch batch = std::move(*found);
      batches_.erase(found);
      complete(batch, completion);
    }
    if (link_->lanes[lane].broken()) report_.violation("P5", "client %u: a broken lane", number_);
  }
}

void SimClient::complete(const ClientBatch& batch, const ipc::Completion& completion) {
  sweep_ok_ = 0;
  sweep_bytes_ = 0;
  loop_.note(completion.token ^ static_cast<std::uint64_t>(completion.pages_ok) << 32);
  if (log_.on()) {
    log_.line("client %u completes batch %llu: %s, %u pages ok", number_,
              static_cast<unsigned long long>(batch.token),
              std::string(status_name(static_cast<Status>(completion.status))).c_str(),
              completion.pages_ok);
  }
  for (std::uint32_t i = 0; i < batch.pages.size(); ++i) {
    ipc::PageResult result{};
    SIMM_CHECK(link_->lanes[batch.lane].read_result(batch.page_first + i, result) == Status::ok);
    const auto status = static_cast<Status>(result.status);
    check_answer(batch, status);
    complete_page(batch, batch.pages[i], status, result.bytes);
    if (status != Status::ok) continue;
    ++sweep_ok_;
    sweep_bytes_ += (result.bytes + 63) / 64 * 64;
  }
}

// What clients are told is a smaller set than what servers and transports speak.
void SimClient::check_answer(const ClientBatch& batch, Status status) {
  switch (status) {
    case Status::ok:
    case Status::timeout:
    case Status::not_found:
    case Status::unreachable:
    case Status::out_of_memory:
    case Status::no_space:
    case Status::transfer_failed:
    case Status::invalid_argument:
      return;
    default:
      report_.violation("P2", "client %u: opcode %u answered %s", number_,
                        static_cast<unsigned>(batch.opcode),
                        std::string(status_name(status)).c_str());
  }
}

void SimClient::complete_page(const ClientBatch& batch, const ClientPage& page, Status status,
                              std::uint64_t bytes) {
  PageRead read;
  read.key = page.key;
  read.when = batch.when;
  read.lease_ns = batch.lease_ms > 0 ? batch.lease_ms * kMs : scenario_.store.lease_default_ns;
  read.view_bytes = page.length;
  read.object_offset = page.object_offset;
  read.ranged = batch.ranged;
  read.exact_size = batch.exact_size;
  read.immutable = batch.says_immutable || history_.is_replicated(read.key);
  // What is hot of an immutable namespace comes from copies, too.
  const bool may_be_copy = (batch.shared || read.immutable) && !batch.ranged;
  if (batch.opcode == ipc::Opcode::get && may_be_copy) read_copies(read);
  switch (batch.opcode) {
    case ipc::Opcode::put:
      if (!page.payload.matches(frames_.bytes(page.frame, page.length))) {
        report_.violation("P1", "client %u: a put has changed its own page", number_);
      }
      history_.end_put(page.put, status);
      if (status == Status::timeout || status == Status::unreachable) doubt(page.key);
      if (status == Status::ok) settle(page.key);
      break;
    case ipc::Opcode::get:
      if (bytes > page.length) {
        report_.violation("P1", "client %u: %llu bytes into a view of %llu", number_,
                          static_cast<unsigned long long>(bytes),
                          static_cast<unsigned long long>(page.length));
        break;
      }
      history_.end_get(read, status, frames_.bytes(page.frame, bytes));
      break;
    case ipc::Opcode::exists:
      history_.end_exists(read, status, bytes);
      break;
    default:
      history_.end_remove(page.key, page.removal, status);
  }
  if (page.length > 0) frames_.give_back(page.frame, page.length, report_);
}

void SimClient::read_copies(PageRead& read) const {
  if (link_->shared_reads.empty()) return;
  read.linger_ns = scenario_.shared_reads.config.linger_ns;
  read.node = link_->node;
  read.copies = link_->shared_reads;
}

void SimClient::sweep(ipc::Opcode opcode, std::uint32_t name_space, SweptPut put) {
  ClientBatch batch;
  batch.opcode = opcode;
  batch.name_space = name_space;
  batch.replace = true;
  batch.lease_ms = 1;
  batch.timeout_ns = put.timeout_ns;
  batch.ttl_ms = put.ttl_ms;
  const bool moves = opcode == ipc::Opcode::put || opcode == ipc::Opcode::get;
  batch.pages.resize(moves ? put.pages : scenario_.keys);
  for (std::uint32_t i = 0; i < batch.pages.size(); ++i) {
    batch.pages[i].key = key_of(name_space, i);
    if (!moves) continue;
    batch.pages[i].frame = frames_.take(report_);
    batch.pages[i].length = opcode == ipc::Opcode::put ? put.bytes : scenario_.frame_bytes;
    if (opcode == ipc::Opcode::put && history_.is_immutable(batch.pages[i].key)) {
      batch.pages[i].length = draw_length(batch.pages[i].key);
    }
  }
  submit(std::move(batch));
}

void SimClient::read_shared(const SharedSweep& sweep) {
  ClientBatch batch;
  batch.opcode = ipc::Opcode::get;
  batch.name_space = kImmutableNameSpace;
  batch.shared = true;
  batch.says_immutable = sweep.says_immutable;
  batch.lease_ms = sweep.lease_ms;
  batch.timeout_ns = sweep.timeout_ns;
  for (std::uint32_t i = 0; i < sweep.pages && frames_.has_free(1); ++i) {
    ClientPage& page = batch.pages.emplace_back();
    page.key = key_of(kImmutableNameSpace, i);
    page.frame = frames_.take(report_);
    page.length = scenario_.frame_bytes;
  }
  submit(std::move(batch));
}

}  // namespace simm::sim
