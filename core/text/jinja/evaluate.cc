// The expressions of a template.
#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/text/jinja/interpreter.h"

namespace ng::jinja {

Value Interpreter::Evaluate(const Node& node, const ScopePtr& scope) {
  if (++level_ > run_.limits().calls) {
    run_.Fail(absl::StrCat("blocks, expressions and macros in each other, more than ",
                           run_.limits().calls, " levels"));
  }
  if (!run_.failed()) run_.set_line(node.line);
  Value value;
  if (run_.Work(1)) value = EvaluateOne(node, scope);
  --level_;
  return value;
}

Value Interpreter::EvaluateOne(const Node& node, const ScopePtr& scope) {
  const auto child = [&](size_t i) { return Evaluate(*node.children[i], scope); };
  switch (node.type) {
    case NodeType::kConstant:
      return node.constant;
    case NodeType::kName:
      return Lookup(node.name, scope);
    case NodeType::kList:
      return run_.NewList(EvaluateAll(node.children, scope));
    case NodeType::kTuple:
      return run_.NewSequence(SequenceKind::kTuple, EvaluateAll(node.children, scope));
    case NodeType::kDict:
      return MakeDict(node, scope);
    case NodeType::kAttribute: {
      const Value of = child(0);
      return run_.failed() ? Value() : Attribute(run_, of, node.name);
    }
    case NodeType::kItem: {
      const Value of = child(0);
      const Value key = child(1);
      return run_.failed() ? Value() : Item(run_, of, key);
    }
    case NodeType::kSlice: {
      const Value of = child(0);
      std::array<Value, 3> bounds;
      for (size_t i = 0; i < 3; ++i) {
        if (node.children[i + 1] != nullptr) bounds[i] = child(i + 1);
      }
      return run_.failed() ? Value() : Slice(run_, of, bounds);
    }
    case NodeType::kCall: {
      const Value callee = child(0);
      Call call{run_, {}, {}, {}};
      AddArguments(node, scope, &call);
      return run_.failed() ? Value() : CallValue(callee, call);
    }
    case NodeType::kFilter:
    case NodeType::kTest: {
      Call call{run_, child(0), {}, {}};
      AddArguments(node, scope, &call);
      if (run_.failed()) return {};
      if (node.type == NodeType::kTest) return Value(ApplyTest(node.name, call));
      return ApplyFilter(node.name, call);
    }
    case NodeType::kUnary:
      return Unary(node, scope);
    case NodeType::kBinary: {
      const Value a = child(0);
      const Value b = child(1);
      return run_.failed() ? Value() : Operate(run_, node.name, a, b);
    }
    case NodeType::kCompare:
      return Comparison(node, scope);
    case NodeType::kAnd:
    case NodeType::kOr: {
      Value left = child(0);
      return IsTrue(left) == (node.type == NodeType::kOr) ? left : child(1);
    }
    case NodeType::kConcat:
      return Concat(node, scope);
    case NodeType::kChoice:
      if (IsTrue(child(0))) return child(1);
      if (node.children[2] != nullptr) return child(2);
      return run_.NewUndefined("the choice has no else and its condition is false, so it");
    default:
      return block_text_;
  }
}

Value Interpreter::Lookup(std::string_view name, const ScopePtr& scope) {
  constexpr int kScopesOfStep = 4;
  int n_scopes = 0;
  for (const Scope* at = scope.get(); at != nullptr; at = at->parent.get()) {
    if (++n_scopes % kScopesOfStep == 0 && !run_.Work(1)) return {};
    const auto found = at->variables.find(name);
    if (found != at->variables.end()) return found->second;
  }
  if (const Value* found = Find(variables_, name)) return *found;
  const auto globals = Globals();
  const auto global = std::ranges::find(globals, name, &Function::name);
  if (global == globals.end()) {
    return run_.NewUndefined(absl::StrCat("\"", View(name), "\" is undefined"));
  }
  const Function* const function = &*global;
  return Value(std::make_shared<const Callable>(
      Callable{std::string(name), [function](Call& call) { return Invoke(*function, call); }}));
}

std::vector<Value> Interpreter::EvaluateAll(const std::vector<NodePtr>& nodes,
                                            const ScopePtr& scope) {
  std::vector<Value> values;
  values.reserve(nodes.size());
  for (const NodePtr& node : nodes) values.push_back(Evaluate(*node, scope));
  return values;
}

Value Interpreter::MakeDict(const Node& node, const ScopePtr& scope) {
  std::vector<std::pair<Value, Value>> items;
  for (size_t i = 0; i + 1 < node.children.size(); i += 2) {
    Value key = Evaluate(*node.children[i], scope);
    items.emplace_back(std::move(key), Evaluate(*node.children[i + 1], scope));
  }
  return run_.failed() ? Value() : run_.NewDict(std::move(items));
}

void Interpreter::AddArguments(const Node& node, const ScopePtr& scope, Call* call) {
  for (const Argument& argument : node.arguments) {
    Value value = Evaluate(*argument.value, scope);
    if (run_.failed()) return;
    if (argument.name.empty()) {
      call->positional.push_back(std::move(value));
    } else if (argument.name == "*") {
      const auto items = ItemsOf(run_, value);
      if (items == nullptr) return;
      call->positional.insert(call->positional.end(), items->items.begin(), items->items.end());
    } else if (argument.name == "**") {
      if (value.dict() == nullptr) {
        run_.Fail(absl::StrCat("\"**\" of ", View(KindOf(value)), ", must be a dict"));
        return;
      }
      for (const auto& [key, item] : value.dict()->items) {
        call->named.emplace_back(Printed(run_, key).bytes(), item);
      }
    } else {
      call->named.emplace_back(argument.name, std::move(value));
    }
  }
}

Value Interpreter::Unary(const Node& node, const ScopePtr& scope) {
  const Value value = Evaluate(*node.children[0], scope);
  if (run_.failed()) return {};
  if (node.name == "not") return Value(!IsTrue(value));
  if (!value.IsNumber()) {
    return run_.Fail(
        absl::StrCat("\"", node.name, "\" of ", View(KindOf(value)), ", must be a number"));
  }
  if (node.name == "+") {
    return value.Is<double>() ? value : Value(value.integer(), value.origin());
  }
  if (value.Is<double>()) return {-value.real(), value.origin()};
  return Operate(run_, "-", Value(int64_t{0}), value);
}

// a < b < c asks a < b and b < c; what follows a comparison that does not hold is not evaluated.
Value Interpreter::Comparison(const Node& node, const ScopePtr& scope) {
  Value left = Evaluate(*node.children[0], scope);
  for (const Argument& operand : node.arguments) {
    Value right = Evaluate(*operand.value, scope);
    if (run_.failed() || !CompareBy(run_, operand.name, left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::Concat(const Node& node, const ScopePtr& scope) {
  Text text;
  for (const NodePtr& child : node.children) {
    const Text part = Printed(run_, Evaluate(*child, scope));
    if (!run_.HasRoom(2 * static_cast<int64_t>(text.size() + part.size()))) return {};
    text.Append(part);
  }
  return run_.NewText(std::move(text));
}

}  // namespace ng::jinja
