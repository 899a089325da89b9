#include "plugins/sampler/grammar/schema/references.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>
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

absl::Status SchemaReferences::Read(const Json& root, SchemaDraft draft) {
  root_ = &root;
  draft_ = draft;
  scopes_.emplace_back();
  numbers_[{}] = 0;
  resources_.emplace_back();
  NG_RETURN_IF_ERROR(Walk(root, resources_.front(), "#"));
  DropUnambiguous();
  return absl::OkStatus();
}

// A name that one resource alone gives means the same on every way.
void SchemaReferences::DropUnambiguous() {
  std::map<std::string, int> n_givers;
  for (const Resource& resource : resources_) {
    for (const auto& [name, schema] : resource.dynamic) ++n_givers[name];
  }
  for (Resource& resource : resources_) {
    std::erase_if(resource.dynamic,
                  [&](const auto& item) { return !dynamic_ || n_givers[item.first] < 2; });
  }
}

absl::Status SchemaReferences::Name(const std::string& name, const Json& schema,
                                    const std::string& at) {
  if (names_.emplace(name, &schema).second) return absl::OkStatus();
  return SchemaError(at, absl::StrCat("'", OneLine(name), "' is the name of two schemas"));
}

// `around`: the resource that the schema is in, unless it is one itself.
absl::Status SchemaReferences::Walk(const Json& schema, Resource& around, const std::string& at) {
  if (!schema.is_object()) return absl::OkStatus();
  const bool is_root = &schema == root_;
  const bool is_old = draft_ == SchemaDraft::k7;
  const bool only_reference = is_old && schema.contains("$ref");
  std::string id =
      HasText(schema, "$id") && !only_reference ? schema["$id"].get<std::string>() : "";
  if (id.ends_with('#')) id.pop_back();
  const bool is_anchor = id.starts_with('#');
  Resource* resource = &around;
  if (is_root || (!id.empty() && !is_anchor)) {
    if (id.find('#') != id.npos && !is_anchor) {
      return SchemaError(at, absl::StrCat("the $id '", OneLine(id), "' has a fragment"));
    }
    if (!is_root && schema.contains("$schema") &&
        schema["$schema"] != root_->value("$schema", Json())) {
      return SchemaError(at, "a part of another draft is not supported");
    }
    if (!is_root) resource = &resources_.emplace_back();
    if (!is_anchor) resource->base = Absolute(around.base, id);
    NG_RETURN_IF_ERROR(Name(resource->base, schema, at));
    const auto recursive = schema.find("$recursiveAnchor");
    if (draft_ == SchemaDraft::k2019 && recursive != schema.end() && *recursive == true) {
      resource->dynamic[""] = &schema;
    }
  }
  resource_of_[&schema] = resource;
  if (is_anchor && is_old) {
    NG_RETURN_IF_ERROR(Name(absl::StrCat(resource->base, id), schema, at));
  }
  for (const char* name : {"$anchor", "$dynamicAnchor"}) {
    if (is_old || !HasText(schema, name)) continue;
    const auto anchor = schema[name].get<std::string>();
    NG_RETURN_IF_ERROR(Name(absl::StrCat(resource->base, "#", anchor), schema, at));
    if (std::string_view(name) == "$dynamicAnchor") resource->dynamic[anchor] = &schema;
  }
  dynamic_ |= schema.contains("$dynamicRef") || schema.contains("$recursiveRef");
  return WalkBelow(schema, *resource, at);
}

absl::Status SchemaReferences::WalkBelow(const Json& schema, Resource& resource,
                                         const std::string& at) {
  for (const auto& [name, value] : schema.items()) {
    const std::string where = PointerTo(at, name);
    const bool one_or_list = std::ranges::find(kHoldSchemas, name) != std::end(kHoldSchemas);
    const bool named = std::ranges::find(kHoldNamedSchemas, name) != std::end(kHoldNamedSchemas);
    if (one_or_list && value.is_object()) NG_RETURN_IF_ERROR(Walk(value, resource, where));
    const bool many = (one_or_list && value.is_array()) || (named && value.is_object());
    if (!many) continue;
    for (const auto& [key, each] : value.items()) {
      NG_RETURN_IF_ERROR(Walk(each, resource, PointerTo(where, key)));
    }
  }
  return absl::OkStatus();
}

int32_t SchemaReferences::Within(const Json& schema, int32_t scope) {
  const auto known = resource_of_.find(&schema);
  if (known == resource_of_.end() || known->second->dynamic.empty()) return scope;
  const auto [place, is_new] = within_.try_emplace({scope, known->second}, scope);
  if (!is_new) return place->second;
  Names names = scopes_[static_cast<size_t>(scope)];
  names.insert(known->second->dynamic.begin(), known->second->dynamic.end());
  const auto [number, is_new_scope] =
      numbers_.try_emplace(names, static_cast<int32_t>(scopes_.size()));
  if (is_new_scope) scopes_.push_back(std::move(names));
  return place->second = number->second;
}

absl::StatusOr<const Json*> SchemaReferences::FindDynamic(const Json& from,
                                                          const std::string& reference,
                                                          int32_t scope) {
  NG_ASSIGN_OR_RETURN(const Json* const found, Find(from, reference));
  const size_t sharp = std::min(reference.find('#'), reference.size());
  const std::string anchor = reference.substr(std::min(sharp + 1, reference.size()));
  const auto resource = resource_of_.find(found);
  if (resource == resource_of_.end()) return found;
  const Names& dynamic = resource->second->dynamic;
  const auto own = dynamic.find(anchor);
  if (own == dynamic.end() || own->second != found) return found;
  const Names& names = scopes_[static_cast<size_t>(scope)];
  const auto outermost = names.find(anchor);
  return outermost == names.end() ? found : outermost->second;
}

absl::StatusOr<const Json*> SchemaReferences::Find(const Json& from, const std::string& reference) {
  const auto known = resource_of_.find(&from);
  if (known == resource_of_.end() && resources_.size() > 1) {
    return UsageError("is no part of a known keyword, beside several $id");
  }
  const std::string& base =
      known == resource_of_.end() ? resources_.front().base : known->second->base;
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
                                                     const std::string& pointer) {
  const Json* now = &resource;
  const std::vector<std::string> steps = absl::StrSplit(pointer, '/');
  for (size_t i = 0; i < steps.size(); ++i) {
    const std::string name = StepOf(steps[i]);
    const bool is_index =
        !name.empty() && name.size() < 7 && name.find_first_not_of("0123456789") == name.npos;
    const Json* const member = now->is_object() ? members_.Find(*now, name) : nullptr;
    if (member != nullptr) {
      now = member;
    } else if (now->is_array() && is_index && std::stoul(name) < now->size()) {
      now = &now->at(std::stoul(name));
    } else {
      return UsageError("is not there");
    }
    if (i + 1 < steps.size() && now->is_object() && HasText(*now, "$id")) {
      return UsageError("goes through a schema with an $id of its own");
    }
  }
  if (now->is_object() && !resource_of_.contains(now) && resources_.size() > 1) {
    return UsageError("is no schema of a known keyword, beside several $id");
  }
  return now;
}

}  // namespace ng::grammar
