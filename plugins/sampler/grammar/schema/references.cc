#include "plugins/sampler/grammar/schema/references.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "plugins/sampler/grammar/schema/nodes.h"

namespace ng::grammar {
namespace {

// Keywords by what they hold: a schema or a list of them; schemas by name.
constexpr std::string_view kHoldSchemas[] = {"items",
                                             "prefixItems",
                                             "additionalItems",
                                             "additionalProperties",
                                             "propertyNames",
                                             "contains",
                                             "allOf",
                                             "anyOf",
                                             "oneOf",
                                             "not",
                                             "if",
                                             "then",
                                             "else",
                                             "unevaluatedProperties",
                                             "unevaluatedItems"};
constexpr std::string_view kHoldNamedSchemas[] = {
    "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"};

// "http:" of "http://a/b"; empty where there is none.
std::string SchemeOf(const std::string& uri) {
  const size_t end = uri.find_first_of(":/?#");
  return end == uri.npos || end == 0 || uri[end] != ':' ? "" : uri.substr(0, end + 1);
}

// The end of "http://a" in "http://a/b".
size_t AuthorityEnd(const std::string& uri) {
  const size_t scheme = SchemeOf(uri).size();
  if (uri.compare(scheme, 2, "//") != 0) return scheme;
  return std::min(uri.find('/', scheme + 2), uri.size());
}

std::string WithoutDots(const std::string& path) {
  std::vector<std::string> kept;
  const std::vector<std::string> parts = absl::StrSplit(path, '/');
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i] != "." && parts[i] != "..") {
      kept.push_back(parts[i]);
      continue;
    }
    if (parts[i] == ".." && kept.size() > 1) kept.pop_back();
    if (i + 1 == parts.size()) kept.emplace_back();
  }
  return absl::StrJoin(kept, "/");
}

// A reference without its fragment, as RFC 3986 says (5.2), without queries.
std::string Absolute(const std::string& base, const std::string& reference) {
  if (reference.empty()) return base;
  if (!SchemeOf(reference).empty()) return reference;
  if (reference.starts_with("//")) return absl::StrCat(SchemeOf(base), reference);
  const size_t authority = AuthorityEnd(base);
  std::string path = reference;
  if (!reference.starts_with('/')) {
    const size_t slash = base.rfind('/');
    const bool has_folder = slash != base.npos && slash >= authority;
    const std::string root = authority > 0 ? "/" : "";
    path.insert(0, has_folder ? base.substr(authority, slash + 1 - authority) : root);
  }
  return absl::StrCat(base.substr(0, authority), WithoutDots(path));
}

bool HasText(const Json& schema, const char* name) {
  return schema.contains(name) && schema[name].is_string();
}

// One step of a JSON pointer, as it is written in a fragment.
std::string StepOf(const std::string& written) {
  std::string name;
  for (size_t i = 0; i < written.size(); ++i) {
    char c = written[i];
    if (c == '~' && i + 1 < written.size()) c = written[++i] == '0' ? '~' : '/';
    if (c == '%' && i + 2 < written.size()) {
      c = static_cast<char>(std::strtol(written.substr(i + 1, 2).c_str(), nullptr, 16));
      i += 2;
    }
    name += c;
  }
  return name;
}

}  // namespace

absl::Status SchemaReferences::Read(const Json& root, bool old) {
  root_ = &root;
  old_ = old;
  return Walk(root, "", "#");
}

absl::Status SchemaReferences::Name(const std::string& name, const Json& schema,
                                    const std::string& at) {
  if (names_.emplace(name, &schema).second) return absl::OkStatus();
  return SchemaError(at, absl::StrCat("'", OneLine(name), "' is the name of two schemas"));
}

absl::Status SchemaReferences::Walk(const Json& schema, std::string base, const std::string& at) {
  if (!schema.is_object()) return absl::OkStatus();
  const bool is_root = &schema == root_;
  const bool only_reference = old_ && schema.contains("$ref");
  std::string id =
      HasText(schema, "$id") && !only_reference ? schema["$id"].get<std::string>() : "";
  if (id.ends_with('#')) id.pop_back();
  const bool is_anchor = id.starts_with('#');
  if (is_root || (!id.empty() && !is_anchor)) {
    if (id.find('#') != id.npos && !is_anchor) {
      return SchemaError(at, absl::StrCat("the $id '", OneLine(id), "' has a fragment"));
    }
    if (!is_root && schema.contains("$schema") &&
        schema["$schema"] != root_->value("$schema", Json())) {
      return SchemaError(at, "a part of another draft is not supported");
    }
    if (!is_anchor) base = Absolute(base, id);
    NG_RETURN_IF_ERROR(Name(base, schema, at));
    ++n_resources_;
  }
  bases_[&schema] = base;
  if (is_anchor && old_) NG_RETURN_IF_ERROR(Name(absl::StrCat(base, id), schema, at));
  for (const char* name : {"$anchor", "$dynamicAnchor"}) {
    if (!HasText(schema, name) || old_) continue;
    NG_RETURN_IF_ERROR(Name(absl::StrCat(base, "#", schema[name].get<std::string>()), schema, at));
  }
  return WalkBelow(schema, base, at);
}

absl::Status SchemaReferences::WalkBelow(const Json& schema, const std::string& base,
                                         const std::string& at) {
  for (const auto& [name, value] : schema.items()) {
    const std::string where = PointerTo(at, name);
    const bool one_or_list = std::ranges::find(kHoldSchemas, name) != std::end(kHoldSchemas);
    const bool named = std::ranges::find(kHoldNamedSchemas, name) != std::end(kHoldNamedSchemas);
    if (one_or_list && value.is_object()) NG_RETURN_IF_ERROR(Walk(value, base, where));
    const bool many = (one_or_list && value.is_array()) || (named && value.is_object());
    if (!many) continue;
    for (const auto& [key, each] : value.items()) {
      NG_RETURN_IF_ERROR(Walk(each, base, PointerTo(where, key)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<const Json*> SchemaReferences::Find(const Json& from,
                                                   const std::string& reference) const {
  const auto known = bases_.find(&from);
  // A part that was made of others does not say where it comes from.
  if (known == bases_.end() && n_resources_ > 1) {
    return UsageError("is within an opposite, in a schema with several $id");
  }
  const std::string& base = known == bases_.end() ? bases_.at(root_) : known->second;
  const size_t sharp = std::min(reference.find('#'), reference.size());
  const std::string uri = Absolute(base, reference.substr(0, sharp));
  const std::string fragment = reference.substr(std::min(sharp + 1, reference.size()));
  const auto resource = names_.find(uri);
  if (resource == names_.end()) {
    return UsageError("is outside of the schema; only references within it are read");
  }
  if (fragment.empty()) return resource->second;
  if (fragment[0] == '/') return Follow(*resource->second, fragment.substr(1));
  const auto anchor = names_.find(absl::StrCat(uri, "#", fragment));
  if (anchor == names_.end()) return UsageError("is an anchor that is not there");
  return anchor->second;
}

absl::StatusOr<const Json*> SchemaReferences::Follow(const Json& resource,
                                                     const std::string& pointer) const {
  const Json* now = &resource;
  const std::vector<std::string> steps = absl::StrSplit(pointer, '/');
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string name = StepOf(steps[i]);
    const bool is_index =
        !name.empty() && name.size() < 7 && name.find_first_not_of("0123456789") == name.npos;
    if (now->is_object() && now->contains(name)) {
      now = &now->at(name);
    } else if (now->is_array() && is_index && std::stoul(name) < now->size()) {
      now = &now->at(std::stoul(name));
    } else {
      return UsageError("is not there");
    }
    if (i + 1 < steps.size() && now->is_object() && HasText(*now, "$id")) {
      return UsageError("goes through a schema with an $id of its own");
    }
  }
  if (now->is_object() && !bases_.contains(now) && n_resources_ > 1) {
    return UsageError("is no schema of a known keyword, beside several $id");
  }
  return now;
}

}  // namespace ng::grammar
