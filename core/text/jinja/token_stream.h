// Tokens one after the other, and the first error of a parser.
//
// After an error the stream is at its end, so that every loop of a parser ends.
#ifndef NG_CORE_TEXT_JINJA_TOKEN_STREAM_H_
#define NG_CORE_TEXT_JINJA_TOKEN_STREAM_H_

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/absl_view.h"
#include "core/text/jinja/lexer.h"
#include "core/text/jinja/node.h"
#include "ng/status.h"

namespace ng::jinja {

class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, const std::string& name)
      : tokens_(std::move(tokens)), name_(name) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token Take() {
    Token taken = current();
    if (at_ + 1 < tokens_.size()) ++at_;
    return taken;
  }
  bool AtEnd() const { return current().type == TokenType::kEnd; }

  bool SkipName(std::string_view name) { return Skip(current().IsName(name)); }
  bool SkipOperator(std::string_view name) { return Skip(current().IsOperator(name)); }
  void ExpectOperator(std::string_view name) {
    if (!SkipOperator(name)) Unexpected(absl::StrCat("\"", View(name), "\""));
  }
  void ExpectName(std::string_view name) {
    if (!SkipName(name)) Unexpected(absl::StrCat("\"", View(name), "\""));
  }
  void Expect(TokenType type, std::string_view what) {
    if (!Skip(current().type == type)) Unexpected(what);
  }
  std::string TakeName(std::string_view what) {
    if (current().type == TokenType::kName) return Take().text;
    Unexpected(what);
    return "";
  }

  void Unexpected(std::string_view allowed) {
    Fail(absl::StrCat("unexpected ", Shown(current()), ", must be ", View(allowed)));
  }
  void Fail(std::string_view what) {
    if (!status_.ok()) return;
    status_ = ModelFileError(absl::StrCat(name_, ": line ", current().line, ": ", View(what)));
    at_ = tokens_.size() - 1;
  }
  const absl::Status& status() const { return status_; }

  NodePtr NewNode(NodeType type, int line) {
    auto node = std::make_unique<Node>();
    node->type = type;
    node->line = line;
    return node;
  }
  NodePtr NewNode(NodeType type) { return NewNode(type, current().line); }

  // Adds one node to another. Nodes in each other are bounded, because every walk over them is
  // recursive.
  void Adopt(Node* parent, NodePtr child) {
    Deepen(parent, child.get());
    parent->children.push_back(std::move(child));
  }
  void Deepen(Node* parent, const Node* child) {
    if (child != nullptr) parent->depth = std::max(parent->depth, child->depth + 1);
    if (parent->depth > kMostLevels) TooDeep();
  }
  bool Enter() {
    if (++level_ > kMostLevels) TooDeep();
    return status_.ok();
  }
  void Leave() { --level_; }

 private:
  static constexpr int kMostLevels = 200;

  bool Skip(bool is_it) {
    if (is_it && at_ + 1 < tokens_.size()) ++at_;
    return is_it;
  }
  void TooDeep() {
    Fail(absl::StrCat("blocks and expressions in each other, more than ", kMostLevels, " levels"));
  }

  std::vector<Token> tokens_;
  const std::string& name_;
  size_t at_ = 0;
  int level_ = 0;
  absl::Status status_;
};

}  // namespace ng::jinja

#endif  // NG_CORE_TEXT_JINJA_TOKEN_STREAM_H_
