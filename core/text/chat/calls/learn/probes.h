// Probing conversations: what a template writes of an answer with these calls, this content and
// these thoughts.
#ifndef NG_CORE_TEXT_CHAT_CALLS_LEARN_PROBES_H_
#define NG_CORE_TEXT_CHAT_CALLS_LEARN_PROBES_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/chat/calls/symbols.h"

namespace ng::calls {

// A template as the learner sees it.
struct ProbedTemplate {
  // The text of a conversation, as JSON, with ProbeTools(); nothing where the template refuses it.
  std::function<std::optional<Symbols>(const nlohmann::ordered_json& messages, bool asks)> render;
  // A text of the template's own, in which marks that are tokens are these.
  std::function<Symbols(std::string_view literal)> mark;
  std::function<std::string(char32_t token)> token_text;
  char32_t end = 0;          // the token that ends an answer; 0: none
  std::string_view program;  // the template itself
};

// The names of the two tools that are called, their calls' ids, and the arguments that they have.
inline constexpr std::string_view kProbeNames[] = {"ngalpha", "ngbeta"};
inline constexpr std::string_view kProbeIds[] = {"ngid00001", "ngid00002"};
// A list of these tools, as conversations have them. They do not tell of the argument that is null:
// templates know no such type.
nlohmann::ordered_json ProbeTools();

struct ProbedAnswer {
  std::string content = {};
  std::string thoughts = {};
  // Of a call of each of the tools, in order; at most two.
  std::vector<nlohmann::ordered_json> arguments = {};
  bool ids_from_names = false;  // the calls' ids are "functions.NAME:INDEX"
};

class Prober {
 public:
  // `arguments_text`: calls are shown to the template with their arguments as JSON text.
  Prober(const ProbedTemplate& probed, bool arguments_text);

  // What the template writes of an answer, from where the prompt ends to where the answer does.
  std::optional<Symbols> Answer(const ProbedAnswer& answer) const;
  // The same with what comes before the answer, from the end of what the user said.
  std::optional<Symbols> Turn(const ProbedAnswer& answer) const;
  // How much of a turn the prompt has already written.
  size_t HeaderOf(SymbolsView turn) const;
  const ProbedTemplate& probed() const { return *probed_; }

 private:
  void FindEnd();

  const ProbedTemplate* probed_;
  bool arguments_text_;
  Symbols asking_;
  char32_t end_ = 0;  // the token with which an answer's end begins
  Symbols ending_;    // where there is none: what follows an answer
};

// Whether a mark may begin or end between two symbols, `at` of `text`.
bool IsJoint(SymbolsView text, size_t at);
// The longest beginning that both have, and the longest end, up to where a mark may end in both.
SymbolsView SharedBeginning(SymbolsView a, SymbolsView b);
SymbolsView SharedEnd(SymbolsView a, SymbolsView b);
// A mark taken apart where one of several marks may end.
std::vector<Symbols> PartsOf(SymbolsView mark);

}  // namespace ng::calls

#endif  // NG_CORE_TEXT_CHAT_CALLS_LEARN_PROBES_H_
