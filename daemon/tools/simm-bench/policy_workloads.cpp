#include "daemon/tools/simm-bench/policy_workloads.h"

namespace simm::bench {
namespace {

Chat chat_until(double until_s, double rate, double think_s = 90) {
  Chat chat;
  chat.until_s = until_s;
  chat.rate = rate;
  chat.think_s = think_s;
  return chat;
}

template <int kSkewPercent>
void retrieval(PolicyTraffic& traffic) {
  traffic.retrieval({0, 2 * kHourS, kSkewPercent / 100.0, 0});
}

void chat_in_batch(PolicyTraffic& traffic) {
  traffic.chat(chat_until(2 * kHourS, 1.2));
  for (const double from_s : {600.0, 2400.0, 4200.0, 6000.0}) traffic.batch(from_s, 25'000);
}

void loop_beside_chat(PolicyTraffic& traffic) {
  traffic.chat(chat_until(kHourS, 1.5));
  traffic.loop(300, 4000, 8, 10);
}

// The second half has nothing in common with the first.
void all_keys_new(PolicyTraffic& traffic) {
  for (const double from_s : {0.0, kHourS}) {
    Chat chat = chat_until(from_s + kHourS, 1);
    chat.from_s = from_s;
    traffic.chat(chat);
    traffic.retrieval({from_s, from_s + kHourS, 1, 0});
  }
}

void slow_then_fast(PolicyTraffic& traffic) {
  Chat slow = chat_until(2 * kHourS, 1, 900);
  slow.goes_on = 0.75;
  traffic.chat(slow);
  Chat fast = chat_until(12'000, 2.5, 30);
  fast.from_s = 2 * kHourS;
  traffic.chat(fast);
}

void mixed_sizes(PolicyTraffic& traffic) {
  traffic.chat(chat_until(kHourS, 1.5));
  Chat large = chat_until(kHourS, 0.5);
  large.page_units = 256;
  traffic.chat(large);
}

void ranks(PolicyTraffic& traffic) {
  Chat chat = chat_until(kHourS, 1);
  chat.ranks = 8;
  traffic.chat(chat);
}

void polls_and_unread(PolicyTraffic& traffic) {
  Chat chat = chat_until(kHourS, 1.2);
  chat.polled_one_in = 25;
  traffic.chat(chat);
  traffic.returning(kHourS, 0.1, 8, 2 * kHourS);
}

void two_tenants(PolicyTraffic& traffic) {
  traffic.chat(chat_until(2 * kHourS, 1.2));
  traffic.loop(0, 3500, 12, 8, 2);
}

void two_tenants_chat(PolicyTraffic& traffic) {
  two_tenants(traffic);
  traffic.ignore(2);
}

void probed_junk(PolicyTraffic& traffic) {
  traffic.chat(chat_until(kHourS, 1.5));
  traffic.probed(kHourS);
}

void poisoned(PolicyTraffic& traffic) {
  traffic.chat(chat_until(2 * kHourS, 1.5));
  traffic.returning(2 * kHourS, 5, 50, 900);
}

void burst_then_chat(PolicyTraffic& traffic) {
  traffic.burst(2 * kHourS);
  Chat chat = chat_until(2 * kHourS + 1200, 1.2);
  chat.from_s = 2 * kHourS;
  traffic.chat(chat);
}

constexpr PolicyWorkload kWorkloads[] = {
    {"agents", [](PolicyTraffic& traffic) { traffic.agents(4 * kHourS); }},
    {"rag_0.7", retrieval<70>},
    {"rag_0.9", retrieval<90>},
    {"rag_1.1", retrieval<110>},
    {"chat_in_batch", chat_in_batch},
    {"diurnal", [](PolicyTraffic& traffic) { traffic.diurnal(3); }},
    {"loop", [](PolicyTraffic& traffic) { traffic.loop(0, 5000, 8, 10); }},
    {"loop_beside_chat", loop_beside_chat},
    {"new_popular_set",
     [](PolicyTraffic& traffic) {
       traffic.retrieval({0, 2 * kHourS, 1, kHourS});
     }},
    {"all_keys_new", all_keys_new},
    {"slow_then_fast", slow_then_fast},
    {"mixed_sizes", mixed_sizes},
    {"ranks", ranks},
    {"polls_and_unread", polls_and_unread},
    {"two_tenants", two_tenants},
    {"two_tenants_chat", two_tenants_chat},
    {"probed_junk", probed_junk},
    {"poisoned", poisoned},
    {"burst_then_chat", burst_then_chat},
};

}  // namespace

PolicyTraffic PolicyWorkload::traffic(std::uint64_t seed, double crowd) const {
  PolicyTraffic made(seed, crowd);
  make(made);
  made.sort();
  return made;
}

std::span<const PolicyWorkload> policy_workloads() {
  return kWorkloads;
}

}  // namespace simm::bench
