#include "core/text/jinja/expression_parser.h"

#include <algorithm>
#include <utility>

namespace ng::jinja {
namespace {

constexpr std::string_view kComparisons[] = {"==", "!=", "<", "<=", ">", ">="};

// A text of the template itself; it belongs to no run.
Value TextConstant(std::string_view text) {
  return Value(std::make_shared<const HeldText>(Text(text, Origin::kTemplate),
                                                std::make_shared<int64_t>(0)));
}

}  // namespace

NodePtr ExpressionParser::Constant(Value value, int line) {
  NodePtr node = tokens_.NewNode(NodeType::kConstant, line);
  node->constant = std::move(value);
  return node;
}

NodePtr ExpressionParser::Binary(NodeType type, std::string name, NodePtr left, NodePtr right) {
  NodePtr node = tokens_.NewNode(type, left->line);
  node->name = std::move(name);
  tokens_.Adopt(node.get(), std::move(left));
  tokens_.Adopt(node.get(), std::move(right));
  return node;
}

NodePtr ExpressionParser::Expression(bool with_choice) {
  NodePtr node = tokens_.Enter() ? (with_choice ? Choice() : Or()) : Constant({}, 0);
  tokens_.Leave();
  return node;
}

NodePtr ExpressionParser::Choice() {
  NodePtr value = Or();
  while (tokens_.SkipName("if")) {
    NodePtr node = tokens_.NewNode(NodeType::kChoice, value->line);
    tokens_.Adopt(node.get(), Or());
    tokens_.Adopt(node.get(), std::move(value));
    NodePtr other;
    if (tokens_.SkipName("else")) other = Expression();
    tokens_.Adopt(node.get(), std::move(other));
    value = std::move(node);
  }
  return value;
}

NodePtr ExpressionParser::Or() {
  NodePtr left = And();
  while (tokens_.SkipName("or")) left = Binary(NodeType::kOr, "", std::move(left), And());
  return left;
}

NodePtr ExpressionParser::And() {
  NodePtr left = Not();
  while (tokens_.SkipName("and")) left = Binary(NodeType::kAnd, "", std::move(left), Not());
  return left;
}

NodePtr ExpressionParser::Not() {
  if (!tokens_.current().IsName("not")) return Comparison();
  NodePtr node = tokens_.NewNode(NodeType::kUnary);
  node->name = tokens_.Take().text;
  if (tokens_.Enter()) tokens_.Adopt(node.get(), Not());
  tokens_.Leave();
  return node;
}

NodePtr ExpressionParser::Comparison() {
  NodePtr first = Sum();
  NodePtr node;
  while (true) {
    std::string name;
    if (tokens_.current().type == TokenType::kOperator &&
        std::ranges::count(kComparisons, tokens_.current().text) > 0) {
      name = tokens_.Take().text;
    } else if (tokens_.SkipName("in")) {
      name = "in";
    } else if (tokens_.current().IsName("not") && tokens_.next().IsName("in")) {
      tokens_.Take();
      tokens_.Take();
      name = "not in";
    } else {
      return node != nullptr ? std::move(node) : std::move(first);
    }
    if (node == nullptr) {
      node = tokens_.NewNode(NodeType::kCompare, first->line);
      tokens_.Adopt(node.get(), std::move(first));
    }
    NodePtr operand = Sum();
    tokens_.Deepen(node.get(), operand.get());
    node->arguments.push_back({std::move(name), std::move(operand)});
  }
}

NodePtr ExpressionParser::Sum() {
  NodePtr left = Concat();
  while (tokens_.current().IsOperator("+") || tokens_.current().IsOperator("-")) {
    std::string name = tokens_.Take().text;
    left = Binary(NodeType::kBinary, std::move(name), std::move(left), Concat());
  }
  return left;
}

NodePtr ExpressionParser::Concat() {
  NodePtr first = Product();
  if (!tokens_.current().IsOperator("~")) return first;
  NodePtr node = tokens_.NewNode(NodeType::kConcat, first->line);
  tokens_.Adopt(node.get(), std::move(first));
  while (tokens_.SkipOperator("~")) tokens_.Adopt(node.get(), Product());
  return node;
}

NodePtr ExpressionParser::Product() {
  NodePtr left = Power();
  const auto is_product = [&] {
    const Token& token = tokens_.current();
    return token.IsOperator("*") || token.IsOperator("/") || token.IsOperator("//") ||
           token.IsOperator("%");
  };
  while (is_product()) {
    std::string name = tokens_.Take().text;
    left = Binary(NodeType::kBinary, std::move(name), std::move(left), Power());
  }
  return left;
}

NodePtr ExpressionParser::Power() {
  NodePtr left = Unary();
  while (tokens_.SkipOperator("**")) {
    left = Binary(NodeType::kBinary, "**", std::move(left), Unary());
  }
  return left;
}

NodePtr ExpressionParser::Unary(bool with_filters) {
  NodePtr node;
  if (tokens_.current().IsOperator("-") || tokens_.current().IsOperator("+")) {
    node = tokens_.NewNode(NodeType::kUnary);
    node->name = tokens_.Take().text;
    if (tokens_.Enter()) tokens_.Adopt(node.get(), Unary(false));
    tokens_.Leave();
    if (node->children.empty()) return node;
  } else {
    node = Primary();
  }
  node = Postfix(std::move(node));
  return with_filters ? PostfixAndFilters(std::move(node)) : std::move(node);
}

NodePtr ExpressionParser::Name() {
  const Token token = tokens_.Take();
  const std::string& name = token.text;
  if (name == "true" || name == "True") return Constant(Value(true), token.line);
  if (name == "false" || name == "False") return Constant(Value(false), token.line);
  if (name == "none" || name == "None") return Constant(Value(None()), token.line);
  met_varargs = met_varargs || name == "varargs";
  met_kwargs = met_kwargs || name == "kwargs";
  met_caller = met_caller || name == "caller";
  NodePtr node = tokens_.NewNode(NodeType::kName, token.line);
  node->name = name;
  names.insert(name);
  return node;
}

NodePtr ExpressionParser::Primary() {
  const Token& token = tokens_.current();
  const int line = token.line;
  if (token.type == TokenType::kName) return Name();
  if (token.type == TokenType::kInteger) return Constant(Value(tokens_.Take().integer), line);
  if (token.type == TokenType::kFloat) return Constant(Value(tokens_.Take().real), line);
  if (token.type == TokenType::kText) {
    std::string text;
    while (tokens_.current().type == TokenType::kText) text += tokens_.Take().text;
    return Constant(TextConstant(text), line);
  }
  if (tokens_.SkipOperator("(")) {
    NodePtr node;
    if (tokens_.current().IsOperator(")")) {
      node = tokens_.NewNode(NodeType::kTuple, line);
    } else {
      node = Tuple();
    }
    tokens_.ExpectOperator(")");
    return node;
  }
  if (token.IsOperator("[")) return ListOrDict(NodeType::kList, "]");
  if (token.IsOperator("{")) return ListOrDict(NodeType::kDict, "}");
  tokens_.Unexpected("a value");
  return Constant({}, line);
}

NodePtr ExpressionParser::ListOrDict(NodeType type, std::string_view end) {
  NodePtr node = tokens_.NewNode(type);
  tokens_.Take();
  while (!tokens_.current().IsOperator(end) && !tokens_.AtEnd()) {
    if (!node->children.empty()) tokens_.ExpectOperator(",");
    if (tokens_.current().IsOperator(end)) break;
    tokens_.Adopt(node.get(), Expression());
    if (type != NodeType::kDict) continue;
    tokens_.ExpectOperator(":");
    tokens_.Adopt(node.get(), Expression());
  }
  tokens_.ExpectOperator(end);
  return node;
}

bool ExpressionParser::AtTupleEnd(std::string_view end) const {
  const Token& token = tokens_.current();
  return token.type == TokenType::kVariableEnd || token.type == TokenType::kBlockEnd ||
         token.IsOperator(")") || (!end.empty() && token.IsName(end));
}

NodePtr ExpressionParser::Tuple(bool with_choice, std::string_view end) {
  NodePtr first = Expression(with_choice);
  if (!tokens_.current().IsOperator(",")) return first;
  NodePtr node = tokens_.NewNode(NodeType::kTuple, first->line);
  tokens_.Adopt(node.get(), std::move(first));
  while (tokens_.SkipOperator(",")) {
    if (AtTupleEnd(end)) break;
    tokens_.Adopt(node.get(), Expression(with_choice));
  }
  return node;
}

NodePtr ExpressionParser::Target(std::string_view end) {
  const auto one = [&]() -> NodePtr {
    if (tokens_.SkipOperator("(")) {
      NodePtr inner = tokens_.Enter() ? Target() : Constant({}, 0);
      tokens_.Leave();
      tokens_.ExpectOperator(")");
      return inner;
    }
    NodePtr name = tokens_.NewNode(NodeType::kName);
    for (const char* constant : {"true", "false", "none", "True", "False", "None"}) {
      if (tokens_.current().IsName(constant)) tokens_.Unexpected("the name of a variable");
    }
    name->name = tokens_.TakeName("the name of a variable");
    if (!tokens_.SkipOperator(".")) return name;
    NodePtr attribute = tokens_.NewNode(NodeType::kAttribute);
    attribute->name = tokens_.TakeName("the name of an attribute");
    tokens_.Adopt(attribute.get(), std::move(name));
    return attribute;
  };
  NodePtr first = one();
  if (!tokens_.current().IsOperator(",")) return first;
  NodePtr node = tokens_.NewNode(NodeType::kTuple, first->line);
  tokens_.Adopt(node.get(), std::move(first));
  while (tokens_.SkipOperator(",")) {
    if (AtTupleEnd(end) || tokens_.current().IsOperator("=")) break;
    tokens_.Adopt(node.get(), one());
  }
  return node;
}

NodePtr ExpressionParser::Postfix(NodePtr value) {
  while (true) {
    if (tokens_.current().IsOperator(".") || tokens_.current().IsOperator("[")) {
      value = Subscript(std::move(value));
    } else if (tokens_.current().IsOperator("(")) {
      value = Called(std::move(value));
    } else {
      return value;
    }
  }
}

NodePtr ExpressionParser::PostfixAndFilters(NodePtr value) {
  while (true) {
    if (tokens_.current().IsOperator("|")) {
      value = Filters(std::move(value));
    } else if (tokens_.current().IsName("is")) {
      value = Test(std::move(value));
    } else if (tokens_.current().IsOperator("(")) {
      value = Called(std::move(value));
    } else {
      return value;
    }
  }
}

NodePtr ExpressionParser::Subscript(NodePtr value) {
  if (tokens_.SkipOperator("[")) {
    NodePtr node = Subscribed(std::move(value));
    tokens_.ExpectOperator("]");
    return node;
  }
  tokens_.ExpectOperator(".");
  if (tokens_.current().type == TokenType::kInteger) {
    const int line = tokens_.current().line;
    return Binary(NodeType::kItem, "", std::move(value),
                  Constant(Value(tokens_.Take().integer), line));
  }
  NodePtr node = tokens_.NewNode(NodeType::kAttribute);
  node->name = tokens_.TakeName("the name of an attribute or a number");
  tokens_.Adopt(node.get(), std::move(value));
  return node;
}

// x[a], x[a, b], x[a:b], x[a:b:c], with any of a, b and c left out in a slice.
NodePtr ExpressionParser::Subscribed(NodePtr value) {
  NodePtr first;
  if (!tokens_.current().IsOperator(":")) first = Expression();
  if (!tokens_.current().IsOperator(":")) {
    if (tokens_.current().IsOperator(",")) {
      NodePtr tuple = tokens_.NewNode(NodeType::kTuple);
      tokens_.Adopt(tuple.get(), std::move(first));
      while (tokens_.SkipOperator(",")) tokens_.Adopt(tuple.get(), Expression());
      first = std::move(tuple);
    }
    return Binary(NodeType::kItem, "", std::move(value), std::move(first));
  }
  NodePtr node = tokens_.NewNode(NodeType::kSlice);
  tokens_.Adopt(node.get(), std::move(value));
  tokens_.Adopt(node.get(), std::move(first));
  for (int i = 0; i < 2; ++i) {
    NodePtr part;
    if (tokens_.SkipOperator(":") && !tokens_.current().IsOperator(":") &&
        !tokens_.current().IsOperator("]")) {
      part = Expression();
    }
    tokens_.Adopt(node.get(), std::move(part));
  }
  return node;
}

void ExpressionParser::Arguments(Node* node) {
  tokens_.ExpectOperator("(");
  bool first = true;
  while (!tokens_.current().IsOperator(")") && !tokens_.AtEnd()) {
    if (!first) tokens_.ExpectOperator(",");
    if (tokens_.current().IsOperator(")")) break;
    first = false;
    std::string name;
    if (tokens_.current().IsOperator("*") || tokens_.current().IsOperator("**")) {
      name = tokens_.Take().text;
    } else if (tokens_.current().type == TokenType::kName && tokens_.next().IsOperator("=")) {
      name = tokens_.Take().text;
      tokens_.Take();
    } else if (!node->arguments.empty() && !node->arguments.back().name.empty()) {
      tokens_.Unexpected("an argument with a name, as those before it");
    }
    NodePtr value = Expression();
    tokens_.Deepen(node, value.get());
    node->arguments.push_back({std::move(name), std::move(value)});
  }
  tokens_.ExpectOperator(")");
}

NodePtr ExpressionParser::Called(NodePtr value) {
  NodePtr node = tokens_.NewNode(NodeType::kCall);
  tokens_.Adopt(node.get(), std::move(value));
  Arguments(node.get());
  return node;
}

NodePtr ExpressionParser::Filters(NodePtr value, bool begins) {
  while (begins || tokens_.current().IsOperator("|")) {
    if (!begins) tokens_.Take();
    begins = false;
    NodePtr node = tokens_.NewNode(NodeType::kFilter);
    node->name = tokens_.TakeName("the name of a filter");
    tokens_.Adopt(node.get(), std::move(value));
    if (tokens_.current().IsOperator("(")) Arguments(node.get());
    value = std::move(node);
  }
  return value;
}

NodePtr ExpressionParser::Test(NodePtr value) {
  NodePtr node = tokens_.NewNode(NodeType::kTest);
  tokens_.Take();
  const bool negated = tokens_.SkipName("not");
  node->name = tokens_.TakeName("the name of a test");
  tokens_.Adopt(node.get(), std::move(value));
  const Token& token = tokens_.current();
  const bool ends = token.IsName("else") || token.IsName("or") || token.IsName("and");
  const bool begins_value = token.type == TokenType::kName || token.type == TokenType::kText ||
                            token.type == TokenType::kInteger || token.type == TokenType::kFloat ||
                            token.IsOperator("[") || token.IsOperator("{");
  if (token.IsOperator("(")) {
    Arguments(node.get());
  } else if (token.IsName("is")) {
    tokens_.Unexpected("no second test; brackets can be set around the first");
  } else if (begins_value && !ends) {
    NodePtr argument = Postfix(Primary());
    tokens_.Deepen(node.get(), argument.get());
    node->arguments.push_back({"", std::move(argument)});
  }
  if (!negated) return node;
  NodePtr outer = tokens_.NewNode(NodeType::kUnary, node->line);
  outer->name = "not";
  tokens_.Adopt(outer.get(), std::move(node));
  return outer;
}

}  // namespace ng::jinja
