#include "daemon/cluster/cluster_codec.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <map>
#include <string>
#include <type_traits>
#include <utility>

#include "cluster.capnp.h"
#include "daemon/cluster/hello/hello_wire.h"
#include "ipc/capnp_packet.h"

namespace simm::cluster {
namespace {

namespace packet = ipc::packet;

// Of slots that nobody owns, in a message.
constexpr std::uint16_t kNoTenure = 0xffff;
static_assert(std::endian::native == std::endian::little, "members reached are words of the wire");

capnp::ReaderOptions limits_of_reading() {
  capnp::ReaderOptions options;
  options.traversalLimitInWords = 4 * kClusterMessageBytesMax / sizeof(capnp::word);
  options.nestingLimit = 8;
  return options;
}

[[noreturn]] void refuse(std::string what) {
  packet::refuse(Status::invalid_argument, std::move(what));
}

std::string line(std::string_view field, capnp::Text::Reader text, std::size_t most) {
  std::string said = packet::line_of(field, text, most);
  if (!is_printable(said)) refuse(std::string(field) + " is not printable ASCII");
  return said;
}

// For people: what is not printable is no reason to refuse the rest.
std::string reason_of(std::string_view said) {
  std::string reason(said.substr(0, kReasonBytesMax));
  for (char& c : reason) {
    if (!is_printable({&c, 1})) c = ' ';
  }
  return reason;
}

// ---- identities and maps ----

void write(schema::Incarnation::Builder to, const Incarnation& incarnation) {
  to.setHigh(incarnation.high);
  to.setLow(incarnation.low);
}

Incarnation read(schema::Incarnation::Reader from) {
  return Incarnation{from.getHigh(), from.getLow()};
}

void write(schema::Lineage::Builder to, const Lineage& lineage) {
  to.setHigh(lineage.high);
  to.setLow(lineage.low);
}

Lineage read(schema::Lineage::Reader from) {
  return Lineage{from.getHigh(), from.getLow()};
}

ClusterRole role_of(std::uint8_t value) {
  if (!is_known_role(value)) refuse("role " + std::to_string(value));
  return static_cast<ClusterRole>(value);
}

void write(schema::Member::Builder to, const MapMember& member) {
  write(to.initIncarnation(), member.identity.incarnation);
  to.setName(packet::text_of("name", member.identity.name, kNameBytesMax));
  to.setRole(static_cast<std::uint8_t>(member.identity.role));
  to.setAddress(packet::text_of("address", member.address, kAddressBytesMax));
  to.setPort(member.port);
  to.setShards(member.shards);
  to.setWeightBytes(member.weight_bytes);
  to.setGraceMs(member.grace_ms);
  to.setBackSince(member.back_since);
}

MapMember read(schema::Member::Reader from) {
  MapMember member;
  member.identity.incarnation = read(from.getIncarnation());
  member.identity.name = line("name", from.getName(), kNameBytesMax);
  member.identity.role = role_of(from.getRole());
  member.address = line("address", from.getAddress(), kAddressBytesMax);
  member.port = from.getPort();
  member.shards = from.getShards();
  member.weight_bytes = from.getWeightBytes();
  member.grace_ms = from.getGraceMs();
  member.back_since = from.getBackSince();
  return member;
}

// Of maps and deltas.
template <typename Builder>
void write_life(Builder to, const MapLife& life) {
  write(to.initLineage(), life.lineage);
  auto ancestors = to.initAncestors(static_cast<unsigned>(life.ancestors.size()));
  for (unsigned i = 0; i < ancestors.size(); ++i) {
    write(ancestors[i].initLineage(), life.ancestors[i].lineage);
    ancestors[i].setEpoch(life.ancestors[i].epoch);
  }
}

template <typename Reader>
MapLife read_life(Reader from) {
  MapLife life{read(from.getLineage()), {}};
  const auto ancestors = from.getAncestors();
  if (ancestors.size() > kAncestorsMax) refuse("too many ancestors");
  for (const auto ancestor : ancestors) {
    life.ancestors.push_back({read(ancestor.getLineage()), ancestor.getEpoch()});
  }
  return life;
}

void write(schema::SlotMap::Builder to, const SlotMap& map) {
  to.setEpoch(map.epoch());
  to.setFollows(map.follows());
  write_life(to, map.life());
  auto members = to.initMembers(static_cast<unsigned>(map.members().size()));
  for (unsigned i = 0; i < members.size(); ++i) write(members[i], map.members()[i]);
  std::map<std::pair<MemberIndex, base::Epoch>, std::uint16_t> index;
  std::vector<SlotOwner> tenures;
  std::vector<std::uint16_t> last(map.members().size(), kNoTenure);  // of each member
  auto slots = to.initSlots(base::kSlotCount);
  for (unsigned slot = 0; slot < base::kSlotCount; ++slot) {
    const SlotOwner& owner = map.owners()[slot];
    if (owner.member == kNoMember) {
      slots.set(slot, kNoTenure);
      continue;
    }
    std::uint16_t& known = last[owner.member];
    if (known == kNoTenure || tenures[known].since != owner.since) {
      // At most one for each slot, so it fits 16 bits and never is kNoTenure.
      const auto next = static_cast<std::uint16_t>(tenures.size());
      const auto [found, fresh] = index.try_emplace({owner.member, owner.since}, next);
      if (fresh) tenures.push_back(owner);
      known = found->second;
    }
    slots.set(slot, known);
  }
  auto list = to.initTenures(static_cast<unsigned>(tenures.size()));
  for (unsigned i = 0; i < list.size(); ++i) {
    list[i].setMember(tenures[i].member);
    list[i].setSince(tenures[i].since);
  }
}

SlotMapPtr read(schema::SlotMap::Reader from) {
  // Counts first: nothing is allocated for more than there may be.
  if (from.getMembers().size() > kMembersMax) refuse("too many members");
  if (from.getTenures().size() > base::kSlotCount) refuse("too many tenures");
  if (from.getSlots().size() != base::kSlotCount) refuse("another number of slots");
  std::vector<MapMember> members;
  for (const auto member : from.getMembers()) members.push_back(read(member));
  std::vector<SlotOwner> tenures;
  for (const auto tenure : from.getTenures()) {
    tenures.push_back({tenure.getMember(), tenure.getSince()});
  }
  const auto slots = from.getSlots();  // once: each getter costs its whole list of the limit
  std::vector<SlotOwner> owners(base::kSlotCount);
  for (unsigned slot = 0; slot < base::kSlotCount; ++slot) {
    const std::uint16_t tenure = slots[slot];
    if (tenure == kNoTenure) continue;
    if (tenure >= tenures.size()) refuse("slot of tenure " + std::to_string(tenure));
    owners[slot] = tenures[tenure];
  }
  auto made = SlotMap::make(from.getEpoch(), std::move(members), std::move(owners), read_life(from),
                            from.getFollows());
  if (!made) packet::refuse(made.status(), made.error().context);
  return std::move(made).value();
}

void write(schema::MapDelta::Builder to, const MapDelta& delta) {
  to.setBaseEpoch(delta.base_epoch);
  to.setBaseDigest(delta.base_digest);
  to.setEpoch(delta.epoch);
  to.setDigest(delta.digest);
  to.setFollows(delta.follows);
  write_life(to, delta.life);
  auto members = to.initMembers(static_cast<unsigned>(delta.members.size()));
  for (unsigned i = 0; i < members.size(); ++i) members.set(i, delta.members[i]);
  auto fresh = to.initFresh(static_cast<unsigned>(delta.fresh.size()));
  for (unsigned i = 0; i < fresh.size(); ++i) write(fresh[i], delta.fresh[i]);
  std::map<std::pair<MemberIndex, base::Epoch>, std::uint16_t> index;
  std::vector<SlotOwner> tenures;
  auto slots = to.initSlots(static_cast<unsigned>(delta.slots.size()));
  auto owners = to.initOwners(static_cast<unsigned>(delta.slots.size()));
  for (unsigned i = 0; i < slots.size(); ++i) {
    const SlotChange& change = delta.slots[i];
    slots.set(i, change.slot);
    if (change.owner == SlotOwner{}) {
      owners.set(i, kNoTenure);
      continue;
    }
    const auto next = static_cast<std::uint16_t>(tenures.size());
    const auto [found, is_new] = index.try_emplace({change.owner.member, change.owner.since}, next);
    if (is_new) tenures.push_back(change.owner);
    owners.set(i, found->second);
  }
  auto list = to.initTenures(static_cast<unsigned>(tenures.size()));
  for (unsigned i = 0; i < list.size(); ++i) {
    list[i].setMember(tenures[i].member);
    list[i].setSince(tenures[i].since);
  }
}

// Whether it makes a map is for apply() to see.
MapDelta read(schema::MapDelta::Reader from) {
  if (from.getMembers().size() > kMembersMax) refuse("too many members");
  if (from.getFresh().size() > kMembersMax) refuse("too many new members");
  if (from.getTenures().size() > base::kSlotCount) refuse("too many tenures");
  const auto slots = from.getSlots();
  const auto owners = from.getOwners();
  if (slots.size() > base::kSlotCount || owners.size() != slots.size()) {
    refuse(std::to_string(slots.size()) + " slots with " + std::to_string(owners.size()) +
           " owners");
  }
  MapDelta delta;
  delta.base_epoch = from.getBaseEpoch();
  delta.base_digest = from.getBaseDigest();
  delta.epoch = from.getEpoch();
  delta.digest = from.getDigest();
  delta.life = read_life(from);
  delta.follows = from.getFollows();
  for (const std::uint16_t member : from.getMembers()) delta.members.push_back(member);
  for (const auto member : from.getFresh()) delta.fresh.push_back(read(member));
  const auto tenures = from.getTenures();
  std::vector<SlotOwner> known;
  for (const auto tenure : tenures) known.push_back({tenure.getMember(), tenure.getSince()});
  for (unsigned i = 0; i < slots.size(); ++i) {
    const std::uint16_t tenure = owners[i];
    if (tenure != kNoTenure && tenure >= known.size())
      refuse("slot of tenure " + std::to_string(tenure));
    delta.slots.push_back({slots[i], tenure == kNoTenure ? SlotOwner{} : known[tenure]});
  }
  return delta;
}

// ---- messages ----

void write(schema::Question::Builder to, const Question& question) {
  to.setId(question.id);
  to.setKind(static_cast<std::uint8_t>(question.topic));
  to.setTarget(packet::text_of("target", question.target, kTargetBytesMax));
  to.setDeadlineMs(question.deadline_ms);
  to.setIsNamed(question.is_named);
  to.setIsForced(question.is_forced);
}

Question read(schema::Question::Reader from) {
  if (from.getKind() >= kTopicCount) refuse("question " + std::to_string(from.getKind()));
  if (from.getDeadlineMs() > kDrainMsMax) {
    refuse("a drain of " + std::to_string(from.getDeadlineMs()) + " ms");
  }
  return Question{from.getId(),
                  static_cast<Topic>(from.getKind()),
                  line("target", from.getTarget(), kTargetBytesMax),
                  from.getDeadlineMs(),
                  from.getIsNamed(),
                  from.getIsForced()};
}

void write(schema::Answer::Builder to, const Answer& answer) {
  to.setId(answer.id);
  to.setStatus(static_cast<std::int32_t>(answer.status));
  to.setText(packet::text_of("text", answer.text, kAnswerBytesMax));
}

Answer read(schema::Answer::Reader from) {
  const auto text = from.getText();
  // JSON may be indented: unlike a line it is parsed, not logged.
  return Answer{from.getId(), packet::status_of(from.getStatus()),
                std::string(packet::checked("text", {text.begin(), text.size()}, kAnswerBytesMax))};
}

Join read(schema::Join::Reader from) {
  Join join;
  join.address = line("address", from.getAddress(), kAddressBytesMax);
  join.port = from.getPort();
  join.shards = from.getShards();
  join.weight_bytes = from.getWeightBytes();
  join.map_epoch = from.getMapEpoch();
  join.draining = from.getDraining();
  join.recovering = from.getRecovering();
  join.grace_ms = from.getGraceMs();
  join.lineage = read(from.getLineage());
  join.map_digest = from.getMapDigest();
  return join;
}

std::uint64_t checked_heartbeat_ns(std::uint64_t heartbeat_ns) {
  if (heartbeat_ns < kHeartbeatNsMin || heartbeat_ns > kHeartbeatNsMax) {
    refuse("heartbeats every " + std::to_string(heartbeat_ns) + " ns");
  }
  return heartbeat_ns;
}

Joined read(schema::Joined::Reader from) {
  return Joined{checked_heartbeat_ns(from.getHeartbeatNs()), from.getEpoch(),
                from.getClusterVersion()};
}

HeartbeatAck read(schema::HeartbeatAck::Reader from) {
  const std::uint64_t heartbeat_ns = from.getHeartbeatNs();
  return HeartbeatAck{from.getSequence(), from.getEpoch(), from.getClusterVersion(),
                      heartbeat_ns == 0 ? 0 : checked_heartbeat_ns(heartbeat_ns)};
}

// As many bytes as it takes; one at least, because none says nothing.
void write_reached(schema::Heartbeat::Builder to, const MemberSet& reached) {
  std::size_t bits = kMembersMax;
  while (bits > 1 && !reached.test(bits - 1)) --bits;
  auto bytes = to.initReached(static_cast<unsigned>((bits + 7) / 8));
  for (std::size_t bit = 0; bit < bits; ++bit) {
    const auto byte = static_cast<unsigned>(bit / 8);
    if (reached.test(bit)) bytes[byte] = static_cast<kj::byte>(bytes[byte] | 1U << bit % 8);
  }
}

std::optional<MemberSet> read_reached(capnp::Data::Reader from) {
  if (from.size() == 0) return std::nullopt;
  if (from.size() > kMembersMax / 8) refuse("it reaches more members than a map has");
  // Each heartbeat has this. Bit by bit, or word by word with shifts, it would be half of what a
  // heartbeat costs to read.
  MemberSet reached;
  static_assert(sizeof(reached) == kMembersMax / 8 && std::is_trivially_copyable_v<MemberSet>);
  // SAFETY: no longer than the set, which is its bits in little-endian words (libstdc++).
  std::memcpy(&reached, from.begin(), from.size());
  return reached;
}

// A newer daemon may say more than is known here.
void read_load(schema::Heartbeat::Reader from, Heartbeat& heartbeat) {
  heartbeat.load_ms = from.getLoadMs();
  const auto fields = from.getLoad();
  for (unsigned i = 0; i < std::min<std::size_t>(fields.size(), base::kLoadFields.size()); ++i) {
    heartbeat.load.*base::kLoadFields[i].sum = fields[i];
  }
  const auto buckets = from.getBatchNs();
  for (unsigned i = 0; i < std::min<std::size_t>(buckets.size(), base::Load::kBuckets); ++i) {
    heartbeat.load.batch_ns[i] = buckets[i];
  }
}

void write_load(schema::Heartbeat::Builder to, const Heartbeat& heartbeat) {
  to.setLoadMs(heartbeat.load_ms);
  auto fields = to.initLoad(static_cast<unsigned>(base::kLoadFields.size()));
  for (unsigned i = 0; i < fields.size(); ++i) {
    fields.set(i, heartbeat.load.*base::kLoadFields[i].sum);
  }
  std::size_t used = base::Load::kBuckets;
  while (used > 0 && heartbeat.load.batch_ns[used - 1] == 0) --used;
  auto buckets = to.initBatchNs(static_cast<unsigned>(used));
  for (unsigned i = 0; i < used; ++i) buckets.set(i, heartbeat.load.batch_ns[i]);
}

struct MemberEncoder {
  schema::MemberMessage::Builder root;

  void operator()(const Join& join) {
    auto to = root.initJoin();
    to.setAddress(packet::text_of("address", join.address, kAddressBytesMax));
    to.setPort(join.port);
    to.setShards(join.shards);
    to.setWeightBytes(join.weight_bytes);
    to.setMapEpoch(join.map_epoch);
    to.setDraining(join.draining);
    to.setRecovering(join.recovering);
    to.setGraceMs(join.grace_ms);
    write(to.initLineage(), join.lineage);
    to.setMapDigest(join.map_digest);
  }
  void operator()(const Heartbeat& heartbeat) {
    auto to = root.initHeartbeat();
    to.setSequence(heartbeat.sequence);
    to.setMapEpoch(heartbeat.map_epoch);
    to.setObjects(heartbeat.objects);
    to.setUsedBytes(heartbeat.used_bytes);
    to.setRecovering(heartbeat.recovering);
    if (heartbeat.reached) write_reached(to, *heartbeat.reached);
    to.setMapDigest(heartbeat.map_digest);
    to.setWantsMap(heartbeat.wants_map);
    to.setDraining(heartbeat.draining);
    if (heartbeat.load_ms != 0) write_load(to, heartbeat);
  }
  void operator()(const MapReport& report) { write(root.initMapReport(), *report.map); }
  void operator()(const Leave&) { root.setLeave(); }
  void operator()(const Question& question) { write(root.initQuestion(), question); }
  void operator()(const Answer& answer) { write(root.initAnswer(), answer); }
};

struct ManagerEncoder {
  schema::ManagerMessage::Builder root;
  std::string cut;

  void operator()(const Joined& joined) {
    auto to = root.initJoined();
    to.setHeartbeatNs(joined.heartbeat_ns);
    to.setEpoch(joined.epoch);
    to.setClusterVersion(joined.cluster_version);
  }
  void operator()(const Refused& refused) {
    auto to = root.initRefused();
    to.setFinal(refused.final);
    // The end of a long one is no loss, where an error would be.
    cut = reason_of(refused.reason);
    to.setReason(capnp::Text::Reader(cut.c_str(), cut.size()));
    to.setStandsBy(refused.stands_by);
  }
  void operator()(const HeartbeatAck& ack) {
    auto to = root.initHeartbeatAck();
    to.setSequence(ack.sequence);
    to.setEpoch(ack.epoch);
    to.setClusterVersion(ack.cluster_version);
    to.setHeartbeatNs(ack.heartbeat_ns);
  }
  void operator()(const MapPush& push) { write(root.initMapPush(), *push.map); }
  void operator()(const MapDelta& delta) { write(root.initMapDelta(), delta); }
  void operator()(const MapWanted&) { root.setMapWanted(); }
  void operator()(const Question& question) { write(root.initQuestion(), question); }
  void operator()(const Answer& answer) { write(root.initAnswer(), answer); }
};

// Room for most messages, without which a builder clears 8 KiB of the heap for each.
struct ShortMessage {
  kj::ArrayPtr<capnp::word> words() { return kj::arrayPtr(room.data(), room.size()); }
  std::array<capnp::word, 64> room{};
};

template <typename Root, typename Value, typename Read>
Expected<Value> decode(std::span<const std::byte> bytes, Read read_root) {
  constexpr std::size_t kWordBytes = sizeof(capnp::word);
  const auto read_words = [](kj::ArrayPtr<const capnp::word> words, Read read) -> Value {
    capnp::FlatArrayMessageReader reader(words, limits_of_reading());
    return read(reader.getRoot<Root>());
  };
  return packet::guarded([&]() -> Value {
    // Most messages lie at the beginning of what one read has brought, so they are aligned there.
    const bool is_whole =
        !bytes.empty() && bytes.size() % kWordBytes == 0 && bytes.size() <= kClusterMessageBytesMax;
    if (is_whole && reinterpret_cast<std::uintptr_t>(bytes.data()) % kWordBytes == 0) {
      // SAFETY: aligned whole words, which nobody changes meanwhile.
      const auto* const words = reinterpret_cast<const capnp::word*>(bytes.data());
      return read_words(kj::arrayPtr(words, bytes.size() / kWordBytes), read_root);
    }
    const auto words = packet::words_of(bytes, kClusterMessageBytesMax);
    return read_words(kj::arrayPtr(words.data(), words.size()), read_root);
  });
}

MemberMessage read_member_message(schema::MemberMessage::Reader root) {
  switch (root.which()) {
    case schema::MemberMessage::JOIN:
      return read(root.getJoin());
    case schema::MemberMessage::HEARTBEAT: {
      const auto from = root.getHeartbeat();
      Heartbeat heartbeat{
          from.getSequence(),  from.getMapEpoch(),   from.getObjects(),
          from.getUsedBytes(), from.getRecovering(), read_reached(from.getReached()),
          from.getMapDigest(), from.getWantsMap(),   from.getDraining()};
      read_load(from, heartbeat);
      return heartbeat;
    }
    case schema::MemberMessage::MAP_REPORT:
      return MapReport{read(root.getMapReport())};
    case schema::MemberMessage::LEAVE:
      return Leave{};
    case schema::MemberMessage::QUESTION:
      return read(root.getQuestion());
    case schema::MemberMessage::ANSWER:
      return read(root.getAnswer());
    case schema::MemberMessage::NONE:
      break;
  }
  packet::refuse(Status::incompatible,
                 "member message kind " + std::to_string(static_cast<unsigned>(root.which())));
}

ManagerMessage read_manager_message(schema::ManagerMessage::Reader root) {
  switch (root.which()) {
    case schema::ManagerMessage::JOINED:
      return read(root.getJoined());
    case schema::ManagerMessage::REFUSED: {
      const auto reason = root.getRefused().getReason();
      return Refused{
          root.getRefused().getFinal(),
          reason_of(packet::checked("reason", {reason.begin(), reason.size()}, kReasonBytesMax)),
          root.getRefused().getStandsBy()};
    }
    case schema::ManagerMessage::HEARTBEAT_ACK:
      return read(root.getHeartbeatAck());
    case schema::ManagerMessage::MAP_PUSH:
      return MapPush{read(root.getMapPush())};
    case schema::ManagerMessage::MAP_DELTA:
      return read(root.getMapDelta());
    case schema::ManagerMessage::MAP_WANTED:
      return MapWanted{};
    case schema::ManagerMessage::QUESTION:
      return read(root.getQuestion());
    case schema::ManagerMessage::ANSWER:
      return read(root.getAnswer());
    case schema::ManagerMessage::NONE:
      break;
  }
  packet::refuse(Status::incompatible,
                 "manager message kind " + std::to_string(static_cast<unsigned>(root.which())));
}

ManagerState read_state(schema::ManagerState::Reader from) {
  ManagerState state;
  state.map = read(from.getMap());
  if (from.getRetired().size() > kRetiredMax) refuse("too many retired incarnations");
  for (const auto retired : from.getRetired()) {
    state.retired.push_back(DaemonIdentity{read(retired.getIncarnation()),
                                           role_of(retired.getRole()),
                                           line("name", retired.getName(), kNameBytesMax)});
  }
  return state;
}

}  // namespace

Expected<std::vector<std::byte>> encode(const MemberMessage& message) {
  return packet::guarded([&] {
    ShortMessage space;
    capnp::MallocMessageBuilder builder(space.words());
    std::visit(MemberEncoder{builder.initRoot<schema::MemberMessage>()}, message);
    return packet::bytes_of(builder, kClusterMessageBytesMax);
  });
}

Expected<std::vector<std::byte>> encode(const ManagerMessage& message) {
  return packet::guarded([&] {
    ShortMessage space;
    capnp::MallocMessageBuilder builder(space.words());
    std::visit(ManagerEncoder{builder.initRoot<schema::ManagerMessage>(), {}}, message);
    return packet::bytes_of(builder, kClusterMessageBytesMax);
  });
}

Expected<std::vector<std::byte>> encode(const ManagerState& state) {
  return packet::guarded([&] {
    capnp::MallocMessageBuilder builder;
    auto root = builder.initRoot<schema::ManagerState>();
    write(root.initMap(), *state.map);
    auto retired = root.initRetired(static_cast<unsigned>(state.retired.size()));
    for (unsigned i = 0; i < retired.size(); ++i) {
      const DaemonIdentity& identity = state.retired[i];
      retired[i].setName(packet::text_of("name", identity.name, kNameBytesMax));
      retired[i].setRole(static_cast<std::uint8_t>(identity.role));
      write(retired[i].initIncarnation(), identity.incarnation);
    }
    return packet::bytes_of(builder, kClusterMessageBytesMax);
  });
}

Expected<MemberMessage> decode_member_message(std::span<const std::byte> bytes) {
  return decode<schema::MemberMessage, MemberMessage>(bytes, read_member_message);
}

Expected<ManagerMessage> decode_manager_message(std::span<const std::byte> bytes) {
  return decode<schema::ManagerMessage, ManagerMessage>(bytes, read_manager_message);
}

Expected<ManagerState> decode_manager_state(std::span<const std::byte> bytes) {
  return decode<schema::ManagerState, ManagerState>(bytes, read_state);
}

}  // namespace simm::cluster
