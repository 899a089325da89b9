// What declared tools say of their arguments: for formats that write a text and a number alike.
#ifndef NG_CORE_TEXT_CHAT_CALLS_TOOL_SCHEMAS_H_
#define NG_CORE_TEXT_CHAT_CALLS_TOOL_SCHEMAS_H_

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ng::calls {

// The types that a schema allows, as a set of bits.
enum TypeBits : unsigned {
  kTextType = 1,
  kIntegerType = 2,
  kNumberType = 4,
  kBooleanType = 8,
  kNullType = 16,
  kObjectType = 32,
  kArrayType = 64,
  kAnyType = 127,
};

struct DeclaredTool {
  std::string name;
  const nlohmann::ordered_json* function;  // borrowed: with its "parameters", if it has any
};

// A list of tools as a Conversation has them, each {"function": {"name", "parameters"}} or the
// inner object alone. What is no tool is passed over: the template has said what it thinks of it.
std::vector<DeclaredTool> DeclaredTools(const nlohmann::ordered_json& tools);

class ToolSchemas {
 public:
  ToolSchemas() = default;
  // Of tools as DeclaredTools takes them.
  explicit ToolSchemas(const nlohmann::ordered_json& tools);

  bool empty() const { return tools_.empty(); }
  bool Has(std::string_view tool) const { return tools_.contains(tool); }
  // The types that this argument may have; all where nothing is said.
  unsigned TypesOf(std::string_view tool, std::string_view argument) const;

 private:
  using Arguments = std::map<std::string, unsigned, std::less<>>;
  std::map<std::string, Arguments, std::less<>> tools_;
};

// The JSON of an argument that is written as plain text: a value of one of these types if it reads
// as one, in JSON or in Python's words, else a text.
std::string TypedJson(std::string_view text, unsigned types);

}  // namespace ng::calls

#endif  // NG_CORE_TEXT_CHAT_CALLS_TOOL_SCHEMAS_H_
