#include "daemon/metrics/metrics_page.h"

#include <utility>

#include "simm/version.h"

namespace simm::control {

MetricsPage::MetricsPage(const base::Clock& clock, const base::CounterSet& counters,
                         const ThreadWatch& watch, MetricsSource& source, std::string role)
    : clock_(clock), counters_(counters), watch_(watch), source_(source), role_(std::move(role)) {}

MetricsPage::Text MetricsPage::metrics() {
  const base::TimeNs now_ns = clock_.now_ns();
  if (kept_ != nullptr && now_ns < kept_until_ns_) return kept_;
  kept_ = std::make_shared<const std::string>(make());
  made_in_ns_ = clock_.now_ns() - now_ns;
  kept_until_ns_ = now_ns + made_in_ns_ + kKeptNs;
  return kept_;
}

std::string MetricsPage::make() {
  MetricsText text;
  text.reserve(kept_ == nullptr ? 0 : kept_->size() + kept_->size() / 8);
  text.family("simm_build_info", MetricType::gauge, "Always 1; the labels say what runs here.");
  text.sample({{"version", SIMM_VERSION_STRING}, {"role", role_}}, 1);
  text.family("simm_ready", MetricType::gauge, "1: the daemon does its work; as /readyz.");
  text.sample("", std::uint64_t{not_ready().empty() ? 1U : 0U});
  if (!watch_.threads().empty()) {
    text.family("simm_thread_turn_age_seconds", MetricType::gauge,
                "For how long a data thread has not come round, seen once a second.");
    for (const ThreadWatch::Seen& seen : watch_.threads()) {
      text.sample(label_text({{"thread", seen.thread}}),
                  static_cast<double>(watch_.age_ns(seen)) / kNsInSecond);
    }
  }
  source_.write_metrics(text);
  counters_.write(text);
  process_.write(text);
  text.family("simm_metrics_render_seconds", MetricType::gauge,
              "How long the control thread was busy with the page before this one.");
  text.sample("", static_cast<double>(made_in_ns_) / kNsInSecond);
  return text.take();
}

std::string MetricsPage::not_alive() const {
  const std::string stuck = watch_.stuck();
  return stuck.empty() ? std::string() : "thread " + stuck + " has not come round for 10 s";
}

std::string MetricsPage::not_ready() const {
  std::string why = not_alive();
  return why.empty() ? source_.not_ready() : why;
}

}  // namespace simm::control
