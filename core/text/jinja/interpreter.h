// Runs the nodes of a template.
#ifndef NG_CORE_TEXT_JINJA_INTERPRETER_H_
#define NG_CORE_TEXT_JINJA_INTERPRETER_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/jinja/functions.h"
#include "core/text/jinja/node.h"
#include "core/text/jinja/run.h"

namespace ng::jinja {

// The variables of a block; what is not found here is looked for in the block around it.
struct Scope {
  std::map<std::string, Value, std::less<>> variables;
  std::shared_ptr<Scope> parent;
};
using ScopePtr = std::shared_ptr<Scope>;

class Interpreter {
 public:
  // Both must outlive it.
  Interpreter(Run& run, const Dict& variables) : run_(run), variables_(variables) {}

  Text Render(const Body& body);

 private:
  enum class Flow { kNormal, kBreak, kContinue };
  class Capture;
  class Level;

  // statements
  Flow Execute(const Body& body, const ScopePtr& scope);
  Flow ExecuteOne(const Node& node, const ScopePtr& scope);
  Flow If(const Node& node, const ScopePtr& scope);
  void For(const Node& node, const ScopePtr& scope, const Value& items, int depth);
  std::shared_ptr<const Sequence> Chosen(const Node& node, const ScopePtr& scope,
                                         std::shared_ptr<const Sequence> items);
  Value Macro(const Node& node, const ScopePtr& scope);
  Value RunMacro(const Node& node, const ScopePtr& scope, Call& call);
  void CallBlock(const Node& node, const ScopePtr& scope);
  Value Captured(const Body& body, const ScopePtr& scope);
  void Assign(const Node& target, const Value& value, const ScopePtr& scope);
  void Emit(const Text& text);

  // expressions
  Value Evaluate(const Node& node, const ScopePtr& scope);
  Value EvaluateOne(const Node& node, const ScopePtr& scope);
  Value Lookup(std::string_view name, const ScopePtr& scope);
  Value Unary(const Node& node, const ScopePtr& scope);
  Value Comparison(const Node& node, const ScopePtr& scope);
  Value Concat(const Node& node, const ScopePtr& scope);
  Value MakeDict(const Node& node, const ScopePtr& scope);
  std::vector<Value> EvaluateAll(const std::vector<NodePtr>& nodes, const ScopePtr& scope);
  void AddArguments(const Node& node, const ScopePtr& scope, Call* call);

  Run& run_;
  const Dict& variables_;
  Text* out_ = nullptr;
  Value block_text_;  // what kBlockText stands for
  int level_ = 0;
};

}  // namespace ng::jinja

#endif  // NG_CORE_TEXT_JINJA_INTERPRETER_H_
