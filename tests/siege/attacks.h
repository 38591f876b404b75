// What a hostile client of another tenant does beside the victim, see Siege. Each is named after
// what it uses up. Thread: the test's.
#pragma once

#include "tests/siege/siege.h"

namespace simm::siege {

// Through the rings (ring_attacks.cpp).
void attack_by_short_deadlines(const Place& place, const Until& until);
void attack_by_long_deadlines(const Place& place, const Until& until);
void attack_by_idle_lanes(const Place& place, const Until& until);
void attack_by_long_keys(const Place& place, const Until& until);

// By memory and files (memory_attacks.cpp).
void attack_by_lingering_sockets(const Place& place, const Until& until);
void attack_by_kept_session_memory(const Place& place, const Until& until);
void attack_by_slow_punches(const Place& place, const Until& until);
void attack_by_registrations(const Place& place, const Until& until);
void attack_by_descriptors(const Place& place, const Until& until);
void attack_by_last_references(const Place& place, const Until& until);

// At the door (door_attacks.cpp).
void attack_by_many_tenants(const Place& place, const Until& until);
void attack_by_a_strangers_directory(const Place& place, const Until& until);
void attack_by_a_locked_directory(const Place& place, const Until& until);
void attack_by_all_sessions_of_a_user(const Place& place, const Until& until);
void attack_by_attach_flood(const Place& place, const Until& until);
void attack_by_garbage(const Place& place, const Until& until);

}  // namespace simm::siege
