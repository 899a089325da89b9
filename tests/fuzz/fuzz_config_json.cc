// A model's config.json: its family, and what the family's reader makes of it.
#include "core/formats/json.h"
#include "core/model/families/families.h"
#include "core/model/rows/rope.h"
#include "tests/fuzz/support.h"

namespace {

constexpr char kName[] = "config.json";

absl::Status ReadConfig(std::string_view bytes) {
  NG_ASSIGN_OR_RETURN(const ng::JsonDocument json,
                      ng::ParseJson(bytes, kName, ng::JsonLimits().max_depth));
  NG_ASSIGN_OR_RETURN(const ng::JsonFields config, ng::JsonFields::Of(*json, kName));
  NG_ASSIGN_OR_RETURN(const ng::Family* family, ng::FindFamily(config, kName));
  NG_ASSIGN_OR_RETURN(const ng::ModelSpec spec, family->read_spec(config, kName));
  for (const ng::RopeSpec& rope : spec.ropes) ng::RopeFrequencies(rope);
  return absl::OkStatus();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ng::fuzz::CheckError(ReadConfig(ng::fuzz::Bytes(data, size)), kName);
  return 0;
}
