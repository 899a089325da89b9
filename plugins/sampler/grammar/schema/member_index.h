// Finds the members of JSON objects, each object of many being looked through once.
#ifndef NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_MEMBER_INDEX_H_
#define NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_MEMBER_INDEX_H_

#include <map>
#include <string>
#include <unordered_map>

#include "plugins/sampler/grammar/schema/numbers.h"

namespace ng::grammar {

class MemberIndex {
 public:
  // The value of a name in an object, which must stay where it is; null where there is none.
  const Json* Find(const Json& object, const std::string& name) {
    constexpr size_t kMany = 16;
    if (object.size() <= kMany) {
      const auto found = object.find(name);
      return found == object.end() ? nullptr : &*found;
    }
    const auto [place, is_new] = members_.try_emplace(&object);
    if (is_new) {
      for (const auto& [key, value] : object.items()) place->second[key] = &value;
    }
    const auto found = place->second.find(name);
    return found == place->second.end() ? nullptr : found->second;
  }

 private:
  std::map<const Json*, std::unordered_map<std::string, const Json*>> members_;  // of large objects
};

}  // namespace ng::grammar

#endif  // NG_PLUGINS_SAMPLER_GRAMMAR_SCHEMA_MEMBER_INDEX_H_
