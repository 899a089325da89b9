#include "apps/serve/views.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "apps/view/run_facts.h"
#include "ng/config.h"

namespace ng::serve {

void Views::Keep(std::string name, ViewedAnswer answer) {
  if (!kept()) return;
  if (answers_.size() == most_) answers_.pop_front();
  answers_.emplace_back(std::move(name), std::make_shared<const ViewedAnswer>(std::move(answer)));
}

std::shared_ptr<const ViewedAnswer> Views::Find(std::string_view name) const {
  const auto found = std::ranges::find(answers_, name, [](const auto& kept) { return kept.first; });
  return found == answers_.end() ? nullptr : found->second;
}

absl::StatusOr<std::string> ViewPage(const Engine& engine, const ViewedEngine& of,
                                     const ViewedAnswer& answer) {
  view::Page page;
  page.model = engine.config().Text("model.path");
  page.title = of.facts.front().second;
  page.summary = of.facts;
  page.config = engine.config().ToIni();
  page.stop_reason = StopReasonName(answer.reason);
  // The draws of the further answers to one prompt are those of no single run.
  page.replay =
      answer.request.draw > 0
          ? "(an answer beside others to the same prompt has draws of its own)"
          : absl::StrCat(view::ReplayCommand(of.config_file, engine.config(), answer.request),
                         " --view answer.html");
  page.ids = answer.request.prompt_ids;
  page.prompt_len = std::ssize(page.ids);
  page.steps = answer.steps;
  for (const StepRecord& step : answer.steps) page.ids.push_back(step.token_id);
  NG_RETURN_IF_ERROR(view::FillTexts(engine, &page));
  return view::PageText(page);
}

}  // namespace ng::serve
