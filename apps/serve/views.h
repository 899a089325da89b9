// Views: what the last answers were made of, for pages that show it.
//
// Thread: the server's; what is found may be read on any.
#ifndef NG_APPS_SERVE_VIEWS_H_
#define NG_APPS_SERVE_VIEWS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/view/page.h"
#include "ng/engine.h"
#include "ng/request.h"
#include "ng/status.h"

namespace ng::serve {

// One choice of an answer.
struct ViewedAnswer {
  GenerateRequest request;
  std::vector<StepRecord> steps;
  StopReason reason = StopReason::kInterrupted;
};

class Views {
 public:
  // Keeps the last `most`; 0: none.
  explicit Views(size_t most) : most_(most) {}

  bool kept() const { return most_ > 0; }
  void Keep(std::string name, ViewedAnswer answer);
  // Null: there is none of this name, or not any more.
  std::shared_ptr<const ViewedAnswer> Find(std::string_view name) const;

 private:
  size_t most_;
  std::deque<std::pair<std::string, std::shared_ptr<const ViewedAnswer>>> answers_;
};

// What all pages say alike.
struct ViewedEngine {
  view::Facts facts;
  std::string config_file;  // empty: none
};

// The page of an answer, without attention, which other answers run beside: its command gives the
// same run once more, with all there is to see. Errors: those of Engine::Decode.
absl::StatusOr<std::string> ViewPage(const Engine& engine, const ViewedEngine& of,
                                     const ViewedAnswer& answer);

}  // namespace ng::serve

#endif  // NG_APPS_SERVE_VIEWS_H_
