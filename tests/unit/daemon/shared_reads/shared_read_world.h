// A node for tests of shared reads: one or more agents, each with an engine and a shared-read shard
// joined by a local mesh, before other daemons that hold whatever the test puts there. One thread;
// turns are given by hand.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "daemon/base/manual_clock.h"
#include "daemon/shared_reads/shared_read_server.h"
#include "daemon/transport/local/local_mesh.h"
#include "daemon/transport/region_mover.h"

namespace shared_read_world {

using namespace simm;
using Bytes = std::vector<std::byte>;
using Name = std::tuple<std::uint64_t, std::uint64_t, std::string>;  // tenant, namespace, key

// What the other daemons hold, and what has crossed the network.
struct Remote {
  std::map<Name, Bytes> objects;
  std::uint64_t sent_bytes = 0;
  std::uint64_t get_pages = 0;
  std::uint64_t exists_pages = 0;
  std::uint64_t exists_requests = 0;
  std::uint32_t exists_lease_ms = 0;                   // of the last one
  std::vector<std::uint32_t> leases_ms;                // that those pages asked for
  std::function<bool()> may_go = [] { return true; };  // asked for each step of each request
  bool holds_answers = false;                          // answers nothing but cancels
  bool ignores_cancels = false;                        // not even those
  std::uint64_t moved = 0;                             // on the ways to them
  std::map<std::string, Status> failures;              // keys whose gets end so
  // Something has changed; empty: it was removed.
  std::function<void(const Name&, const Bytes&)> on_write = [](const Name&, const Bytes&) {};
};

// An engine's way to them.
class RemotePath final : public transport::Requester {
public:
  explicit RemotePath(Remote& remote) : remote_(remote) {}
  void connect(transport::RequesterEvents& events, transport::RegionFaults*) noexcept override {
    events_ = &events;
    posts_.reserve(1024);
  }

  Status post(transport::Route, transport::RequestToken token,
              const transport::Request& request) noexcept override {
    posts_.push_back({token, request, false, false, {}});
    if (request.header.opcode == ipc::Opcode::exists) {
      ++remote_.exists_requests;
      remote_.exists_lease_ms = request.header.lease_ms;
    }
    return Status::ok;
  }
  void cancel(transport::Route, transport::RequestToken token) noexcept override {
    for (Post& post : posts_) post.cancelled |= post.token == token;
  }
  void reset(transport::Route, transport::RequestToken token) noexcept override {
    for (Post& post : posts_) post.reset |= post.token == token;
  }
  std::uint64_t moved(transport::Route) const noexcept override { return remote_.moved; }
  int do_work() noexcept override {
    int work = 0;
    for (std::size_t i = 0; i < posts_.size();) {
      Post& post = posts_[i];
      const bool cancelled = post.cancelled && !remote_.ignores_cancels;
      const bool waits = remote_.holds_answers && !cancelled && !post.reset;
      if (waits || !remote_.may_go()) {
        ++i;
        continue;
      }
      ++work;
      if (post.replies.empty() && !post.reset) {  // it takes effect now, and is answered later
        for (const auto& page : post.request.pages) {
          post.replies.push_back(cancelled ? transport::PageReply{Status::cancelled, 0}
                                           : serve(post.request.header, page));
        }
        if (!remote_.may_go()) continue;
      }
      const Post over = std::move(post);
      posts_.erase(posts_.begin() + static_cast<std::ptrdiff_t>(i));
      if (over.reset) {
        events_->on_fenced(over.token, transport::FenceCause::reset);
      } else {
        events_->on_reply(over.token, over.replies);
      }
    }
    return work;
  }

private:
  struct Post {
    transport::RequestToken token;
    transport::Request request;
    bool cancelled = false;
    bool reset = false;
    std::vector<transport::PageReply> replies;  // empty: not served yet
  };

  transport::PageReply serve(const transport::RequestHeader& header,
                             const transport::PageRequest& page) {
    const Name name{header.tenant.value, header.name_space.value,
                    std::string(page.key, page.key_bytes)};
    const auto found = remote_.objects.find(name);
    if (header.opcode == ipc::Opcode::remove) {
      if (found == remote_.objects.end()) return {Status::not_found, 0};
      remote_.objects.erase(found);
      remote_.on_write(name, {});
      return {Status::ok, 0};
    }
    if (header.opcode == ipc::Opcode::put) {
      const std::byte* from = page.slice.region->base + page.slice.offset;
      remote_.objects[name] = Bytes(from, from + page.slice.length);
      remote_.on_write(name, remote_.objects[name]);
      return {Status::ok, page.slice.length};
    }
    if (header.opcode == ipc::Opcode::exists) {
      ++remote_.exists_pages;
      if (found == remote_.objects.end()) return {Status::not_found, 0};
      return {Status::ok, found->second.size()};
    }
    ++remote_.get_pages;
    remote_.leases_ms.push_back(header.lease_ms);
    const auto failure = remote_.failures.find(std::get<2>(name));
    if (failure != remote_.failures.end()) return {failure->second, 0};
    if (found == remote_.objects.end()) return {Status::not_found, 0};
    const Bytes& bytes = found->second;
    if (header.exact_size && bytes.size() != page.slice.length) return {Status::size_mismatch, 0};
    if (bytes.size() > page.slice.length) return {Status::invalid_argument, 0};
    std::memcpy(page.slice.region->base + page.slice.offset, bytes.data(), bytes.size());
    remote_.sent_bytes += bytes.size();
    return {Status::ok, bytes.size()};
  }

  Remote& remote_;
  transport::RequesterEvents* events_ = nullptr;
  std::vector<Post> posts_;
};

struct AllRemote final : engine::Placement {
  base::Epoch epoch() const noexcept override { return 1; }
  transport::Route route(base::Slot) const noexcept override { return {base::PeerId{1}, 0}; }
};

// Copies as the real one does, but memory of a process may fail, or let a copy hang.
class FaultyMover final : public transport::Mover {
public:
  transport::MoveProgress step(transport::Move& move, std::uint64_t bytes_max) noexcept override {
    if (hangs && hangs(*move.slice.region)) return transport::MoveProgress::waiting;
    if (fails && fails(*move.slice.region)) {
      move.status = Status::transfer_failed;
      return transport::MoveProgress::done;
    }
    return mover_.step(move, bytes_max);
  }
  bool stop(transport::Move& move) noexcept override { return mover_.stop(move); }
  int do_work() noexcept override { return mover_.do_work(); }

  std::function<bool(const memory::Region&)> hangs;
  std::function<bool(const memory::Region&)> fails;

private:
  transport::RegionMover mover_;
};

// Heap allocations of this process so far.
std::uint64_t allocations() noexcept;

// A batch of one process, with memory of its own.
struct Ask {
  std::vector<std::string> keys;
  Bytes memory;
  memory::Region region;
  std::uint64_t view_bytes = 0;
  bool done = false;
  Status status = Status::ok;
  std::vector<transport::PageReply> replies;
  base::TimeNs done_ns = 0;

  std::span<std::byte> view(std::size_t page) {
    return std::span(memory).subspan(page * view_bytes, view_bytes);
  }
  Bytes got(std::size_t page) {
    const auto bytes = view(page).first(replies[page].bytes);
    return {bytes.begin(), bytes.end()};
  }
};

struct WorldConfig {
  std::uint32_t agents = 1;
  std::uint64_t memory_bytes = 1 << 20;  // of each shard
  shared_reads::SharedReadConfig shared_reads;
};

class World final : public engine::OperationEvents {
public:
  explicit World(const WorldConfig& config = {}) : config_(config) {
    transport::LocalMeshConfig mesh;
    mesh.credits = 32;
    mesh.peer = engine::kSharedReads;
    mesh.responder.bytes_per_request = 1024;
    std::vector<transport::LocalMember> members(config.agents, {nullptr, &mover});
    mesh_ = std::make_unique<transport::LocalMesh>(mesh, clock, members);
    for (std::uint32_t i = 0; i < config.agents; ++i) add_agent(i);
  }
  ~World() override { audit(); }

  // One turn of one agent.
  int turn(std::uint32_t agent) {
    Agent& a = *agents_[agent];
    const std::uint64_t allocated = allocations();
    int work = mesh_->responder(agent).do_work();
    work += a.shared_reads->do_work();
    work += mesh_->responder(agent).run_moves();
    shared_read_allocations += allocations() - allocated;
    return work + a.engine->do_work();
  }
  int turn() {
    int work = 0;
    for (std::uint32_t i = 0; i < config_.agents; ++i) work += turn(i);
    return work;
  }
  // Until nothing happens any more.
  void settle() {
    for (int turns = 0; turn() > 0; ++turns) REQUIRE(turns < 100'000);
  }
  void pass(base::TimeNs by_ns) {
    for (base::TimeNs passed = 0; passed < by_ns; passed += base::kNsPerMs) {
      clock.advance_ns(base::kNsPerMs);
      settle();
    }
  }

  struct Options {
    std::uint32_t agent = 0;
    std::uint64_t tenant = 1;
    std::uint64_t name_space = 2;
    bool shared = true;
    bool exact = false;
    bool immutable = false;
    std::uint32_t lease_ms = 0;
    base::TimeNs timeout_ns = base::kNsPerSecond;
    base::TimeNs patience_ns = 0;
  };

  Ask& ask(ipc::Opcode opcode, std::vector<std::string> keys, std::uint64_t view_bytes,
           const Options& options, int fill = 0xee) {
    Ask& added = *asks_.emplace_back(std::make_unique<Ask>());
    added.keys = std::move(keys);
    added.view_bytes = view_bytes;
    added.memory.assign(added.keys.size() * view_bytes, static_cast<std::byte>(fill));
    added.region.base = added.memory.data();
    added.region.length = added.memory.size();
    added.region.can_fault = false;
    engine::Engine& engine = *agents_[options.agent]->engine;
    engine::Operation* operation = engine.allocate();
    REQUIRE(operation != nullptr);
    operation->header.opcode = opcode;
    operation->header.put_mode = ipc::PutMode::replace;
    operation->header.shared_read = options.shared;
    operation->header.exact_size = options.exact;
    operation->header.immutable = options.immutable;
    operation->header.lease_ms = options.lease_ms;
    operation->header.tenant = {options.tenant};
    operation->header.name_space = {options.name_space};
    operation->header.deadline_ns = clock.now_ns() + options.timeout_ns;
    operation->header.patience_ns = options.patience_ns;
    operation->owner = this;
    operation->owner_data = asks_.size() - 1;
    operation->page_count = static_cast<std::uint32_t>(added.keys.size());
    for (std::size_t i = 0; i < added.keys.size(); ++i) {
      transport::PageRequest& page = operation->pages[i];
      page = {};
      page.key = added.keys[i].data();
      page.key_bytes = static_cast<std::uint32_t>(added.keys[i].size());
      page.index = static_cast<std::uint16_t>(i);
      if (view_bytes > 0) page.slice = {&added.region, i * view_bytes, view_bytes};
    }
    engine.submit(*operation);
    return added;
  }
  Ask& get(std::vector<std::string> keys, std::uint64_t view_bytes, const Options& options) {
    return ask(ipc::Opcode::get, std::move(keys), view_bytes, options);
  }
  Ask& get(std::vector<std::string> keys, std::uint64_t view_bytes) {
    return get(std::move(keys), view_bytes, Options{});
  }

  void on_complete(engine::Operation& operation) noexcept override {
    Ask& over = *asks_[operation.owner_data];
    CHECK_FALSE(over.done);
    over.done = true;
    over.status = operation.status;
    over.done_ns = clock.now_ns();
    over.replies.assign(operation.replies.begin(),
                        operation.replies.begin() + operation.page_count);
    if (on_done) on_done(over);
  }

  void store(const std::string& key, Bytes bytes, std::uint64_t tenant = 1,
             std::uint64_t name_space = 2) {
    remote.objects[Name{tenant, name_space, key}] = std::move(bytes);
  }
  static Bytes pattern(std::uint64_t seed, std::uint64_t length) {
    Bytes made(length);
    for (std::uint64_t i = 0; i < length; ++i) {
      made[i] = static_cast<std::byte>((seed * 131 + i * 7 + (i >> 8) * 13) & 0xff);
    }
    return made;
  }

  void audit() {
    for (const auto& agent : agents_) {
      const char* wrong = agent->shared_reads->audit();
      CHECK_MESSAGE(wrong == nullptr, (wrong == nullptr ? "" : wrong));
    }
  }
  shared_reads::SharedReadServer& shared_reads(std::uint32_t agent = 0) {
    return *agents_[agent]->shared_reads;
  }
  engine::Engine& engine(std::uint32_t agent = 0) { return *agents_[agent]->engine; }
  std::uint64_t count(const std::string& name) const {
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < config_.agents; ++i) {
      sum += counters.value("shared_reads." + std::to_string(i) + "." + name);
    }
    return sum;
  }

  base::ManualClock clock{1000 * base::kNsPerSecond};
  base::CounterSet counters;
  Remote remote;
  std::function<void(Ask&)> on_done;
  FaultyMover mover;
  std::uint64_t shared_read_allocations = 0;  // by turns of shared reads

private:
  struct Agent {
    std::unique_ptr<RemotePath> path;
    std::unique_ptr<RemotePath> own;  // of objects of this daemon: there are none
    std::unique_ptr<engine::PeerRequesters> requesters;
    std::unique_ptr<engine::Engine> engine;
    Bytes memory;
    std::unique_ptr<shared_reads::SharedReadServer> shared_reads;
  };

  void add_agent(std::uint32_t number) {
    Agent& added = *agents_.emplace_back(std::make_unique<Agent>());
    added.path = std::make_unique<RemotePath>(remote);
    added.own = std::make_unique<RemotePath>(remote);
    added.requesters = std::make_unique<engine::PeerRequesters>(*added.own, 2);
    added.requesters->add(*added.path);
    added.requesters->add(mesh_->requester(number));
    added.requesters->lead({1}, added.path.get());
    added.requesters->lead(engine::kSharedReads, &mesh_->requester(number));
    engine::EngineConfig config;
    config.operations = 64;
    config.fetches = config_.shared_reads.operations();
    config.requests = 4 * config.operations;
    if (config.operations <= config.fetches) config.operations += config.fetches;
    added.engine = std::make_unique<engine::Engine>(config, clock, engine::PageHasher(42),
                                                    placement_, *added.requesters);
    added.engine->use_shared_reads(static_cast<std::uint16_t>(config_.agents), marks_);
    added.path->connect(*added.engine, nullptr);
    added.own->connect(*added.engine, nullptr);
    mesh_->requester(number).connect(*added.engine, nullptr);
    added.memory.resize(config_.memory_bytes);
    counters.begin_writer();
    auto made = shared_reads::SharedReadServer::create(
        config_.shared_reads,
        {*added.engine, clock, marks_, added.memory, nullptr,
         shared_reads::SharedReadCounters(counters, "shared_reads." + std::to_string(number))});
    REQUIRE(made.has_value());
    added.shared_reads = std::move(made).value();
    mesh_->responder(number).connect(*added.shared_reads);
  }

  const WorldConfig config_;
  AllRemote placement_;
  engine::WriteMarks marks_;
  std::unique_ptr<transport::LocalMesh> mesh_;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::vector<std::unique_ptr<Ask>> asks_;
};

}  // namespace shared_read_world
