#include "daemon/tools/simmctl/top_view.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace simm::ctl {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kLabel = 9;  // columns of "clients  "

// Of one member that may be missing, in what another release says.
const ordered_json& at(const ordered_json& object, const char* name) {
  static const ordered_json nothing;
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() ? *found : nothing;
}

std::string word_at(const ordered_json& object, const char* name) {
  const ordered_json& value = at(object, name);
  return value.is_string() ? escaped(value.get<std::string>()) : "?";
}

double number_at(const ordered_json& object, const char* name) {
  const ordered_json& value = at(object, name);
  return value.is_number() ? value.get<double>() : 0.0;
}

// "pool     [#####     ] 12.0G of 24.0G": the bar takes what is left.
Line meter(const std::string& label, double share, const std::string& text, std::size_t columns) {
  const std::size_t taken = kLabel + text.size() + 1;
  const std::size_t room = columns > taken ? columns - taken : 0;
  return {{left(label, kLabel)},
          {bar(share, std::min<std::size_t>(room, 50)), Paint::good},
          {" " + text}};
}

struct Field {
  std::string text;
  bool is_trouble = false;
};

// "clients  3 sessions, 1.0k batches/s", on as many lines as it takes.
void flow(std::vector<Line>& lines, const std::string& label, const std::vector<Field>& fields,
          std::size_t columns) {
  Line line = {{left(label, kLabel)}};
  std::size_t used = kLabel;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string text = fields[i].text + (i + 1 < fields.size() ? ", " : "");
    if (used > kLabel && used + text.size() > columns + 1) {
      lines.push_back(std::exchange(line, {{std::string(kLabel, ' ')}}));
      used = kLabel;
    }
    line.push_back({text, fields[i].is_trouble ? Paint::bad : Paint::plain});
    used += text.size();
  }
  lines.push_back(std::move(line));
}

Field rate(const ordered_json& of, const char* name, const char* unit) {
  return {short_count(at(of, name)) + " " + unit + "/s"};
}
Field bytes_rate(const ordered_json& of, const char* name, const char* way) {
  const std::string text = short_bytes(at(of, name)) + "/s";
  return {*way == '\0' ? text : text + " " + way};
}
Field trouble(const ordered_json& of, const char* name, const char* unit) {
  return {short_count(at(of, name)) + " " + unit + "/s", number_at(of, name) > 0};
}

Line title(const TopLook& look) {
  const ordered_json& daemon = at(look, "daemon");
  const auto up_ms = static_cast<std::uint64_t>(number_at(daemon, "uptime_ms"));
  std::string name = "simmd " + word_at(daemon, "role");
  if (at(daemon, "name").is_string()) name += " " + word_at(daemon, "name");
  return {{name, Paint::title},
          {", pid " + at(daemon, "pid").dump() + ", up " + short_time(up_ms) + ", version " +
           word_at(daemon, "version")}};
}

struct Column {
  const char* heading;
  const char* member;
  std::size_t width;  // 0: what is left, for names
  std::string (*text)(const ordered_json& row, const char* member);
};

std::string text_cell(const ordered_json& row, const char* member) {
  return word_at(row, member);
}
std::string count_cell(const ordered_json& row, const char* member) {
  return short_count(at(row, member));
}
std::string bytes_cell(const ordered_json& row, const char* member) {
  return short_bytes(at(row, member));
}
std::string us_cell(const ordered_json& row, const char* member) {
  return short_us(at(row, member));
}
std::string percent_cell(const ordered_json& row, const char* member) {
  return short_percent(at(row, member));
}
// Of a daemon without a part of the pool there is nothing to say.
std::string used_cell(const ordered_json& row, const char* member) {
  const double pool = number_at(row, "pool_bytes");
  return pool <= 0 ? "-" : short_percent(100 * number_at(row, member) / pool);
}

// In the order in which narrow terminals leave them out, from the end.
constexpr std::array kDaemonColumns = {
    Column{"DAEMON", "name", 0, text_cell},
    Column{"STATE", "state", 5, text_cell},
    Column{"USED%", "used_bytes", 5, used_cell},
    Column{"HIT%", "hit_percent", 4, percent_cell},
    Column{"GOT/s", "got_bytes_per_s", 5, bytes_cell},
    Column{"PUT/s", "put_bytes_per_s", 5, bytes_cell},
    Column{"P99", "batch_p99_us", 6, us_cell},
    Column{"IN/s", "in_bytes_per_s", 5, bytes_cell},
    Column{"OUT/s", "out_bytes_per_s", 5, bytes_cell},
    Column{"SESS", "sessions", 4, count_cell},
    Column{"PAGES/s", "pages_per_s", 7, count_cell},
    Column{"SLOTS", "slots", 5, count_cell},
    Column{"OBJECTS", "objects", 7, count_cell},
    Column{"ROLE", "role", 7, text_cell},
    Column{"P50", "batch_p50_us", 6, us_cell},
    Column{"SERVED/s", "served_bytes_per_s", 8, bytes_cell},
    Column{"STORED/s", "stored_bytes_per_s", 8, bytes_cell},
    Column{"EVICT/s", "evicted_per_s", 7, count_cell},
};
constexpr std::array kTenantColumns = {
    Column{"TENANT", "tenant", 0, text_cell},
    Column{"GOT/s", "got_bytes_per_s", 6, bytes_cell},
    Column{"PUT/s", "put_bytes_per_s", 6, bytes_cell},
    Column{"WAITS/s", "held_per_s", 7, count_cell},
};

constexpr std::size_t kNameMin = 10;
constexpr std::size_t kNameMax = 32;

Paint paint_of(const Column& column, const ordered_json& row) {
  if (std::strcmp(column.member, "state") != 0) return Paint::plain;
  const std::string state = word_at(row, "state");
  return state == "live" ? Paint::good : state == "gone" ? Paint::bad : Paint::warn;
}

// The heading, then a line for each row. The column by which rows are sorted is marked with a '*'.
template <std::size_t kCount>
std::vector<Line> table(const std::array<Column, kCount>& columns, const ordered_json& rows,
                        std::size_t width, const char* sorted_by) {
  std::size_t names = std::strlen(columns[0].heading) + 1;
  for (const ordered_json& row : rows) {
    names = std::max(names, columns[0].text(row, columns[0].member).size());
  }
  names = std::clamp(names, kNameMin, kNameMax);
  std::size_t shown = 1;
  std::size_t used = kNameMin;
  while (shown < kCount && used + columns[shown].width + 2 <= width) {
    used += columns[shown++].width + 2;
  }
  names = std::min(names, kNameMin + (width > used ? width - used : 0));
  std::vector<Line> lines(1);
  for (std::size_t i = 0; i < shown; ++i) {
    const bool is_sort = sorted_by != nullptr && std::strcmp(columns[i].member, sorted_by) == 0;
    const std::string heading = std::string(is_sort ? "*" : "") + columns[i].heading;
    lines[0].push_back({i == 0 ? left(heading, names) : right(heading, columns[i].width + 2),
                        is_sort ? Paint::title : Paint::faint});
  }
  for (const ordered_json& row : rows) {
    Line& line = lines.emplace_back();
    line.push_back({left(columns[0].text(row, columns[0].member), names)});
    for (std::size_t i = 1; i < shown; ++i) {
      const std::string text = cut(columns[i].text(row, columns[i].member), columns[i].width);
      line.push_back({right(text, columns[i].width + 2), paint_of(columns[i], row)});
    }
  }
  return lines;
}

}  // namespace

const std::vector<TopSort>& top_sorts() {
  static const std::vector<TopSort> sorts = {
      {'n', "name", "name", "tenant"},
      {'g', "got", "got_bytes_per_s", "got_bytes_per_s"},
      {'p', "put", "put_bytes_per_s", "put_bytes_per_s"},
      {'w', "waits", nullptr, "held_per_s"},
      {'h', "hits", "hit_percent", nullptr},
      {'l', "latency", "batch_p99_us", nullptr},
      {'u', "used", "used_bytes", nullptr},
      {'i', "in", "in_bytes_per_s", nullptr},
      {'o', "out", "out_bytes_per_s", nullptr},
      {'s', "state", "state", nullptr},
  };
  return sorts;
}

void TopView::sort_by(std::string_view word) {
  for (std::size_t i = 0; i < top_sorts().size(); ++i) {
    if (top_sorts()[i].word == word) sort_ = i;
  }
}

bool TopView::on_key(char key, ScreenSize size) {
  const std::size_t page = size.rows > 4 ? size.rows - 4 : 1;
  switch (key) {
    case 'r':
      is_reversed_ = !is_reversed_;
      return true;
    case 'j':
      ++first_;  // screen() bounds it
      return true;
    case 'k':
      first_ -= std::min<std::size_t>(first_, 1);
      return true;
    case ' ':
      first_ += page;
      return true;
    case 'b':
      first_ -= std::min(first_, page);
      return true;
    default:
      break;
  }
  for (std::size_t i = 0; i < top_sorts().size(); ++i) {
    if (top_sorts()[i].key != key) continue;
    sort_ = i;
    return true;
  }
  return false;
}

// Names from A to Z, numbers from the largest; what has no number comes last.
ordered_json TopView::sorted(const ordered_json& rows, const char* member) const {
  std::vector<const ordered_json*> order;
  for (const ordered_json& row : rows) order.push_back(&row);
  const auto comes_first = [member](const ordered_json* a, const ordered_json* b) {
    const ordered_json& x = at(*a, member);
    const ordered_json& y = at(*b, member);
    if (x.is_string() && y.is_string()) return x < y;
    if (x.is_number() && y.is_number()) return x > y;
    return x.is_number() && !y.is_number();
  };
  if (member != nullptr) std::stable_sort(order.begin(), order.end(), comes_first);
  if (is_reversed_) std::reverse(order.begin(), order.end());
  ordered_json out = ordered_json::array();
  for (const ordered_json* const row : order) out.push_back(*row);
  return out;
}

TopView::Parts TopView::of_daemon(const TopLook& look, std::size_t columns) const {
  const ordered_json& clients = at(look, "clients");
  const ordered_json& pool = at(look, "pool");
  const ordered_json& network = at(look, "network");
  Parts parts;
  parts.head = {title(look)};
  std::vector<Line>& body = parts.body;
  const bool has_pool = number_at(pool, "arena_bytes") > 0;
  if (has_pool) {
    body.push_back(
        meter("pool", number_at(pool, "used_bytes") / number_at(pool, "arena_bytes"),
              short_bytes(at(pool, "used_bytes")) + " of " + short_bytes(at(pool, "arena_bytes")),
              columns));
  }
  body.push_back(meter("hits", number_at(clients, "hit_percent") / 100,
                       short_percent(at(clients, "hit_percent")) + " %", columns));
  flow(body, "clients",
       {{at(clients, "sessions").dump() + " sessions"},
        rate(clients, "batches_per_s", "batches"),
        rate(clients, "pages_per_s", "pages"),
        bytes_rate(clients, "got_bytes_per_s", "got"),
        bytes_rate(clients, "put_bytes_per_s", "put")},
       columns);
  flow(body, "batches",
       {{"p50 < " + short_us(at(clients, "batch_p50_us"))},
        {"p99 < " + short_us(at(clients, "batch_p99_us"))},
        {"max < " + short_us(at(clients, "batch_max_us"))},
        trouble(clients, "timeouts_per_s", "timeouts"),
        trouble(clients, "unreachable_per_s", "unreachable")},
       columns);
  flow(body, "network",
       {bytes_rate(network, "tcp_in_bytes_per_s", "in by TCP"),
        bytes_rate(network, "tcp_out_bytes_per_s", "out"),
        bytes_rate(network, "rdma_in_bytes_per_s", "in by RDMA"),
        bytes_rate(network, "rdma_out_bytes_per_s", "out")},
       columns);
  if (has_pool) {
    flow(body, "served",
         {rate(pool, "get_pages_per_s", "gets"),
          bytes_rate(pool, "get_bytes_per_s", ""),
          {short_percent(at(pool, "get_hit_percent")) + " % hits"},
          rate(pool, "exists_per_s", "exists"),
          {short_percent(at(pool, "exists_hit_percent")) + " % hits"}},
         columns);
    flow(body, "stored",
         {rate(pool, "put_pages_per_s", "puts"), bytes_rate(pool, "put_bytes_per_s", "")}, columns);
    flow(body, "objects",
         {{at(pool, "objects").dump()},
          {short_bytes(at(pool, "leased_bytes")) + " leased"},
          rate(pool, "evicted_per_s", "evicted"),
          trouble(pool, "lost_in_lease_per_s", "lost in a lease")},
         columns);
  }
  const ordered_json& tenants = at(look, "tenants");
  if (tenants.size() < 2) return parts;
  const char* const member = top_sorts()[sort_].of_tenant;
  for (Line& line : table(kTenantColumns, sorted(tenants, member), columns, member)) {
    body.push_back(std::move(line));
  }
  return parts;
}

TopView::Parts TopView::of_cluster(const TopLook& look, ScreenSize size) const {
  const ordered_json& totals = at(look, "totals");
  Parts parts;
  std::string states;
  for (const auto& [state, count] : at(totals, "states").items()) {
    states += ", " + count.dump() + " " + escaped(state);
  }
  parts.head.push_back({{at(totals, "daemons").dump() + " daemons", Paint::title},
                        {states + ", map " + at(look, "epoch").dump()}});
  std::vector<Line> sums;
  const double pool = number_at(totals, "pool_bytes");
  sums.push_back(
      meter("pool", pool > 0 ? number_at(totals, "used_bytes") / pool : 0,
            short_bytes(at(totals, "used_bytes")) + " of " + short_bytes(at(totals, "pool_bytes")),
            size.columns));
  sums.push_back(meter("hits", number_at(totals, "hit_percent") / 100,
                       short_percent(at(totals, "hit_percent")) + " %", size.columns));
  flow(sums, "clients",
       {{at(totals, "sessions").dump() + " sessions"},
        rate(totals, "pages_per_s", "pages"),
        bytes_rate(totals, "got_bytes_per_s", "got"),
        bytes_rate(totals, "put_bytes_per_s", "put"),
        {"worst p99 < " + short_us(at(totals, "worst_batch_p99_us"))},
        trouble(totals, "timeouts_per_s", "timeouts")},
       size.columns);
  // Daemons are what the screen is for: with few rows they come first.
  if (size.rows >= 12) std::move(sums.begin(), sums.end(), std::back_inserter(parts.head));
  const char* const member = top_sorts()[sort_].of_daemon;
  std::vector<Line> rows =
      table(kDaemonColumns, sorted(at(look, "nodes"), member), size.columns, member);
  parts.head.push_back(std::move(rows.front()));
  parts.body.assign(std::make_move_iterator(rows.begin() + 1), std::make_move_iterator(rows.end()));
  if (size.rows < 12) std::move(sums.begin(), sums.end(), std::back_inserter(parts.body));
  return parts;
}

TopView::Parts TopView::parts(const TopLook& look, ScreenSize size) const {
  Parts parts = look.contains("nodes") ? of_cluster(look, size) : of_daemon(look, size.columns);
  if (!trouble_.empty())
    parts.head.insert(parts.head.begin() + 1, {{"waiting: " + escaped(trouble_), Paint::bad}});
  return parts;
}

Line TopView::footer(std::size_t hidden) const {
  std::string sorts;
  for (const TopSort& sort : top_sorts()) sorts += sort.key;
  std::string text = "q quit  sort: " + std::string(top_sorts()[sort_].word) +
                     (is_reversed_ ? " (reversed)" : "") + "  keys: " + sorts + " r";
  if (hidden > 0) text = std::to_string(hidden) + " more: j k  " + text;
  return {{text, Paint::faint}};
}

std::vector<Line> TopView::screen(const TopLook& look, ScreenSize size) {
  Parts shown = parts(look, size);
  std::vector<Line> lines = std::move(shown.head);
  if (size.rows < lines.size() + 2) {
    lines.resize(std::min(lines.size(), size.rows));
    return lines;
  }
  const std::size_t room = size.rows - lines.size() - 1;
  const std::size_t last = shown.body.size() > room ? shown.body.size() - room : 0;
  first_ = std::min(first_, last);
  const std::size_t end = std::min(first_ + room, shown.body.size());
  for (std::size_t i = first_; i < end; ++i) lines.push_back(std::move(shown.body[i]));
  lines.resize(size.rows - 1);
  lines.push_back(footer(last));
  return lines;
}

std::vector<Line> TopView::lines(const TopLook& look, std::size_t columns) const {
  Parts all = parts(look, {columns, 24});
  std::move(all.body.begin(), all.body.end(), std::back_inserter(all.head));
  return std::move(all.head);
}

}  // namespace simm::ctl
