// Choices: what a person chooses by name. The names of an enum stand beside the enum, in the order
// of its values, as one text: "shared|dedicated". Configuration, schema and command lines read them
// there. Thread: any.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace simm::base {

// The first of the names, which is taken off them.
constexpr std::string_view take_choice(std::string_view& names) noexcept {
  const std::size_t bar = std::min(names.find('|'), names.size());
  const std::string_view first = names.substr(0, bar);
  names.remove_prefix(std::min(bar + 1, names.size()));
  return first;
}

// The place of a name among them; nothing: it is none of them.
constexpr std::optional<std::uint32_t> find_choice(std::string_view names,
                                                   std::string_view name) noexcept {
  for (std::uint32_t i = 0; !names.empty(); ++i) {
    if (take_choice(names) == name) return i;
  }
  return std::nullopt;
}

template <typename Choice>
constexpr std::string_view choice_name(std::string_view names, Choice choice) noexcept {
  for (auto i = static_cast<std::size_t>(choice); i > 0; --i) (void)take_choice(names);
  return take_choice(names);
}

// Every value, for what treats all of them alike.
template <typename Choice>
std::vector<Choice> all_choices(std::string_view names) {
  std::vector<Choice> all;
  for (; !names.empty(); (void)take_choice(names)) all.push_back(static_cast<Choice>(all.size()));
  return all;
}

inline std::vector<std::string> choice_list(std::string_view names) {
  std::vector<std::string> all;
  while (!names.empty()) all.emplace_back(take_choice(names));
  return all;
}

}  // namespace simm::base
