// A parsed template: one kind of node for all statements and expressions.
#ifndef NG_CORE_TEXT_JINJA_NODE_H_
#define NG_CORE_TEXT_JINJA_NODE_H_

#include <memory>
#include <string>
#include <vector>

#include "core/text/jinja/value.h"

namespace ng::jinja {

enum class NodeType {
  // Expressions.
  kConstant,   // constant
  kName,       // name
  kList,       // children
  kTuple,      // children
  kDict,       // children: key, value, key, value ...
  kAttribute,  // children[0].name
  kItem,       // children[0][children[1]]
  kSlice,    // children[0][children[1]:children[2]:children[3]]; those that are not there are null
  kCall,     // children[0](arguments)
  kFilter,   // children[0] | name(arguments)
  kTest,     // children[0] is name(arguments)
  kUnary,    // name is "-", "+" or "not"
  kBinary,   // name is the operator
  kCompare,  // children[0], then for each argument: its name is the operator, its value the operand
  kAnd,
  kOr,
  kConcat,     // children, joined
  kChoice,     // children: condition, value, other value or null
  kBlockText,  // the text of the block that a filter or a set is about
  // Statements.
  kData,         // constant: text of the template
  kOutput,       // children[0]
  kIf,           // children: conditions; bodies: one for each, then perhaps the one of else
  kFor,          // children: target, items, condition or null; bodies: body, perhaps that of else
  kSet,          // children: target, value
  kSetBlock,     // children: target, value over kBlockText; bodies[0]
  kFilterBlock,  // children: value over kBlockText; bodies[0]
  kMacro,        // name, arguments: parameters and their defaults or null; bodies[0]
  kCallBlock,    // children[0]: a call; arguments as those of a macro; bodies[0]
  kWith,         // children: target, value, target, value ...; bodies[0]
  kScope,        // bodies[0]
  kBreak,
  kContinue,
};

struct Node;
using NodePtr = std::unique_ptr<Node>;
using Body = std::vector<NodePtr>;

// An argument of a call. Without a name it goes by its place; "*" and "**" spread a list and a
// dict.
struct Argument {
  std::string name;
  NodePtr value;
};

struct Node {
  NodeType type = NodeType::kConstant;
  int line = 1;
  int depth = 1;  // levels of nodes, itself included
  std::string name;
  Value constant;
  std::vector<NodePtr> children;
  std::vector<Argument> arguments;
  std::vector<Body> bodies;
  bool recursive = false;  // a for block
  // What the body of a macro asks for beyond its parameters.
  bool uses_varargs = false;
  bool uses_kwargs = false;
  bool uses_caller = false;
};

}  // namespace ng::jinja

#endif  // NG_CORE_TEXT_JINJA_NODE_H_
