#include "daemon/session/submission_decoder.h"

#include <functional>

#include "tests/unit/daemon/session/session_rig.h"

namespace submission_decoder_test {

using namespace session_rig;
using ipc::Opcode;
using ipc::PoisonReason;

// What the daemon made of one submission with one page.
PoisonReason reason_of(const std::function<void(ipc::Submission&, ipc::PageDescriptor&)>& change,
                       Opcode opcode = Opcode::put) {
  Rig rig;
  Client& client = rig.attach(Rig::config(1));
  ipc::PageDescriptor p = page(client, 0, 100);
  if (opcode == Opcode::exists || opcode == Opcode::remove) p.region = ipc::kNoRegion;
  ipc::Submission s = submission(opcode, opcode == Opcode::noop ? 0 : 1);
  change(s, p);
  REQUIRE(client.lanes[0].write_page(0, p) == Status::ok);
  REQUIRE(client.lanes[0].push(s) == Status::ok);
  rig.set->do_work();
  const PoisonReason reason = client.session->poison_reason();
  // Whatever it was: nothing was lost, and a refused one did not reach the engine.
  if (reason != PoisonReason::none) {
    CHECK(rig.engine.submitted.empty());
    CHECK(rig.engine.free_count() == 8);
    CHECK(client.state() == ipc::SessionState::poisoned);
    CHECK(client.words->poison_reason() == reason);
  }
  return reason;
}

TEST_CASE("well-formed submissions of every opcode are decoded") {
  for (const Opcode opcode :
       {Opcode::noop, Opcode::put, Opcode::get, Opcode::exists, Opcode::remove}) {
    CHECK(reason_of([](auto&, auto&) {}, opcode) == PoisonReason::none);
  }
}

TEST_CASE("each malformed field of a submission poisons on the first one") {
  using S = ipc::Submission;
  using P = ipc::PageDescriptor;
  const std::function<void(S&, P&)> changes[] = {
      [](S& s, P&) { s.opcode = ipc::kOpcodeCount; },
      [](S& s, P&) { s.opcode = 255; },
      [](S& s, P&) { s.put_mode = 2; },
      [](S& s, P&) { s.flags = 16; },
      [](S& s, P&) { s.flags = 0x8000; },
      [](S& s, P&) { s.reserved0 = 1; },
      [](S& s, P&) { s.reserved[0] = 1; },
      [](S& s, P&) { s.reserved[1] = std::uint64_t{1} << 63; },
      [](S& s, P&) { s.page_count = 0; },
      [](S& s, P&) { s.page_count = ipc::kPagesPerSubmissionMax + 1; },
      [](S& s, P&) { s.page_first = ipc::kPageSlots; },
      [](S& s, P&) { s.page_first = ~0u; },
      [](S& s, P&) { s.name_space = 1; },
      [](S& s, P&) { s.name_space = 0xffff; },
  };
  for (const auto& change : changes) CHECK(reason_of(change) == PoisonReason::bad_submission);
  CHECK(reason_of([](S& s, P&) { s.page_count = 1; }, Opcode::noop) ==
        PoisonReason::bad_submission);
}

TEST_CASE("each malformed field of a page descriptor poisons on the first one") {
  using S = ipc::Submission;
  using P = ipc::PageDescriptor;
  const std::function<void(S&, P&)> changes[] = {
      [](S&, P& p) { p.key_bytes = 0; },
      [](S&, P& p) { p.key_bytes = ipc::kKeyBytesMax + 1; },
      [](S&, P& p) { p.key_offset = ipc::kKeyArenaBytes - 7; },
      [](S&, P& p) { p.key_offset = ~0u; },
      [](S&, P& p) { p.region = ipc::kNoRegion; },
      [](S&, P& p) { p.region += 1; },
      [](S&, P& p) { p.region += 1u << 16; },
      [](S&, P& p) { p.length = 0; },
      [](S&, P& p) { p.length = (1 << 20) + 1; },
      [](S&, P& p) { p.length = ipc::kValueBytesMax + 1; },
      [](S&, P& p) { p.length = ~std::uint64_t{0}; },
      [](S&, P& p) { p.offset = (1 << 20) - 99; },
      [](S&, P& p) { p.offset = ~std::uint64_t{0} - 50; },
      [](S&, P& p) { p.object_offset = 1; },
      [](S&, P& p) { p.reserved[1] = 1; },
  };
  for (const auto& change : changes) CHECK(reason_of(change) == PoisonReason::bad_descriptor);
  CHECK(reason_of([](S&, P& p) { p.object_offset = 1; }, Opcode::get) == PoisonReason::none);
  CHECK(reason_of([](S&, P& p) { p.object_offset = ipc::kValueBytesMax + 1; }, Opcode::get) ==
        PoisonReason::bad_descriptor);
  CHECK(reason_of([](S&, P& p) { p.region = 1u << 16; }, Opcode::exists) ==
        PoisonReason::bad_descriptor);
}

TEST_CASE("what reaches the engine is what the client wrote") {
  Rig rig;
  Client& client = rig.attach(Rig::config(1, 9));
  push(client, Opcode::get, 3, 1000, 55);
  ipc::PageDescriptor p = page(client, 5000, 70, 24);
  p.object_offset = 12;
  p.depth = 6;
  REQUIRE(client.lanes[0].write_page(2, p) == Status::ok);
  REQUIRE(client.lanes[0].write_key(24, "odd-key!", 8) == Status::ok);
  rig.set->do_work();
  REQUIRE(rig.engine.submitted.size() == 1);
  const engine::Operation& operation = *rig.engine.submitted[0];
  CHECK(operation.header.opcode == Opcode::get);
  CHECK(operation.header.tenant.value == 9);
  CHECK(operation.header.name_space.value == 900);
  CHECK(operation.header.deadline_ns == rig.clock.now_ns() + 10 * base::kNsPerSecond);
  CHECK(operation.client_token == 55);
  CHECK(operation.page_count == 3);
  CHECK(operation.pages[1].slice.region == client.region);
  CHECK(operation.pages[1].slice.offset == 1000);
  CHECK(operation.pages[1].slice.length == 1000);
  CHECK(std::string(operation.pages[1].key, operation.pages[1].key_bytes) == "key10001");
  CHECK(operation.pages[1].index == 1);
  CHECK(operation.pages[2].object_offset == 12);
  CHECK(operation.pages[2].depth == 6);
  CHECK(std::string(operation.pages[2].key, operation.pages[2].key_bytes) == "odd-key!");
}

TEST_CASE("only handles that were given out name a region: all 2^16 indices, several generations") {
  constexpr std::uint32_t kRegions = 300;
  memory::RegionTable regions(kRegions);
  const session::NameSpaceTable name_spaces(1, {{1}});
  const session::SubmissionDecoder decoder(regions, name_spaces);
  memory::RegionMemory::Spec spec;
  spec.kind = memory::RegionKind::foreign;
  spec.length = 1000;
  std::vector<ipc::RegionHandle> given;
  for (std::uint32_t i = 0; i < kRegions; ++i) {
    auto region = memory::RegionMemory::copied(spec, {}, nullptr);
    given.push_back(regions.insert(region));
  }
  REQUIRE(regions.retire(given[7]) == Status::ok);

  Client client(Rig::config(1));
  const ipc::DaemonLane lane(client.lane_memory(0));
  const auto operation = std::make_unique<engine::Operation>();
  const ipc::Submission s = submission(Opcode::get, 1);
  REQUIRE(decoder.check(s) == PoisonReason::none);
  for (std::uint32_t index = 0; index <= 0xffff; ++index) {
    for (const std::uint32_t generation : {0u, 1u, 2u, 0x8000u, 0xffffu}) {
      ipc::PageDescriptor p{};
      p.region = generation << 16 | index;
      p.length = 1000;
      p.key_bytes = 8;
      REQUIRE(client.lanes[0].write_page(0, p) == Status::ok);
      const session::Decoded decoded = decoder.decode(s, lane, *operation);
      if (generation != 1 || index >= kRegions) {
        REQUIRE(decoded.breach == PoisonReason::bad_descriptor);
        continue;
      }
      REQUIRE(decoded.breach == PoisonReason::none);
      if (index == (given[7] & 0xffff)) {
        REQUIRE(decoded.status == Status::invalid_state);
      } else {
        REQUIRE(decoded.status == Status::ok);
        REQUIRE(operation->pages[0].slice.region == regions.at(index));
      }
    }
  }
}

TEST_CASE("random submissions and descriptors: what gets through lies inside its bounds") {
  const char* const kName =
      "random submissions and descriptors: what gets through lies inside its bounds";
  std::mt19937_64 random(seed(kName));
  std::uint64_t through = 0;
  std::uint64_t refused = 0;
  auto rig = std::make_unique<Rig>(4);
  Client* client = nullptr;
  for (int round = 0; round < 20'000; ++round) {
    if (client == nullptr) {
      rig = std::make_unique<Rig>(4);
      client = &rig->attach(Rig::config(1));
      rig->engine.on_submit = [&](const engine::Operation& operation) {
        REQUIRE(operation.page_count >= 1);
        REQUIRE(operation.page_first + operation.page_count <= ipc::kPageSlots);
        for (std::uint32_t i = 0; i < operation.page_count; ++i) {
          const transport::PageRequest& p = operation.pages[i];
          REQUIRE(p.key >= operation.key_bytes.data());
          REQUIRE(p.key_bytes >= 1);
          REQUIRE(p.key + p.key_bytes <= operation.key_bytes.data() + ipc::kKeyArenaBytes);
          if (p.slice.region == nullptr) continue;
          REQUIRE(p.slice.region == client->region);
          REQUIRE(p.slice.length >= 1);
          REQUIRE(p.slice.offset <= client->region->length - p.slice.length);
        }
        ++through;
      };
    }
    // A valid one in which a few bytes are changed: mostly still valid, often just not.
    ipc::Submission s = submission(static_cast<Opcode>(random() % 5), 0);
    s.page_count = s.opcode == 0 ? 0 : 1 + static_cast<std::uint32_t>(random() % 4);
    for (std::uint32_t i = 0; i < s.page_count; ++i) {
      ipc::PageDescriptor p = page(*client, random() % 1000, 1 + random() % 5000, i * 8);
      if (s.opcode > 2) p.region = 0;
      if (random() % 16 == 0) {
        reinterpret_cast<unsigned char*>(&p)[random() % sizeof p] =
            static_cast<unsigned char>(random());
      }
      REQUIRE(client->lanes[0].write_page(i, p) == Status::ok);
    }
    if (random() % 16 == 0) {
      reinterpret_cast<unsigned char*>(&s)[8 + random() % (sizeof s - 8)] =
          static_cast<unsigned char>(random());
    }
    REQUIRE(client->lanes[0].push(s) == Status::ok);
    rig->set->do_work();
    rig->engine.complete_all();
    if (client->session->poison_reason() != PoisonReason::none) {
      ++refused;
      rig->engine.on_submit = nullptr;
      client = nullptr;
      continue;
    }
    take(*client);
  }
  CHECK(through > 1000);
  CHECK(refused > 100);
}

}  // namespace submission_decoder_test
