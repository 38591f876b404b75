#include "daemon/tools/simmctl/table.h"

#include <algorithm>
#include <vector>

namespace simm::ctl {
namespace {

using nlohmann::ordered_json;
using Row = std::vector<std::string>;

std::string cell(const ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// Columns as wide as their widest cell; the last one as it is.
std::string aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text += std::string(widths[i] - row[i].size() + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

std::string table_of_list(const ordered_json& list) {
  if (list.empty()) return "(none)\n";
  std::vector<Row> rows(1);
  for (const auto& [name, value] : list.front().items()) rows[0].push_back(name);
  for (const ordered_json& entry : list) {
    Row& row = rows.emplace_back();
    for (const std::string& name : rows[0]) {
      row.push_back(entry.contains(name) ? cell(entry[name]) : "");
    }
  }
  return aligned(rows);
}

}  // namespace

std::string table_of(const ordered_json& value) {
  const bool list = value.is_array() && std::all_of(value.begin(), value.end(),
                                                    [](const auto& e) { return e.is_object(); });
  if (list) return table_of_list(value);
  if (!value.is_object()) return cell(value) + "\n";
  std::vector<Row> rows;
  std::string lists;
  for (const auto& [name, member] : value.items()) {
    if (member.is_array() && !member.empty() && member.front().is_object()) {
      lists += name + ":\n" + table_of_list(member);
    } else {
      rows.push_back({name, cell(member)});
    }
  }
  return aligned(rows) + lists;
}

}  // namespace simm::ctl
