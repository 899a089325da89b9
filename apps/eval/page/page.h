// The page of a card of methods: one HTML file that needs nothing else.
#ifndef NG_APPS_EVAL_PAGE_PAGE_H_
#define NG_APPS_EVAL_PAGE_PAGE_H_

#include <atomic>
#include <nlohmann/json.hpp>
#include <string>

#include "ng/status.h"

namespace ng::eval {

struct CardPage {
  nlohmann::ordered_json summary;  // as Summarise gives it
  nlohmann::ordered_json run;      // what was run
  std::string command;             // that gives the card again
};

std::string CardPageText(const CardPage& page);
// Writes the page whole or not at all. Errors: OutputError, InterruptedError.
absl::Status WriteCardPage(const std::string& path, const CardPage& page,
                           const std::atomic<bool>* stop);

}  // namespace ng::eval

#endif  // NG_APPS_EVAL_PAGE_PAGE_H_
