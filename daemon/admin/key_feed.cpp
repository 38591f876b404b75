#include "daemon/admin/key_feed.h"

#include <algorithm>
#include <charconv>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "daemon/base/choice.h"
#include "daemon/base/json_text.h"
#include "daemon/base/wall_time.h"

namespace simm::control {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr base::TimeNs kCollectNs = 5 * base::kNsPerMs;

void append_number(std::string& text, std::uint64_t number) {
  std::array<char, 20> digits;
  const auto [end, failure] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  text.append(digits.data(), end);
}

// All sixteen digits.
void append_hex(std::string& text, std::uint64_t number) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(number >> shift) & 0xf];
}

std::string hex_of(std::uint64_t number) {
  std::string text;
  append_hex(text, number);
  return text;
}

void append_line(std::string& lines, std::uint64_t number, std::uint64_t wall_ns,
                 const base::KeyEvent& event) {
  append_number(lines, number);
  lines += ' ';
  append_number(lines, wall_ns);
  lines += ' ';
  lines += base::choice_name(base::kKeyEventNames, event.kind);
  lines += ' ';
  append_hex(lines, event.hash.high);
  append_hex(lines, event.hash.low);
  lines += ' ';
  append_number(lines, event.bytes);
  lines += ' ';
  append_hex(lines, event.tenant.value);
  lines += ' ';
  append_hex(lines, event.name_space.value);
  lines += '\n';
}

}  // namespace

struct KeyFeed::Question {
  Request request;
  std::uint64_t since = 0;
  std::uint64_t presents = 0;
  std::optional<std::string> tenant;
  std::optional<std::string> name_space;
};

KeyFeed::KeyFeed(Setup setup)
    : setup_(std::move(setup)),
      life_(setup_.random.next()),
      salt_(setup_.random.next()),
      counters_(setup_.counters),
      timer_(setup_.io) {}

std::unique_ptr<KeyFeed> KeyFeed::make(Environment& environment, base::Random& random,
                                       const TenantRules& tenants, std::vector<KeyShard> shards) {
  if (shards.empty()) return nullptr;
  return std::make_unique<KeyFeed>(Setup{environment.io, environment.clock, random,
                                         environment.counters, environment.limits, tenants,
                                         environment.config.events.keys, std::move(shards)});
}

Expected<KeyFeed::Question> KeyFeed::read(std::string_view argument) {
  const json given = json::parse(argument, nullptr, false);
  Question question;
  bool is_sound = given.is_object();
  const auto take = [&](const char* name, const auto& use) {
    const auto found = is_sound ? given.find(name) : given.end();
    if (!is_sound || found == given.end()) return;
    is_sound = use(*found);
  };
  const auto number = [](std::uint64_t& to) {
    return [&to](const json& value) {
      if (value.is_number_unsigned()) to = value.get<std::uint64_t>();
      return value.is_number_unsigned();
    };
  };
  const auto flag = [](bool& to) {
    return [&to](const json& value) {
      to = value == true;
      return value.is_boolean();
    };
  };
  const auto text = [](std::optional<std::string>& to) {
    return [&to](const json& value) {
      if (value.is_string()) to = value.get<std::string>();
      return value.is_string();
    };
  };
  take("subscriber", number(question.request.subscriber));
  take("since", number(question.since));
  take("presents", number(question.presents));
  take("begin", flag(question.request.begins));
  take("end", flag(question.request.ends));
  take("tenant", text(question.tenant));
  take("namespace", text(question.name_space));
  if (is_sound) return question;
  return Error{Status::invalid_argument,
               "key_events: write an object with numbers \"subscriber\", \"since\" and "
               "\"presents\", or with texts \"tenant\" and \"namespace\""};
}

Outcome KeyFeed::check_mode() const {
  if (setup_.mode != base::KeyEventsMode::off) return Done{};
  return Error{Status::invalid_state,
               "events.keys is \"off\": set {\"events\": {\"keys\": \"hashes\"}} in the "
               "daemon's configuration, and start it anew"};
}

KeyFeed::Subscriber* KeyFeed::find(std::uint64_t id, std::uint64_t session_id) noexcept {
  const auto found = std::find_if(subscribers_.begin(), subscribers_.end(), [&](const auto& one) {
    return one->id == id && one->session_id == session_id;
  });
  return found == subscribers_.end() ? nullptr : found->get();
}

Expected<KeyFeed::Subscriber*> KeyFeed::attend(
    const Request& request, Place& place, const std::function<Expected<Subscriber>()>& newcomer) {
  if (const Outcome is_on = check_mode(); !is_on) return is_on.error();
  Subscriber* subscriber = nullptr;
  if (request.subscriber == 0) {
    auto made = newcomer();
    if (!made) return std::move(made).error();
    auto added = add(std::move(*made));
    if (!added) return std::move(added).error();
    subscriber = *added;
    collect();
    place = {newest_};
  } else {
    subscriber = find(request.subscriber, request.session_id);
    if (subscriber == nullptr) {
      return Error{Status::not_found, "this subscription is over, because nobody read for " +
                                          std::to_string(kKeyPatienceNs / base::kNsPerSecond) +
                                          " s, or the daemon is another one: subscribe anew"};
    }
    if (request.ends) {
      leave([id = subscriber->id](const Subscriber& one) { return one.id == id; });
      return nullptr;
    }
    subscriber->heard_ns = setup_.clock.now_ns();
    collect();
  }
  if (request.begins) {
    begin_presents(*subscriber);
    place.presents = 0;
  }
  return subscriber;
}

Expected<std::string> KeyFeed::answer(std::string_view argument) {
  auto question = read(argument);
  if (!question) return std::move(question).error();
  Place place{question->since, question->presents};
  auto subscriber = attend(question->request, place, [&] { return subscriber_of(*question); });
  if (!subscriber) return std::move(subscriber).error();
  if (*subscriber == nullptr) return std::string("{}\n");
  return page(**subscriber, place);
}

ipc::KeyEventsReply KeyFeed::follow(std::uint64_t session_id, const Tenant& tenant,
                                    const ipc::FollowKeys& question) {
  ipc::KeyEventsReply reply;
  reply.request_id = question.request_id;
  Place place{question.since, question.presents};
  const auto subscriber = attend({question.follower, session_id, question.begins, question.ends},
                                 place, [&]() -> Expected<Subscriber> {
                                   Subscriber made;
                                   made.session_id = session_id;
                                   made.tenant = tenant.id;
                                   made.name_space =
                                       setup_.tenants.namespace_id(question.name_space);
                                   return made;
                                 });
  if (!subscriber) {
    reply.status = subscriber.error().status;
    reply.reason = subscriber.error().context;
    return reply;
  }
  if (*subscriber == nullptr) return reply;
  place = read_on(**subscriber, place, ipc::kKeyNewsMax,
                  [&reply](std::uint64_t, std::uint64_t, const base::KeyEvent& event) {
                    reply.news.push_back({event.token, event.bytes, event.kind});
                  });
  reply.follower = (*subscriber)->id;
  reply.salt = salt_;
  reply.next = place.since;
  reply.presents = place.presents;
  reply.missed = place.missed;
  reply.is_last = place.is_last;
  reply.is_complete = place.is_complete;
  return reply;
}

void KeyFeed::leave_all(std::uint64_t session_id) noexcept {
  leave([session_id](const Subscriber& one) { return one.session_id == session_id; });
}

Expected<KeyFeed::Subscriber> KeyFeed::subscriber_of(const Question& question) const {
  Subscriber made;
  if (question.tenant) {
    const auto& all = setup_.tenants.tenants();
    const auto found = std::find_if(all.begin(), all.end(), [&](const Tenant& tenant) {
      return tenant.name == *question.tenant;
    });
    if (found == all.end()) {
      return Error{Status::invalid_argument, "tenant \"" + *question.tenant +
                                                 "\": there is none of that name; `simmctl "
                                                 "tenants` shows those that there are"};
    }
    made.tenant = found->id;
  }
  if (question.name_space) {
    made.name_space = setup_.tenants.namespace_id(*question.name_space);
    made.name_space_name = *question.name_space;
  }
  return made;
}

Expected<KeyFeed::Subscriber*> KeyFeed::add(Subscriber made) {
  const bool is_client = made.session_id != 0;
  const auto alike = std::count_if(subscribers_.begin(), subscribers_.end(), [&](const auto& one) {
    return (one->session_id != 0) == is_client && (!is_client || one->tenant == made.tenant);
  });
  const std::uint32_t most = is_client ? base::kKeyFollowersMax : base::kKeySubscribersMax;
  if (static_cast<std::uint32_t>(alike) >= most) {
    setup_.limits.reached(base::Limit::key_subscribers);
    return Error{Status::out_of_memory,
                 std::to_string(most) + (is_client ? " of this tenant" : "") +
                     " follow the events of keys already: end one, or wait until it is forgotten"};
  }
  try {
    if (subscribers_.empty()) listen();
    while (made.id == 0) made.id = setup_.random.next() >> 11;  // also a number of JavaScript's
    made.heard_ns = setup_.clock.now_ns();
    subscribers_.push_back(std::make_unique<Subscriber>(std::move(made)));
  } catch (const std::bad_alloc&) {
    close_if_alone();
    return Error{Status::out_of_memory, "no memory to keep events of keys"};
  }
  counters_.subscribers.set(subscribers_.size());
  return subscribers_.back().get();
}

void KeyFeed::listen() {
  entries_ = std::make_unique<std::array<Entry, kKeyEventsKept>>();
  // What an earlier follower was told of is not here: it would be a gap to it.
  oldest_ = ++newest_ + 1;
  for (const KeyShard& shard : setup_.shards) shard.tap->open(salt_);
  timer_.after(kCollectNs, [this] { look(); });
}

void KeyFeed::leave(const std::function<bool(const Subscriber&)>& is_one) {
  if (std::erase_if(subscribers_, [&](const auto& one) { return is_one(*one); }) == 0) return;
  counters_.subscribers.set(subscribers_.size());
  close_if_alone();
}

void KeyFeed::close_if_alone() {
  if (!subscribers_.empty()) return;
  timer_.cancel();
  for (const KeyShard& shard : setup_.shards) shard.tap->close();
  entries_.reset();
  walker_ = 0;
}

void KeyFeed::look() {
  collect();
  const base::TimeNs now_ns = setup_.clock.now_ns();
  leave([now_ns](const Subscriber& one) { return now_ns >= one.heard_ns + kKeyPatienceNs; });
  if (subscribers_.empty()) return;
  order_next_walk();
  timer_.after(kCollectNs, [this] { look(); });
}

// The time is that of the collection, at most some milliseconds after the event.
void KeyFeed::collect() {
  const std::uint64_t wall_ns = base::wall_time_ns();
  for (const KeyShard& shard : setup_.shards) {
    shard.tap->drain([&](const base::KeyEvent& event) { hear(event, wall_ns); },
                     [&](std::uint64_t lost) {
                       counters_.lost.add(lost);
                       counters_.gaps.add();
                       base::KeyEvent gap;
                       gap.kind = base::KeyEventKind::gap;
                       gap.bytes = lost;
                       add(gap, wall_ns);
                     });
  }
}

void KeyFeed::hear(const base::KeyEvent& event, std::uint64_t wall_ns) {
  if (event.walk != 0) return hear_walk(event, wall_ns);
  counters_.published.add();
  add(event, wall_ns);
}

void KeyFeed::add(const base::KeyEvent& event, std::uint64_t wall_ns) {
  Entry& entry = (*entries_)[++newest_ % kKeyEventsKept];
  entry.event = event;
  entry.wall_ns = wall_ns;
}

// Whoever left, or began anew, has no use for what an order of before tells.
void KeyFeed::hear_walk(const base::KeyEvent& event, std::uint64_t wall_ns) {
  if (event.walk != walk_number_) return;
  const auto found = std::find_if(subscribers_.begin(), subscribers_.end(),
                                  [&](const auto& one) { return one->id == walker_; });
  Subscriber* const walker = found == subscribers_.end() ? nullptr : found->get();
  const bool is_wanted = walker != nullptr && walker->state == Presents::ordered;
  if (!event.is_walk_end) {
    if (is_wanted && walker->may_see(event)) walker->waiting.push_back({newest_, wall_ns, event});
    return;
  }
  walker_ = 0;
  if (!is_wanted) return;
  walker->record = static_cast<std::uint32_t>(event.bytes);
  if (walker->record == 0) ++walker->shard;
  walker->state = walker->shard < setup_.shards.size() ? Presents::wanted : Presents::complete;
}

void KeyFeed::begin_presents(Subscriber& subscriber) noexcept {
  subscriber.state = Presents::wanted;
  subscriber.shard = 0;
  subscriber.record = 0;
  subscriber.taken = 0;
  subscriber.waiting.clear();
}

// In turn, and only for those who have read the page before.
void KeyFeed::order_next_walk() {
  if (walker_ != 0) return;
  for (std::size_t i = 0; i < subscribers_.size(); ++i) {
    const std::size_t at = (next_walker_ + i) % subscribers_.size();
    Subscriber& one = *subscribers_[at];
    if (one.state != Presents::wanted || !one.waiting.empty()) continue;
    base::KeyWalk walk;
    walk.number = walk_number_ + 1;
    if (walk.number == 0) walk.number = 1;
    walk.has_tenant = one.tenant.has_value();
    walk.tenant = one.tenant.value_or(base::TenantId{});
    walk.has_name_space = one.name_space.has_value();
    walk.name_space = one.name_space.value_or(base::NamespaceId{});
    walk.next = one.record;
    const KeyShard& shard = setup_.shards[one.shard];
    if (!shard.tap->order_walk(walk)) return;  // that of somebody who left is not over
    walk_number_ = walk.number;
    walker_ = one.id;
    one.state = Presents::ordered;
    next_walker_ = at + 1;
    if (shard.waiter != nullptr) shard.waiter->wake();
    return;
  }
}

KeyFeed::Place KeyFeed::read_on(
    Subscriber& subscriber, Place place, std::uint32_t most,
    const std::function<void(std::uint64_t, std::uint64_t, const base::KeyEvent&)>& use) {
  std::uint64_t first = std::max(std::min(place.since, newest_) + 1, oldest_);
  if (newest_ >= kKeyEventsKept) first = std::max(first, newest_ - kKeyEventsKept + 1);
  Place next{first - 1, place.presents};
  next.missed = first - std::min(place.since, newest_) - 1;
  if (next.missed > 0) {
    counters_.overruns.add();
    subscriber.state = Presents::unwanted;
    subscriber.waiting.clear();
  }
  // What it has read it does not need again.
  for (; subscriber.taken < place.presents && !subscriber.waiting.empty(); ++subscriber.taken) {
    subscriber.waiting.pop_front();
  }
  next.presents = subscriber.taken;
  auto present = subscriber.waiting.begin();
  for (std::uint32_t count = 0; count < most;) {
    if (present != subscriber.waiting.end() && present->behind <= next.since) {
      use(next.since, present->wall_ns, present->event);
      ++present, ++next.presents, ++count;
      continue;
    }
    if (next.since == newest_) break;
    const Entry& entry = (*entries_)[++next.since % kKeyEventsKept];
    if (entry.event.kind != base::KeyEventKind::gap && !subscriber.may_see(entry.event)) continue;
    use(next.since, entry.wall_ns, entry.event);
    ++count;
  }
  const bool is_all = present == subscriber.waiting.end();
  next.is_last = is_all && next.since == newest_;
  next.is_complete = is_all && subscriber.state == Presents::complete;
  return next;
}

std::string KeyFeed::page(Subscriber& subscriber, Place place) {
  std::string lines;
  std::set<std::uint64_t> tenants;
  place = read_on(subscriber, place, kKeyEventsPageMax,
                  [&](std::uint64_t number, std::uint64_t wall_ns, const base::KeyEvent& event) {
                    append_line(lines, number, wall_ns, event);
                    if (event.kind != base::KeyEventKind::gap) tenants.insert(event.tenant.value);
                  });
  ordered_json tenant_names = ordered_json::object();
  for (const std::uint64_t id : tenants) {
    const Tenant* const known = setup_.tenants.find({id});
    tenant_names[hex_of(id)] = known == nullptr ? "#" + hex_of(id) : known->name;
  }
  ordered_json name_spaces = {{hex_of(setup_.tenants.namespace_id("").value), "(default)"}};
  if (subscriber.name_space && !subscriber.name_space_name.empty()) {
    name_spaces[hex_of(subscriber.name_space->value)] = subscriber.name_space_name;
  }
  return base::json_text(ordered_json{{"life", std::to_string(life_)},
                                      {"subscriber", subscriber.id},
                                      {"next", place.since},
                                      {"presents", place.presents},
                                      {"missed", place.missed},
                                      {"is_last", place.is_last},
                                      {"is_complete", place.is_complete},
                                      {"tenants", std::move(tenant_names)},
                                      {"name_spaces", std::move(name_spaces)}}) +
         "\n" + lines;
}

}  // namespace simm::control
