// One value: its text checked against its declaration.
//
// Called by MakeConfig and LookupEarly; the help text uses AllowedValues.
// Thread: pure functions, except that paths are made absolute against the current directory.
#ifndef NG_CORE_CONFIG_VALUE_H_
#define NG_CORE_CONFIG_VALUE_H_

#include <memory>
#include <string>
#include <string_view>

#include "core/config/config.h"
#include "ng/option.h"
#include "ng/status.h"

namespace ng {

struct CheckedValue {
  OptionValue value;                 // named by the full key
  std::shared_ptr<const void> list;  // holds what value.items points to; copies share it
};

// Numbers and booleans may have blanks around them; text is taken as it is. Errors: UsageError that
// begins with the entry's place; PluginError when a default breaks its own rule or when this
// version does not know the type.
absl::StatusOr<CheckedValue> CheckValue(const ConfigKey& key, const ConfigEntry& entry);

// "an integer in [0, 1024]", "one of auto, f32, bf16".
std::string AllowedValues(const ConfigKey& key);

// The entry that a key's default stands for.
ConfigEntry DefaultEntry(const ConfigKey& key);

// An error about an entry: "demo.ini:3: run.threads = x, PROBLEM" or "--run.threads=x: PROBLEM".
absl::Status EntryError(const ConfigEntry& entry, std::string_view problem);

}  // namespace ng

#endif  // NG_CORE_CONFIG_VALUE_H_
