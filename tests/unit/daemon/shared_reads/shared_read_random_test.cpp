// Random readers, writers of this node and of others, slow owners and deadlines, against a model of
// every value that the owners ever held. In one namespace keys have one value for ever, and most
// readers know it. In another one values change, and some readers say that they do not. Repeat one
// with SIMM_SEED=<seed> SIMM_ROUNDS=1; SIMM_ROUNDS=<n> runs more of them.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "daemon/base/random.h"
#include "tests/support/number_from.h"
#include "tests/unit/daemon/shared_reads/shared_read_world.h"

namespace shared_read_random_test {

using namespace shared_read_world;
using base::kNsPerMs;
using ipc::Opcode;

using simm::test_support::number_from;
using simm::test_support::rounds_from;

// What the owners held under one name, one after the other; the first is: nothing.
struct Register {
  struct State {
    Bytes bytes;  // empty: nothing
    base::TimeNs from_ns = 0;
  };
  std::vector<State> states = {State{}};
  std::size_t floor = 0;  // no reader of this node may see an earlier one any more
};

constexpr std::uint64_t kMutable = 2;
constexpr std::uint64_t kImmutable = 3;
constexpr std::uint64_t kCalledImmutable = 4;  // by some readers, wrongly

class Game {
public:
  explicit Game(std::uint64_t seed) : random_(seed), world_(draw_config()) {
    linger_ns_ = config_.shared_reads.linger_ns;
    world_.remote.may_go = [this] { return calm_ || !random_.one_in(slowness_); };
    world_.remote.on_write = [this](const Name& name, const Bytes& bytes) {
      registers_[name].states.push_back({bytes, world_.clock.now_ns()});
    };
    world_.on_done = [this](Ask& ask) { end(ask); };
    world_.mover.hangs = [this](const memory::Region&) { return !calm_ && random_.one_in(3); };
  }

  void step() {
    switch (random_.below(10)) {
      case 0:
      case 1:
        return read();
      case 2:
        return random_.one_in(3) ? write() : read();
      case 3:
        if (random_.one_in(4)) write_elsewhere();
        return;
      case 4:
        world_.clock.advance_ns(random_.below(20 * kNsPerMs));
        if (random_.one_in(200)) world_.clock.advance_ns(linger_ns_);
        if (random_.one_in(50)) world_.remote.holds_answers = !world_.remote.holds_answers;
        return;
      default:
        world_.turn(static_cast<std::uint32_t>(random_.below(config_.agents)));
        if (random_.one_in(20)) world_.audit();
    }
  }

  void finish() {
    calm_ = true;
    world_.remote.holds_answers = false;
    world_.pass(3000 * kNsPerMs);
    CHECK(open_.empty());
    CHECK(hits_ > 0);
    for (std::uint32_t i = 0; i < config_.agents; ++i) {
      CHECK(world_.shared_reads(i).requests_under_way() == 0);
      CHECK(world_.engine(i).in_flight() == 0);
    }
  }
  std::uint64_t shared() const { return world_.count("joined") + world_.count("hits"); }

private:
  struct Open {
    Opcode opcode = Opcode::get;
    std::uint64_t tenant = 1;
    std::uint64_t name_space = kMutable;
    bool immutable = false;
    base::TimeNs from_ns = 0;
    base::TimeNs by_ns = 0;
    std::vector<std::size_t> states;  // of each key: how many there were, or the floor of a read
    Bytes value;                      // of a put
  };

  const WorldConfig& draw_config() {
    config_.agents = static_cast<std::uint32_t>(1 + random_.below(3));
    config_.memory_bytes = 2'000 + random_.below(40'000);
    config_.shared_reads.shared_reads_max = static_cast<std::uint32_t>(1 + random_.below(20));
    config_.shared_reads.waiters_max = static_cast<std::uint32_t>(1 + random_.below(40));
    config_.shared_reads.fetches_max = static_cast<std::uint32_t>(1 + random_.below(4));
    config_.shared_reads.fetch_pages_max = static_cast<std::uint32_t>(1 + random_.below(5));
    config_.shared_reads.fetch_bytes_max = 1 + random_.below(8'000);
    config_.shared_reads.serves_per_turn = static_cast<std::uint32_t>(1 + random_.below(10));
    config_.shared_reads.pages_per_turn = static_cast<std::uint32_t>(1 + random_.below(64));
    config_.shared_reads.tenants_max = static_cast<std::uint32_t>(1 + random_.below(4));
    config_.shared_reads.linger_ns = (1 + random_.below(300)) * kNsPerMs;
    config_.shared_reads.confirm_for_ns = random_.below(4 * config_.shared_reads.linger_ns);
    config_.shared_reads.evictions_per_page_max = static_cast<std::uint32_t>(random_.below(4));
    slowness_ = 2 + random_.below(4);
    keys_ = 1 + random_.below(8);
    tenants_ = 1 + random_.below(3);
    if (!random_.one_in(3)) only_name_space_ = kMutable + random_.below(3);
    return config_;
  }

  // For a key of that namespace.
  Bytes new_value(std::uint64_t name_space, const std::string& key) {
    if (name_space == kImmutable) return World::pattern(std::uint64_t(key.back()), 700);
    // Of one length: that there is a value says nothing else.
    if (name_space == kCalledImmutable) return World::pattern(++last_value_, 700);
    return World::pattern(++last_value_, 200 + random_.below(1800));
  }
  std::string some_key() { return "key" + std::to_string(random_.below(keys_)); }
  std::uint64_t some_name_space() {
    return only_name_space_ != 0 ? only_name_space_ : kMutable + random_.below(3);
  }
  static Name name_of(const Open& open, const std::string& key) {
    return {open.tenant, open.name_space, key};
  }

  void read() {
    std::vector<std::string> keys(1 + random_.below(6));
    for (std::string& key : keys) key = some_key();
    const std::uint64_t view_bytes = random_.one_in(4) ? 2000 : 2000 + random_.below(500);
    submit(Opcode::get, some_name_space(), std::move(keys), view_bytes, {});
  }
  void write() {
    const std::uint64_t name_space = some_name_space();
    const std::string key = some_key();
    if (random_.one_in(3)) return submit(Opcode::remove, name_space, {key}, 0, {});
    const Bytes value = new_value(name_space, key);
    submit(Opcode::put, name_space, {key}, value.size(), value);
  }
  void write_elsewhere() {
    const Name name{1 + random_.below(tenants_), some_name_space(), some_key()};
    const Bytes value =
        random_.one_in(3) ? Bytes{} : new_value(std::get<1>(name), std::get<2>(name));
    if (value.empty()) {
      world_.remote.objects.erase(name);
    } else {
      world_.remote.objects[name] = value;
    }
    world_.remote.on_write(name, value);
  }

  void submit(Opcode opcode, std::uint64_t name_space, std::vector<std::string> keys,
              std::uint64_t view_bytes, const Bytes& value) {
    if (open_.size() >= 20) return;
    World::Options options;
    options.agent = static_cast<std::uint32_t>(random_.below(config_.agents));
    options.tenant = 1 + random_.below(tenants_);
    options.name_space = name_space;
    if (name_space == kImmutable) options.immutable = !random_.one_in(4);
    if (name_space == kCalledImmutable) options.immutable = random_.one_in(2);
    options.lease_ms = random_.one_in(10) ? 1000 : 0;
    options.shared = !random_.one_in(8);
    options.timeout_ns = (5 + random_.below(500)) * kNsPerMs;
    Open open;
    open.opcode = opcode;
    open.tenant = options.tenant;
    open.name_space = options.name_space;
    open.immutable = options.immutable;
    open.from_ns = world_.clock.now_ns();
    open.by_ns = open.from_ns + options.timeout_ns + 100 * kNsPerMs;
    open.value = value;
    for (const std::string& key : keys) {
      const Register& entry = registers_[name_of(open, key)];
      open.states.push_back(opcode == Opcode::get ? entry.floor : entry.states.size());
    }
    Ask& ask = world_.ask(opcode, std::move(keys), view_bytes, options);
    std::copy(value.begin(), value.end(), ask.memory.begin());
    open_.emplace(&ask, std::move(open));
  }

  void end(Ask& ask) {
    const Open open = open_.at(&ask);
    open_.erase(&ask);
    for (std::size_t page = 0; page < ask.keys.size(); ++page) {
      Register& entry = registers_[name_of(open, ask.keys[page])];
      const transport::PageReply& reply = ask.replies[page];
      if (open.opcode == Opcode::get) {
        check_read(entry, open, open.states[page], reply, ask.got(page));
        const auto behind = ask.view(page).subspan(reply.bytes);
        CHECK((reply.status != Status::ok ||
               std::count(behind.begin(), behind.end(), std::byte{0xee}) ==
                   static_cast<std::ptrdiff_t>(behind.size())));
      } else if (reply.status == Status::ok) {
        raise_floor(entry, open, open.states[page]);
      }
    }
  }

  // A write of this node is complete: what it superseded is over for its readers.
  static void raise_floor(Register& entry, const Open& open, std::size_t first) {
    std::size_t effect = first;  // of a remove: not earlier
    while (open.opcode == Opcode::put && entry.states[effect].bytes != open.value) ++effect;
    entry.floor = std::max(entry.floor, effect);
  }

  void check_read(const Register& entry, const Open& open, std::size_t floor,
                  const transport::PageReply& reply, const Bytes& got) {
    if (reply.status == Status::timeout) return;
    const bool hit = reply.status == Status::ok;
    CHECK((hit || reply.status == Status::not_found));
    hits_ += hit ? 1u : 0u;
    bool legal = false;
    for (std::size_t i = floor; i < entry.states.size(); ++i) {
      // Who says of changing values that they do not change gets some value that there was.
      const bool held_until_then = (open.immutable && open.name_space == kCalledImmutable) ||
                                   i + 1 == entry.states.size() ||
                                   entry.states[i + 1].from_ns + linger_ns_ >= open.from_ns;
      legal |= held_until_then && entry.states[i].bytes == got;
    }
    CHECK_MESSAGE(legal, (hit ? "a value that was over" : "a miss without a reason"));
  }

  base::SeededRandom random_;
  WorldConfig config_;
  std::uint64_t slowness_ = 1;
  std::uint64_t keys_ = 1;
  std::uint64_t tenants_ = 1;
  std::uint64_t only_name_space_ = 0;  // 0: all three
  bool calm_ = false;
  base::TimeNs linger_ns_ = 0;
  std::uint64_t last_value_ = 0;
  std::uint64_t hits_ = 0;
  std::map<Name, Register> registers_;
  std::map<const Ask*, Open> open_;
  World world_;
};

TEST_CASE(
    "random reads through shared reads return what an owner held in time, and everything ends") {
  const std::uint64_t seed = number_from("SIMM_SEED", std::random_device{}());
  const std::uint64_t rounds = rounds_from("SIMM_ROUNDS", 100);
  std::uint64_t shared = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    INFO("repeat: SIMM_SEED=" << seed + round << " SIMM_ROUNDS=1 unit_shared_reads -tc='random*'");
    Game game(seed + round);
    for (int i = 0; i < 3000; ++i) game.step();
    game.finish();
    shared += game.shared();
  }
  CHECK(shared > 0);
}

}  // namespace shared_read_random_test
