#include "daemon/cluster/cluster_codec.h"

#include <capnp/dynamic.h>
#include <capnp/message.h>
#include <capnp/serialize.h>
#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <span>
#include <string>

#include "cluster.capnp.h"
#include "daemon/cluster/hello/hello_wire.h"
#include "ipc/capnp_packet.h"

#include "tests/unit/daemon/cluster/cluster_samples.h"

namespace cluster_codec_test {

using namespace cluster_samples;
using simm::Expected;
using simm::Status;
using Packet = std::vector<std::byte>;

SlotMapPtr sample_map() {
  const SlotMapPtr first = slot_map_of(7, members(3), nullptr, nullptr);
  auto more = members(5);
  more[0].identity.role = ClusterRole::node;
  more[0].grace_ms = 120'000;
  more[0].back_since = 8;
  return build_slot_map(9, more, first.get(), first.get(),
                        {{21, 22}, {{{23, 24}, 6}, {{25, 26}, kEpochMax}}}, first->digest())
      .value();
}

// With a member that has gone, one that is new, and slots of nobody.
MapDelta sample_delta() {
  const SlotMapPtr map = sample_map();
  auto others = members(6);
  others.erase(others.begin() + 1);
  MapDelta delta = delta_of(*map, *slot_map_of(10, others, map.get(), map.get()));
  delta.slots.push_back({base::kSlotCount - 1, {}});
  delta.follows = map->digest();
  return delta;
}

// With something in each field of its load; `buckets`: how many of the histogram's are sent.
Heartbeat loaded_heartbeat(std::size_t buckets) {
  Heartbeat heartbeat{4, 17, 1000, 2 * kGiB};
  heartbeat.load_ms = 77;
  std::uint64_t value = 100;
  for (const base::LoadField& field : base::kLoadFields) heartbeat.load.*field.sum = value++;
  if (buckets > 0) heartbeat.load.batch_ns[buckets - 1] = value;
  return heartbeat;
}

std::vector<MemberMessage> member_messages() {
  return {
      Join{"10.1.2.3", 30002, 4, 3 * kGiB, 17, true, true, 120'000, {21, 22}, 99},
      Join{},
      Heartbeat{4, 17, 1000, 2 * kGiB, true, std::nullopt, 99},
      Heartbeat{4, 17, 1000, 2 * kGiB, false, MemberSet{}},
      Heartbeat{4, 17, 1000, 2 * kGiB, false, MemberSet{0x1'8001}},
      Heartbeat{4, 17, 1000, 2 * kGiB, true, MemberSet{}.set()},
      Heartbeat{4, 17, 1000, 2 * kGiB, true, MemberSet{0x80'0001} << 321 | MemberSet{6}},
      Heartbeat{4, 17, 1000, 2 * kGiB, true, std::nullopt, 99, true},
      loaded_heartbeat(0),
      loaded_heartbeat(13),
      loaded_heartbeat(base::Load::kBuckets),
      Heartbeat{4, 17, 1000, 2 * kGiB, false, std::nullopt, 99, false, true},
      MapReport{sample_map()},
      MapReport{slot_map_of(1, {}, nullptr, nullptr)},
      Leave{},
      Question{3, Topic::peers, "storage/a"},
      Question{4, Topic::drain, "storage/a", kDrainMsMax, true, true},
      Question{5, Topic::cancel_drain, "a"},
      Answer{3, Status::not_found, "{\n \"a\": 1\n}"},
  };
}

std::vector<ManagerMessage> manager_messages() {
  return {
      Joined{100'000'000, 17, 6},
      Refused{true, "another incarnation has taken its place"},
      Refused{false, "this manager stands by", true},
      HeartbeatAck{4, 18, 6},
      HeartbeatAck{5, 18, 6, 250'000'000},
      MapPush{sample_map()},
      sample_delta(),
      MapDelta{},
      MapWanted{},
      Question{3, Topic::stats, ""},
      Question{6, Topic::drain, "storage/a", 60'000, true},
      Answer{3, Status::ok, "{}"},
  };
}

ManagerState sample_state() {
  return {sample_map(), {members(2)[0].identity, members(2)[1].identity}};
}

std::vector<Packet> all_packets() {
  std::vector<Packet> packets;
  for (const auto& message : member_messages()) packets.push_back(encode(message).value());
  for (const auto& message : manager_messages()) packets.push_back(encode(message).value());
  packets.push_back(encode(sample_state()).value());
  return packets;
}

// Every decoder over the same bytes; they must return, with a value or an error.
std::size_t decode_all(std::span<const std::byte> packet) {
  std::size_t accepted = 0;
  accepted += decode_member_message(packet).has_value();
  accepted += decode_manager_message(packet).has_value();
  accepted += decode_manager_state(packet).has_value();
  return accepted;
}

// Fields of the format by name: "Join.port". Those of void say no more than that they are there.
using FieldNames = std::set<std::string>;

std::string name_of(capnp::StructSchema in, capnp::StructSchema::Field field) {
  return std::string(in.getShortDisplayName().cStr()) + "." + field.getProto().getName().cStr();
}

capnp::Type element_of(capnp::Type type) {
  return type.isList() ? type.asList().getElementType() : type;
}

void add_all(capnp::StructSchema in, FieldNames& names) {
  for (const auto field : in.getFields()) {
    if (field.getType().isVoid() || !names.insert(name_of(in, field)).second) continue;
    const capnp::Type element = element_of(field.getType());
    if (element.isStruct()) add_all(element.asStruct(), names);
  }
}

// Those of which the message says something.
void add_said(capnp::DynamicStruct::Reader from, FieldNames& names) {
  for (const auto field : from.getSchema().getFields()) {
    if (!from.has(field, capnp::HasMode::NON_DEFAULT)) continue;
    names.insert(name_of(from.getSchema(), field));
    const capnp::Type type = field.getType();
    if (type.isStruct()) add_said(from.get(field).as<capnp::DynamicStruct>(), names);
    if (!type.isList() || !element_of(type).isStruct()) continue;
    for (const auto element : from.get(field).as<capnp::DynamicList>()) {
      add_said(element.as<capnp::DynamicStruct>(), names);
    }
  }
}

template <typename Root>
void add_said(const Packet& packet, FieldNames& names) {
  const auto words = simm::ipc::packet::words_of(packet, kClusterMessageBytesMax);
  capnp::FlatArrayMessageReader reader(kj::arrayPtr(words.data(), words.size()));
  add_said(capnp::DynamicStruct::Reader(reader.getRoot<Root>()), names);
}

// The union's tag is the low half of the first data word, after 8 bytes of segment table and the
// root pointer.
void set_tag(Packet& packet, std::uint16_t value) {
  std::memcpy(packet.data() + 16, &value, sizeof value);
}

}  // namespace cluster_codec_test

TEST_CASE("every cluster message survives the way through its codec") {
  using namespace cluster_codec_test;
  for (const MemberMessage& message : member_messages()) {
    CHECK(decode_member_message(encode(message).value()).value() == message);
  }
  for (const ManagerMessage& message : manager_messages()) {
    CHECK(decode_manager_message(encode(message).value()).value() == message);
  }
  const ManagerState state = decode_manager_state(encode(sample_state()).value()).value();
  CHECK(*state.map == *sample_state().map);
  CHECK(state.retired == sample_state().retired);
}

TEST_CASE("each field of the format is sent by a sample of this test") {
  using namespace cluster_codec_test;
  FieldNames all;
  add_all(capnp::Schema::from<schema::MemberMessage>(), all);
  add_all(capnp::Schema::from<schema::ManagerMessage>(), all);
  add_all(capnp::Schema::from<schema::ManagerState>(), all);
  FieldNames said;
  for (const auto& message : member_messages()) {
    add_said<schema::MemberMessage>(encode(message).value(), said);
  }
  for (const auto& message : manager_messages()) {
    add_said<schema::ManagerMessage>(encode(message).value(), said);
  }
  add_said<schema::ManagerState>(encode(sample_state()).value(), said);
  for (const std::string& name : all) CHECK_MESSAGE(said.contains(name), name);
}

TEST_CASE("of a load that a newer daemon sends what is known here is taken") {
  using namespace cluster_codec_test;
  capnp::MallocMessageBuilder builder;
  auto to = builder.initRoot<schema::MemberMessage>().initHeartbeat();
  to.setLoadMs(5);
  constexpr auto kKnown = static_cast<unsigned>(base::kLoadFields.size());
  auto fields = to.initLoad(kKnown + 3);
  for (unsigned i = 0; i < fields.size(); ++i) fields.set(i, i + 1);
  auto buckets = to.initBatchNs(static_cast<unsigned>(base::Load::kBuckets) + 5);
  for (unsigned i = 0; i < buckets.size(); ++i) buckets.set(i, 9);
  const auto words = capnp::messageToFlatArray(builder);
  const auto bytes = words.asBytes();
  const auto message =
      decode_member_message(std::as_bytes(std::span(bytes.begin(), bytes.size()))).value();
  const base::Load& load = std::get<Heartbeat>(message).load;
  for (unsigned i = 0; i < kKnown; ++i) CHECK(load.*base::kLoadFields[i].sum == i + 1);
  for (const std::uint64_t count : load.batch_ns) CHECK(count == 9);
}

TEST_CASE("the largest map there can be fits a message and a manager's state") {
  using namespace cluster_codec_test;
  std::vector<MapMember> longest;
  for (std::uint32_t i = 0; i < kMembersMax; ++i) {
    std::string name = std::to_string(i);
    name.insert(0, kNameBytesMax - name.size(), 'n');
    MapMember large = member(name, i + 1);
    large.address = std::string(kAddressBytesMax, 'a');
    longest.push_back(large);
  }
  // A tenure for every slot.
  std::vector<SlotOwner> owners(base::kSlotCount);
  for (std::uint32_t slot = 0; slot < base::kSlotCount; ++slot) {
    owners[slot] = {static_cast<MemberIndex>(slot % kMembersMax), 1 + slot / kMembersMax};
  }
  MapLife life{{1, 1}, {}};
  while (life.ancestors.size() < kAncestorsMax) {
    life.ancestors.push_back({{2, life.ancestors.size()}, kEpochMax});
  }
  const SlotMapPtr map = SlotMap::make(1 << 20, longest, owners, life).value();
  life.ancestors.push_back({{3, 3}, 1});
  CHECK(SlotMap::make(1 << 20, longest, owners, life).status() == Status::invalid_argument);
  CHECK(decode_manager_message(encode(ManagerMessage(MapPush{map})).value()).value() ==
        ManagerMessage(MapPush{map}));
  ManagerState state{map, std::vector<DaemonIdentity>(kRetiredMax, longest[0].identity)};
  CHECK(*decode_manager_state(encode(state).value()).value().map == *map);
}

TEST_CASE("limits of cluster messages hold on the way out and on the way in") {
  using namespace cluster_codec_test;
  CHECK(encode(MemberMessage(Question{1, Topic::peers, std::string(kTargetBytesMax, 't')})));
  CHECK(encode(MemberMessage(Question{1, Topic::peers, std::string(kTargetBytesMax + 1, 't')}))
            .status() == Status::invalid_argument);
  CHECK(encode(MemberMessage(Answer{1, Status::ok, std::string(kAnswerBytesMax + 1, 'x')}))
            .status() == Status::invalid_argument);
  CHECK(decode_member_message(
      encode(MemberMessage(Answer{1, Status::ok, std::string(kAnswerBytesMax, 'x')})).value()));

  for (const std::uint64_t bad : {kHeartbeatNsMin - 1, kHeartbeatNsMax + 1}) {
    CHECK(decode_manager_message(encode(ManagerMessage(Joined{bad, 1})).value()).status() ==
          Status::invalid_argument);
  }
  const Question unknown{1, static_cast<Topic>(kTopicCount), ""};
  CHECK(decode_member_message(encode(MemberMessage(unknown)).value()).status() ==
        Status::invalid_argument);
  CHECK(decode_member_message(encode(MemberMessage(Join{"a\nb", 1, 1, 1, 0, false})).value())
            .status() == Status::invalid_argument);

  const std::string reason = "two\nlines" + std::string(2 * kReasonBytesMax, 'r');
  const ManagerMessage refused =
      decode_manager_message(encode(ManagerMessage(Refused{false, reason})).value()).value();
  CHECK(std::get<Refused>(refused).reason.substr(0, 9) == "two lines");
  CHECK(std::get<Refused>(refused).reason.size() == kReasonBytesMax);
}

TEST_CASE("a cluster message of a newer version is incompatible, not malformed") {
  using namespace cluster_codec_test;
  for (const std::uint16_t tag : {std::uint16_t{0}, std::uint16_t{9}, std::uint16_t{0xffff}}) {
    Packet leave = encode(MemberMessage(Leave{})).value();
    set_tag(leave, tag);
    CHECK(decode_member_message(leave).status() == Status::incompatible);
    Packet wanted = encode(ManagerMessage(MapWanted{})).value();
    set_tag(wanted, tag);
    CHECK(decode_manager_message(wanted).status() == Status::incompatible);
  }
}

TEST_CASE("truncated cluster messages are errors in every decoder") {
  using namespace cluster_codec_test;
  for (const Packet& packet : all_packets()) {
    REQUIRE(decode_all(packet) >= 1);
    const std::size_t step = packet.size() > 4096 ? 509 : 1;
    for (std::size_t bytes = 0; bytes < packet.size(); bytes += step) {
      REQUIRE(decode_all(std::span(packet).first(bytes)) == 0);
    }
  }
  CHECK(decode_all(Packet(kClusterMessageBytesMax + 8)) == 0);
}

TEST_CASE("random damage to cluster messages never throws, hangs or crashes") {
  using namespace cluster_codec_test;
  const std::uint64_t seed = seed_of_run();
  INFO("repeat with: SIMM_SEED=" << seed << " unit_cluster -tc='random damage to cluster*'");
  std::mt19937_64 random(seed);
  const std::vector<Packet> packets = all_packets();
  for (int round = 0; round < 4'000; ++round) {
    Packet packet = packets[random() % packets.size()];
    // Most of the damage where the structure is: at the front.
    const std::size_t reach =
        random() % 2 == 0 ? std::min<std::size_t>(packet.size(), 512) : packet.size();
    for (std::size_t flips = 1 + random() % 8; flips > 0; --flips) {
      packet[random() % reach] = static_cast<std::byte>(random());
    }
    if (const auto decoded = decode_manager_message(packet)) {
      REQUIRE(decode_manager_message(encode(*decoded).value()).value() == *decoded);
    }
    decode_all(packet);
    Packet noise(8 * (1 + random() % 32));
    for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
    decode_all(noise);
  }
}
