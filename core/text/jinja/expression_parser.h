// Tokens -> an expression. Each function parses one level of precedence, the loosest first.
#ifndef NG_CORE_TEXT_JINJA_EXPRESSION_PARSER_H_
#define NG_CORE_TEXT_JINJA_EXPRESSION_PARSER_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/text/jinja/node.h"
#include "core/text/jinja/token_stream.h"

namespace ng::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  // None of these returns null.
  NodePtr Expression(bool with_choice = true);
  // One expression, or several with commas between them: a tuple. `end` is a name that ends it.
  NodePtr Tuple(bool with_choice = true, std::string_view end = "");
  // What a value can be assigned to: a name, an attribute of a namespace, a tuple of them.
  NodePtr Target(std::string_view end = "");
  // "| name(...) | name ..." over `value`. `begins`: the first one has no "|".
  NodePtr Filters(NodePtr value, bool begins = false);
  // A name or a call, as a call block has it.
  NodePtr Unary(bool with_filters = true);

  // The variables and functions that are read.
  std::set<std::string, std::less<>> names;
  // Which of the names that a macro may be asked for were met: varargs, kwargs, caller.
  bool met_varargs = false;
  bool met_kwargs = false;
  bool met_caller = false;

 private:
  NodePtr Choice();
  NodePtr Or();
  NodePtr And();
  NodePtr Not();
  NodePtr Comparison();
  NodePtr Sum();
  NodePtr Concat();
  NodePtr Product();
  NodePtr Power();
  NodePtr Primary();
  NodePtr Name();
  NodePtr Postfix(NodePtr value);
  NodePtr PostfixAndFilters(NodePtr value);
  NodePtr Subscript(NodePtr value);
  NodePtr Subscribed(NodePtr value);
  NodePtr Called(NodePtr value);
  NodePtr Test(NodePtr value);
  NodePtr ListOrDict(NodeType type, std::string_view end);
  void Arguments(Node* node);
  NodePtr Binary(NodeType type, std::string name, NodePtr left, NodePtr right);
  NodePtr Constant(Value value, int line);
  bool AtTupleEnd(std::string_view end) const;

  TokenStream& tokens_;
};

}  // namespace ng::jinja

#endif  // NG_CORE_TEXT_JINJA_EXPRESSION_PARSER_H_
