// TopView: what `simmctl top` shows of one moment, as lines: of a daemon, or of its cluster. The
// first lines stay, those below are scrolled, and the last row of a terminal is for the keys.
// Thread: any.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/tools/simmctl/screen.h"

namespace simm::ctl {

// One moment, as `simmctl --json top` writes it: {"seconds", "daemon", "clients", "pool",
// "network", "tenants"}, or {"seconds", "daemon", "epoch", "totals", "nodes"}.
using TopLook = nlohmann::ordered_json;

// By what rows are sorted, and the key that asks for it. Rows are tenants of a daemon, or daemons.
struct TopSort {
  char key;
  std::string_view word;  // as behind --sort
  const char* of_daemon;  // the member of a daemon's row
  const char* of_tenant;  // the member of a tenant's row; null: there is none
};
const std::vector<TopSort>& top_sorts();

class TopView {
public:
  // `sort`: a word of top_sorts().
  explicit TopView(std::string_view sort) { sort_by(sort); }

  // Whether the key means something here.
  bool on_key(char key, ScreenSize size);
  // Empty: the daemon answers. Else why it is waited for.
  void set_trouble(std::string trouble) { trouble_ = std::move(trouble); }

  // As many lines as the terminal has rows, at most.
  [[nodiscard]] std::vector<Line> screen(const TopLook& look, ScreenSize size);
  // All lines, for what is no terminal.
  [[nodiscard]] std::vector<Line> lines(const TopLook& look, std::size_t columns) const;

private:
  struct Parts {
    std::vector<Line> head;
    std::vector<Line> body;
  };
  void sort_by(std::string_view word);
  [[nodiscard]] Parts parts(const TopLook& look, ScreenSize size) const;
  [[nodiscard]] Parts of_daemon(const TopLook& look, std::size_t columns) const;
  [[nodiscard]] Parts of_cluster(const TopLook& look, ScreenSize size) const;
  [[nodiscard]] nlohmann::ordered_json sorted(const nlohmann::ordered_json& rows,
                                              const char* member) const;
  [[nodiscard]] Line footer(std::size_t hidden) const;

  std::size_t sort_ = 0;
  bool is_reversed_ = false;
  std::size_t first_ = 0;  // of the body's lines that is shown
  std::string trouble_;
};

}  // namespace simm::ctl
