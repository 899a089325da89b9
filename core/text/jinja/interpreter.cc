#include "core/text/jinja/interpreter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"

namespace ng::jinja {

// One level more of blocks, expressions and calls.
class Interpreter::Level {
 public:
  explicit Level(Interpreter& interpreter) : interpreter_(interpreter) {
    if (++interpreter_.level_ <= interpreter_.run_.limits().calls) return;
    interpreter_.run_.Fail(absl::StrCat("blocks, expressions and macros in each other, more than ",
                                        interpreter_.run_.limits().calls, " levels"));
  }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;
  ~Level() { --interpreter_.level_; }

 private:
  Interpreter& interpreter_;
};

// While it lives, what is written goes to it.
class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& interpreter)
      : interpreter_(interpreter), before_(interpreter.out_) {
    interpreter_.out_ = &text;
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  ~Capture() {
    interpreter_.out_ = before_;
    *interpreter_.run_.used() -= counted_;
  }
  // Gives the text away; it counts no more as written.
  Text Take() {
    counted_ = 2 * static_cast<int64_t>(text.size());
    return std::move(text);
  }
  Text text;

 private:
  Interpreter& interpreter_;
  Text* before_;
  int64_t counted_ = 0;
};

Text Interpreter::Render(const Body& body) {
  const auto scope = std::make_shared<Scope>();
  Text text;
  {
    Capture capture(*this);
    Execute(body, scope);
    text = capture.Take();
  }
  scope->variables.clear();
  return text;
}

void Interpreter::Emit(const Text& text) {
  const auto size = static_cast<int64_t>(text.size());
  if (static_cast<int64_t>(out_->size()) + size > run_.limits().output) {
    run_.Fail(absl::StrCat("the template writes more than ", run_.limits().output, " bytes"));
    return;
  }
  if (!run_.Work(size / 64) || !run_.HasRoom(2 * size)) return;
  *run_.used() += 2 * size;
  out_->Append(text);
}

Value Interpreter::Captured(const Body& body, const ScopePtr& scope) {
  Text text;
  {
    Capture capture(*this);
    Execute(body, scope);
    text = capture.Take();
  }
  return run_.NewText(std::move(text));
}

Interpreter::Flow Interpreter::Execute(const Body& body, const ScopePtr& scope) {
  const Level level(*this);
  for (const NodePtr& node : body) {
    run_.set_line(node->line);
    if (!run_.Work(1)) return Flow::kNormal;
    const Flow flow = ExecuteOne(*node, scope);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::ExecuteOne(const Node& node, const ScopePtr& scope) {
  const auto inner = [&] {
    auto made = std::make_shared<Scope>();
    made->parent = scope;
    return made;
  };
  switch (node.type) {
    case NodeType::kData:
      Emit(*node.constant.text());
      break;
    case NodeType::kOutput:
      Emit(Printed(run_, Evaluate(*node.children[0], scope)));
      break;
    case NodeType::kIf:
      return If(node, scope);
    case NodeType::kFor:
      For(node, scope, Evaluate(*node.children[1], scope), 0);
      break;
    case NodeType::kSet:
      Assign(*node.children[0], Evaluate(*node.children[1], scope), scope);
      break;
    case NodeType::kSetBlock:
    case NodeType::kFilterBlock: {
      const Value before = std::exchange(block_text_, Captured(node.bodies[0], inner()));
      const Value value = Evaluate(*node.children.back(), scope);
      block_text_ = before;
      if (node.type == NodeType::kSetBlock) {
        Assign(*node.children[0], value, scope);
      } else {
        Emit(Printed(run_, value));
      }
      break;
    }
    case NodeType::kMacro:
      scope->variables[node.name] = Macro(node, scope);
      break;
    case NodeType::kCallBlock:
      CallBlock(node, scope);
      break;
    case NodeType::kWith: {
      const ScopePtr block = inner();
      for (size_t i = 0; i + 1 < node.children.size(); i += 2) {
        Assign(*node.children[i], Evaluate(*node.children[i + 1], scope), block);
      }
      return Execute(node.bodies[0], block);
    }
    case NodeType::kScope:
      return Execute(node.bodies[0], inner());
    case NodeType::kBreak:
      return Flow::kBreak;
    default:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::If(const Node& node, const ScopePtr& scope) {
  for (size_t i = 0; i < node.bodies.size(); ++i) {
    const bool is_else = i >= node.children.size();
    if (is_else || IsTrue(Evaluate(*node.children[i], scope))) {
      return run_.failed() ? Flow::kNormal : Execute(node.bodies[i], scope);
    }
  }
  return Flow::kNormal;
}

// The items for which the condition of a for block holds.
std::shared_ptr<const Sequence> Interpreter::Chosen(const Node& node, const ScopePtr& scope,
                                                    std::shared_ptr<const Sequence> items) {
  if (node.children[2] == nullptr) return items;
  std::vector<Value> chosen;
  const auto inner = std::make_shared<Scope>();
  inner->parent = scope;
  for (const Value& item : items->items) {
    Assign(*node.children[0], item, inner);
    if (IsTrue(Evaluate(*node.children[2], inner))) chosen.push_back(item);
    if (run_.failed()) return nullptr;
  }
  return ItemsOf(run_, run_.NewList(std::move(chosen)));
}

void Interpreter::For(const Node& node, const ScopePtr& scope, const Value& items, int depth) {
  const Level level(*this);
  std::shared_ptr<const Sequence> sequence = run_.failed() ? nullptr : ItemsOf(run_, items);
  if (sequence != nullptr) sequence = Chosen(node, scope, std::move(sequence));
  if (sequence == nullptr || run_.failed()) return;
  const auto loop = std::make_shared<Loop>();
  loop->items = sequence;
  loop->depth = depth;
  if (node.recursive) {
    loop->recurse = [this, &node, scope, depth](Call& call) -> Value {
      if (call.positional.size() != 1) return call.run.Fail("loop(...) takes one list");
      Text text;
      {
        Capture capture(*this);
        For(node, scope, call.positional[0], depth + 1);
        text = capture.Take();
      }
      return run_.NewText(std::move(text));
    };
  }
  bool any = false;  // whether the body ran to its end once: that is what Jinja's else asks
  for (; loop->index < sequence->items.size() && run_.Work(1); ++loop->index) {
    const auto block = std::make_shared<Scope>();
    block->parent = scope;
    block->variables["loop"] = Value(loop);
    Assign(*node.children[0], sequence->items[loop->index], block);
    const Flow flow = Execute(node.bodies[0], block);
    if (flow == Flow::kBreak) break;
    if (flow == Flow::kNormal) any = true;
  }
  // What it refers to may refer to it.
  loop->ended = true;
  loop->recurse = nullptr;
  loop->last_changed.clear();
  if (!any && node.bodies.size() > 1 && !run_.failed()) {
    const auto block = std::make_shared<Scope>();
    block->parent = scope;
    Execute(node.bodies[1], block);
  }
}

void Interpreter::Assign(const Node& target, const Value& value, const ScopePtr& scope) {
  if (run_.failed()) return;
  if (target.type == NodeType::kName) {
    scope->variables[target.name] = value;
    return;
  }
  if (target.type == NodeType::kAttribute) {
    const Value of = Evaluate(*target.children[0], scope);
    if (!of.Is<std::shared_ptr<Namespace>>()) {
      run_.Fail(absl::StrCat("sets an attribute of ", View(KindOf(of)), ", must be a namespace"));
      return;
    }
    of.As<std::shared_ptr<Namespace>>()->attributes[target.name] = value;
    return;
  }
  const std::shared_ptr<const Sequence> items = ItemsOf(run_, value);
  if (items == nullptr) return;
  if (items->items.size() != target.children.size()) {
    run_.Fail(absl::StrCat(items->items.size(), " values for ", target.children.size(), " names"));
    return;
  }
  for (size_t i = 0; i < items->items.size(); ++i) {
    Assign(*target.children[i], items->items[i], scope);
  }
}

Value Interpreter::Macro(const Node& node, const ScopePtr& scope) {
  run_.Keep([scope] { scope->variables.clear(); });
  if (!run_.HasRoom(512)) return {};
  *run_.used() += 512;  // its variables live as long as the run
  return Value(std::make_shared<const Callable>(Callable{
      node.name, [this, &node, scope](Call& call) { return RunMacro(node, scope, call); }}));
}

// Gives each parameter of a macro its value. What is left over goes to varargs and kwargs, where
// the body uses them.
Value Interpreter::RunMacro(const Node& node, const ScopePtr& scope, Call& call) {
  const Level level(*this);
  const auto inner = std::make_shared<Scope>();
  inner->parent = scope;
  std::vector<Value> more;
  for (size_t i = node.arguments.size(); i < call.positional.size(); ++i) {
    more.push_back(call.positional[i]);
  }
  std::vector<std::pair<Value, Value>> others;
  Value caller = run_.NewUndefined("no caller is defined");
  for (size_t i = 0; i < node.arguments.size() && !run_.failed(); ++i) {
    const Argument& parameter = node.arguments[i];
    Value& value = inner->variables[parameter.name];
    value = run_.NewUndefined(absl::StrCat("parameter \"", parameter.name, "\" is not given"));
    if (!run_.Work(std::ssize(call.named) / 8)) return {};
    const Value* given = i < call.positional.size() ? &call.positional[i] : nullptr;
    for (const auto& [name, named] : call.named) {
      if (name != parameter.name) continue;
      if (given != nullptr) return run_.Fail(absl::StrCat("\"", name, "\" is given twice"));
      given = &named;
    }
    if (given != nullptr) {
      value = *given;
    } else if (parameter.value != nullptr) {
      value = Evaluate(*parameter.value, inner);
    }
  }
  for (const auto& [name, value] : call.named) {
    if (inner->variables.contains(name)) continue;
    if (name == "caller" && node.uses_caller) {
      caller = value;
    } else if (node.uses_kwargs) {
      others.emplace_back(run_.NewText(name), value);
    } else {
      return run_.Fail(absl::StrCat(node.name, " has no parameter \"", name, "\""));
    }
  }
  if (!more.empty() && !node.uses_varargs) {
    return run_.Fail(absl::StrCat(node.name, " is given ", call.positional.size(),
                                  " arguments, must be at most ", node.arguments.size()));
  }
  if (node.uses_caller) inner->variables.try_emplace("caller", caller);
  if (node.uses_varargs) {
    inner->variables["varargs"] = run_.NewSequence(SequenceKind::kTuple, std::move(more));
  }
  if (node.uses_kwargs) inner->variables["kwargs"] = run_.NewDict(std::move(others));
  if (run_.failed()) return {};
  const int line = run_.line();
  Value text = Captured(node.bodies[0], inner);
  if (!run_.failed()) run_.set_line(line);
  return text;
}

void Interpreter::CallBlock(const Node& node, const ScopePtr& scope) {
  const Node& called = *node.children[0];
  const Value callee = Evaluate(*called.children[0], scope);
  Call call{run_, {}, {}, {}};
  AddArguments(called, scope, &call);
  call.named.emplace_back("caller", Macro(node, scope));
  if (!run_.failed()) Emit(Printed(run_, CallValue(callee, call)));
}

}  // namespace ng::jinja
