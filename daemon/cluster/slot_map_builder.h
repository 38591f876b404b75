// Makes the next SlotMap from the last one. Pure: same arguments, same map.
//
//  1. Shares. Each member gets its share by weight, 16,384 * weight / sum, rounded down or up, so
//     nobody is off by a whole slot. Which way is decided by what moves least, then by the
//     remainder (the largest-remainder method of Hamilton), then by name.
//  2. Levelling. Members above their share release what is too much, and those below take it,
//     together with the slots of members that have gone. Nothing else moves.
//  3. Shards. A slot's shard follows from its number, so the choice of slots keeps the shards of a
//     member even (shard_loads.h). A shard has at most 5 % or one slot more than its part. That
//     moves a few slots more than step 2 where members differ in their numbers of shards.
//  4. Mirrors, where objects are kept twice. Mirrored slots get different owners, as far as shares
//     allow (mirror_parting.h). A map that was made without this is parted once: of n members with
//     equal shares, about a 2n-th of all slots moves.
//  5. Which slots: weighted rendezvous hashing (Thaler and Ravishankar, "Using name-based mappings
//     to increase hit rates", 1998; the logarithmic weights of Schindelhauer and Schomaker,
//     "Weighted distributed hash tables", 2005). A member's claim on a slot is -ln(u) / weight,
//     with u in (0, 1) hashed from name and slot. The smallest claim wins. A member releases those
//     slots first to which a receiver has the better claim, so one that comes back tends to get
//     back what it had.
//
// The floating point in step 5 need not agree between machines: the table travels, nobody rebuilds
// it. Cost: at most slots * members claims. For 1,024 members that all appear at once that is 0.3
// to 0.7 s; the changes of every day cost next to nothing.
// Thread: any.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/cluster/slot_map.h"

namespace simm::cluster {

// Whether mirrored slots (base/replica.h) have different owners where they can.
enum class Mirrors : std::uint8_t { anywhere, apart };

// `members` pass check_member(), have distinct names and incarnations, and are at most kMembersMax.
// `previous`: whose assignment is to be kept as far as possible (by name: a restarted daemon gets
// the slots of its former incarnation); null: none. A slot stays owned without a break when its
// owner is the same incarnation in `previous` and in `current`; `current` is the map in force,
// where that is another one than `previous` (a manager that has lost its state takes over an older
// map). `life`: that of the new map; `follows`: see SlotMap. An error: what SlotMap::make()
// refuses, members that are no such ones among it.
Expected<SlotMapPtr> build_slot_map(base::Epoch epoch, std::vector<MapMember> members,
                                    const SlotMap* previous, const SlotMap* current,
                                    MapLife life = {}, std::uint64_t follows = 0,
                                    Mirrors mirrors = Mirrors::anywhere);

}  // namespace simm::cluster
