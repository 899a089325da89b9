#include "core/text/chat/calls/tool_schemas.h"

#include <optional>

#include "core/text/chat/calls/value_reader.h"

namespace ng::calls {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMostSchemaDepth = 16;

unsigned TypeBit(const std::string& name) {
  if (name == "string") return kTextType;
  if (name == "integer") return kIntegerType;
  if (name == "number") return kNumberType | kIntegerType;
  if (name == "boolean") return kBooleanType;
  if (name == "null") return kNullType;
  if (name == "object") return kObjectType;
  if (name == "array") return kArrayType;
  return kAnyType;
}

unsigned TypeOfValue(const Json& value) {
  if (value.is_string()) return kTextType;
  if (value.is_number_integer()) return kIntegerType;
  if (value.is_number()) return kNumberType;
  if (value.is_boolean()) return kBooleanType;
  if (value.is_null()) return kNullType;
  return value.is_object() ? kObjectType : kArrayType;
}

// The same of a value's JSON text.
unsigned TypeOfText(std::string_view json) {
  switch (json.front()) {
    case '{':
      return kObjectType;
    case '[':
      return kArrayType;
    case '"':
      return kTextType;
    case 't':
    case 'f':
      return kBooleanType;
    case 'n':
      return kNullType;
    default:
      return json.find_first_of(".eE") == json.npos ? kIntegerType : kNumberType;
  }
}

// "#/$defs/Place" in the schema of all arguments; null: it is not there.
const Json* Target(const Json& root, const std::string& reference) {
  if (!reference.starts_with('#')) return nullptr;
  try {
    const Json::json_pointer pointer(reference.substr(1));
    return root.contains(pointer) ? &root.at(pointer) : nullptr;
  } catch (const Json::exception&) {
    return nullptr;
  }
}

unsigned TypesOfSchema(const Json& root, const Json& schema, int depth) {
  if (!schema.is_object() || depth == kMostSchemaDepth) return kAnyType;
  unsigned types = kAnyType;
  if (const auto ref = schema.find("$ref"); ref != schema.end() && ref->is_string()) {
    const Json* const target = Target(root, ref->get<std::string>());
    if (target != nullptr) types &= TypesOfSchema(root, *target, depth + 1);
  }
  const auto any = [&](const Json& list, auto bit) {
    unsigned bits = 0;
    for (const Json& one : list) bits |= bit(one);
    return bits;
  };
  if (const auto type = schema.find("type"); type != schema.end()) {
    const Json list = type->is_array() ? *type : Json::array({*type});
    types &= any(list, [](const Json& one) {
      return one.is_string() ? TypeBit(one.get<std::string>()) : unsigned{kAnyType};
    });
  }
  if (const auto values = schema.find("enum"); values != schema.end() && values->is_array()) {
    types &= any(*values, TypeOfValue);
  }
  if (const auto value = schema.find("const"); value != schema.end()) types &= TypeOfValue(*value);
  for (const char* const name : {"anyOf", "oneOf"}) {
    const auto list = schema.find(name);
    if (list == schema.end() || !list->is_array()) continue;
    types &= any(*list, [&](const Json& one) { return TypesOfSchema(root, one, depth + 1); });
  }
  if (const auto list = schema.find("allOf"); list != schema.end() && list->is_array()) {
    for (const Json& one : *list) types &= TypesOfSchema(root, one, depth + 1);
  }
  return types == 0 ? unsigned{kAnyType} : types;
}

}  // namespace

std::vector<DeclaredTool> DeclaredTools(const Json& tools) {
  std::vector<DeclaredTool> declared;
  if (!tools.is_array()) return declared;
  for (const Json& tool : tools) {
    if (!tool.is_object()) continue;
    const auto inner = tool.find("function");
    const Json& function = inner != tool.end() && inner->is_object() ? *inner : tool;
    const auto name = function.find("name");
    if (name == function.end() || !name->is_string()) continue;
    declared.push_back({name->get<std::string>(), &function});
  }
  return declared;
}

ToolSchemas::ToolSchemas(const Json& tools) {
  for (const auto& [name, said] : DeclaredTools(tools)) {
    const Json& function = *said;
    Arguments& arguments = tools_[name];
    const auto parameters = function.find("parameters");
    if (parameters == function.end() || !parameters->is_object()) continue;
    const auto properties = parameters->find("properties");
    if (properties == parameters->end() || !properties->is_object()) continue;
    for (const auto& [key, schema] : properties->items()) {
      arguments[key] = TypesOfSchema(*parameters, schema, 0);
    }
  }
}

unsigned ToolSchemas::TypesOf(std::string_view tool, std::string_view argument) const {
  const auto found = tools_.find(tool);
  if (found == tools_.end()) return kAnyType;
  const auto types = found->second.find(argument);
  return types == found->second.end() ? unsigned{kAnyType} : types->second;
}

std::string TypedJson(std::string_view text, unsigned types) {
  static const Notation kPython = {.python = true};
  if (types != kTextType) {
    const size_t begin = text.find_first_not_of(" \t\r\n");
    const std::string_view written = begin == text.npos ? std::string_view() : text.substr(begin);
    std::optional<std::string> value = ReadValue(written, {});
    if (!value) value = ReadValue(written, kPython);
    if (value) {
      const unsigned type = TypeOfText(*value);
      // A text in quotes is one only where nothing else can be meant.
      const bool fits = (types & type) != 0 && type != kTextType;
      const bool is_whole = type == kNumberType && (types & kIntegerType) != 0;
      if (fits || is_whole || (types & kTextType) == 0) return *value;
    }
  }
  std::string json = "\"";
  AppendEscaped(text, &json);
  return json + '"';
}

}  // namespace ng::calls
