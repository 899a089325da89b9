#include "core/text/jinja/parser.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/text/jinja/expression_parser.h"
#include "core/text/jinja/token_stream.h"

namespace ng::jinja {
namespace {

class Parser {
 public:
  Parser(std::vector<Token> tokens, const std::string& name)
      : tokens_(std::move(tokens), name), expressions_(tokens_) {}

  absl::StatusOr<ParsedTemplate> Run() {
    Body body = Statements({});
    if (!tokens_.status().ok()) return tokens_.status();
    return ParsedTemplate{std::move(body), std::move(expressions_.names)};
  }

 private:
  using Ends = std::vector<std::string_view>;
  struct Tag {
    std::string_view name;
    NodePtr (Parser::*parse)();
  };
  static const Tag kTags[];

  // Statements up to the tag that ends them, which is left in place. Without ends: to the end of
  // the template.
  Body Statements(const Ends& ends) {
    Body body;
    if (!tokens_.Enter()) {
      tokens_.Leave();
      return body;
    }
    while (!tokens_.AtEnd()) {
      if (tokens_.current().type == TokenType::kData) {
        NodePtr node = tokens_.NewNode(NodeType::kData);
        const Text text(tokens_.Take().text, Origin::kTemplate);
        node->constant =
            Value(std::make_shared<const HeldText>(text, std::make_shared<int64_t>(0)));
        body.push_back(std::move(node));
      } else if (tokens_.current().type == TokenType::kVariableBegin) {
        tokens_.Take();
        NodePtr node = tokens_.NewNode(NodeType::kOutput);
        tokens_.Adopt(node.get(), expressions_.Tuple());
        tokens_.Expect(TokenType::kVariableEnd, "\"}}\"");
        body.push_back(std::move(node));
      } else {
        tokens_.Expect(TokenType::kBlockBegin, "a tag");
        if (std::ranges::any_of(ends, [&](auto end) { return tokens_.current().IsName(end); })) {
          tokens_.Leave();
          return body;
        }
        NodePtr node = Statement(ends);
        if (node == nullptr) break;
        tokens_.Expect(TokenType::kBlockEnd, "\"%}\"");
        body.push_back(std::move(node));
      }
    }
    tokens_.Leave();
    if (!ends.empty()) tokens_.Unexpected(absl::StrCat("{% ", View(ends.back()), " %}"));
    return body;
  }

  NodePtr Statement(const Ends& ends) {
    const Tag* const tag = std::ranges::find_if(kTags, kTags + n_tags(), [&](const Tag& known) {
      return tokens_.current().IsName(known.name);
    });
    if (tag == kTags + n_tags()) {
      std::string names;
      for (const Tag* known = kTags; known != kTags + n_tags(); ++known) {
        absl::StrAppend(&names, names.empty() ? "" : ", ", View(known->name));
      }
      for (const std::string_view end : ends) absl::StrAppend(&names, ", ", View(end));
      tokens_.Unexpected("one of " + names);
      return nullptr;
    }
    tokens_.Take();
    return (this->*tag->parse)();
  }

  static ptrdiff_t n_tags();

  // The body of a block: after the tag's end, up to one of `ends`. The last of `ends` closes the
  // block.
  Body BlockBody(Node* node, const Ends& ends) {
    tokens_.Expect(TokenType::kBlockEnd, "\"%}\"");
    Body body = Statements(ends);
    for (const NodePtr& child : body) tokens_.Deepen(node, child.get());
    return body;
  }
  void AddBody(Node* node, std::string_view end) {
    node->bodies.push_back(BlockBody(node, {end}));
    tokens_.ExpectName(end);
  }

  NodePtr If() {
    NodePtr node = tokens_.NewNode(NodeType::kIf);
    do {
      tokens_.Adopt(node.get(), expressions_.Tuple(/*with_choice=*/false));
      node->bodies.push_back(BlockBody(node.get(), {"elif", "else", "endif"}));
    } while (tokens_.SkipName("elif"));
    if (tokens_.SkipName("else")) return EndWith(std::move(node), "endif");
    tokens_.ExpectName("endif");
    return node;
  }
  NodePtr EndWith(NodePtr node, std::string_view end) {
    AddBody(node.get(), end);
    return node;
  }

  NodePtr For() {
    NodePtr node = tokens_.NewNode(NodeType::kFor);
    if (tokens_.current().IsName("loop")) tokens_.Unexpected("another name: loop has a meaning");
    tokens_.Adopt(node.get(), expressions_.Target("in"));
    tokens_.ExpectName("in");
    tokens_.Adopt(node.get(), expressions_.Tuple(/*with_choice=*/false, "recursive"));
    NodePtr condition;
    if (tokens_.SkipName("if")) condition = expressions_.Expression();
    tokens_.Adopt(node.get(), std::move(condition));
    node->recursive = tokens_.SkipName("recursive");
    ++n_loops_;
    node->bodies.push_back(BlockBody(node.get(), {"else", "endfor"}));
    --n_loops_;
    if (tokens_.SkipName("else")) return EndWith(std::move(node), "endfor");
    tokens_.ExpectName("endfor");
    return node;
  }

  NodePtr Set() {
    NodePtr node = tokens_.NewNode(NodeType::kSet);
    tokens_.Adopt(node.get(), expressions_.Target());
    if (tokens_.SkipOperator("=")) {
      tokens_.Adopt(node.get(), expressions_.Tuple());
      return node;
    }
    node->type = NodeType::kSetBlock;
    tokens_.Adopt(node.get(), expressions_.Filters(tokens_.NewNode(NodeType::kBlockText)));
    return EndWith(std::move(node), "endset");
  }

  NodePtr Filter() {
    NodePtr node = tokens_.NewNode(NodeType::kFilterBlock);
    tokens_.Adopt(node.get(),
                  expressions_.Filters(tokens_.NewNode(NodeType::kBlockText), /*begins=*/true));
    return EndWith(std::move(node), "endfilter");
  }

  NodePtr With() {
    NodePtr node = tokens_.NewNode(NodeType::kWith);
    while (tokens_.current().type == TokenType::kName) {
      NodePtr target = tokens_.NewNode(NodeType::kName);
      target->name = tokens_.Take().text;
      tokens_.Adopt(node.get(), std::move(target));
      tokens_.ExpectOperator("=");
      tokens_.Adopt(node.get(), expressions_.Expression());
      if (!tokens_.SkipOperator(",")) break;
    }
    return EndWith(std::move(node), "endwith");
  }

  void Parameters(Node* node) {
    tokens_.ExpectOperator("(");
    while (!tokens_.current().IsOperator(")") && !tokens_.AtEnd()) {
      if (!node->arguments.empty()) tokens_.ExpectOperator(",");
      if (tokens_.current().IsOperator(")")) break;
      std::string name = tokens_.TakeName("the name of a parameter");
      NodePtr standard;
      if (tokens_.SkipOperator("=")) {
        standard = expressions_.Expression();
      } else if (!node->arguments.empty() && node->arguments.back().value != nullptr) {
        tokens_.Unexpected("a parameter with a default, as the one before it");
      }
      tokens_.Deepen(node, standard.get());
      node->arguments.push_back({std::move(name), std::move(standard)});
    }
    tokens_.ExpectOperator(")");
  }

  // The body of a macro. Notes which special names it uses.
  NodePtr MacroBody(NodePtr node, std::string_view end) {
    const bool varargs = expressions_.met_varargs;
    const bool kwargs = expressions_.met_kwargs;
    const bool caller = expressions_.met_caller;
    const int n_loops = n_loops_;
    n_loops_ = 0;
    expressions_.met_varargs = expressions_.met_kwargs = expressions_.met_caller = false;
    AddBody(node.get(), end);
    node->uses_varargs = expressions_.met_varargs;
    node->uses_kwargs = expressions_.met_kwargs;
    node->uses_caller = expressions_.met_caller;
    expressions_.met_varargs = expressions_.met_varargs || varargs;
    expressions_.met_kwargs = expressions_.met_kwargs || kwargs;
    expressions_.met_caller = expressions_.met_caller || caller;
    n_loops_ = n_loops;
    return node;
  }

  NodePtr Macro() {
    NodePtr node = tokens_.NewNode(NodeType::kMacro);
    node->name = tokens_.TakeName("the name of a macro");
    Parameters(node.get());
    return MacroBody(std::move(node), "endmacro");
  }

  NodePtr CallBlock() {
    NodePtr node = tokens_.NewNode(NodeType::kCallBlock);
    node->name = "caller";
    if (tokens_.current().IsOperator("(")) Parameters(node.get());
    NodePtr call = expressions_.Expression();
    if (call->type != NodeType::kCall) tokens_.Unexpected("a call of a macro before it");
    tokens_.Adopt(node.get(), std::move(call));
    return MacroBody(std::move(node), "endcall");
  }

  NodePtr Generation() { return EndWith(tokens_.NewNode(NodeType::kScope), "endgeneration"); }
  NodePtr Break() { return LoopControl(NodeType::kBreak); }
  NodePtr Continue() { return LoopControl(NodeType::kContinue); }
  NodePtr LoopControl(NodeType type) {
    if (n_loops_ == 0) tokens_.Fail("break and continue are allowed in for blocks only");
    return tokens_.NewNode(type);
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int n_loops_ = 0;
};

const Parser::Tag Parser::kTags[] = {
    {"if", &Parser::If},          {"for", &Parser::For},
    {"set", &Parser::Set},        {"filter", &Parser::Filter},
    {"with", &Parser::With},      {"macro", &Parser::Macro},
    {"call", &Parser::CallBlock}, {"generation", &Parser::Generation},
    {"break", &Parser::Break},    {"continue", &Parser::Continue},
};
ptrdiff_t Parser::n_tags() { return std::ssize(kTags); }

}  // namespace

absl::StatusOr<ParsedTemplate> ParseTemplate(std::string_view source, const std::string& name) {
  NG_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source, name));
  return Parser(std::move(tokens), name).Run();
}

}  // namespace ng::jinja
