// Chat templates in the Jinja language, as transformers runs them.
//
// The language is Python's Jinja 3.1 with what transformers sets: trim_blocks, lstrip_blocks, the
// tags break, continue and generation, a sandbox in which nothing can be changed, its own tojson,
// raise_exception and strftime_now. Tags that need other templates (include, import, extends,
// block) are refused. Steps, memory, nesting and output of a run are bounded.
//
// Thread: const methods may be called from any thread.
#ifndef NG_CORE_TEXT_JINJA_TEMPLATE_H_
#define NG_CORE_TEXT_JINJA_TEMPLATE_H_

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>

#include "core/text/jinja/parser.h"
#include "core/text/jinja/run.h"
#include "core/text/jinja/text.h"
#include "ng/status.h"

namespace ng::jinja {

// A variable that is made once for many renderings, since its value may be large. All its texts are
// data.
class SharedVariable {
 public:
  // Errors: UsageError where a text of the value is no valid UTF-8 or a number too large, and where
  // it is nested too deep; `where` is the template's name, with which they begin.
  static absl::StatusOr<SharedVariable> Make(std::string name, const nlohmann::ordered_json& value,
                                             std::string where);

  const std::string& name() const { return name_; }
  const Value& value() const { return value_; }
  int64_t bytes() const { return bytes_; }  // of its texts, and some for each value

 private:
  std::string name_;
  Value value_;
  int64_t bytes_ = 0;
};

// The variables of a template. Their texts are data, but for those at the paths that `trusted`
// takes, which are the words of ng and of the model's own files.
struct Variables {
  const nlohmann::ordered_json& values;  // an object
  // `path` is the place of a text: "bos_token", "messages.3.role".
  std::function<bool(std::string_view path, std::string_view text)> trusted;
  const SharedVariable* shared = nullptr;  // none of `values`
};

// Now, as a clock at the wall shows it.
Moment LocalNow();

class Template {
 public:
  // `name` is what errors call it. Errors: ModelFileError: "NAME: line 3: ...".
  static absl::StatusOr<Template> Parse(std::string_view source, std::string name);

  // Errors: ModelFileError where the template is wrong or takes too much; UsageError where it calls
  // raise_exception, and where a text of the variables is no valid UTF-8 or a number too large.
  absl::StatusOr<Text> Render(const Variables& variables, Moment now,
                              const Limits& limits = {}) const;

  const std::string& name() const { return name_; }
  // Every variable and function that it reads, its own too.
  const std::set<std::string, std::less<>>& names() const { return parsed_->names; }

 private:
  std::string name_;
  std::shared_ptr<const ParsedTemplate> parsed_;
};

}  // namespace ng::jinja

#endif  // NG_CORE_TEXT_JINJA_TEMPLATE_H_
