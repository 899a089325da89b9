// An INI file; and what --print-config writes of it, which read again must say the same.
#include <vector>

#include "core/config/config.h"
#include "tests/fuzz/support.h"

namespace {

constexpr char kName[] = "config.ini";

absl::StatusOr<ng::Config> Read(std::string_view bytes) {
  NG_ASSIGN_OR_RETURN(const std::vector<ng::ConfigEntry> entries, ng::ParseIni(bytes, kName));
  for (const ng::ConfigKey& key : ng::CoreConfigKeys()) {
    NG_RETURN_IF_ERROR(ng::LookupEarly(entries, key.key).status());
  }
  return ng::MakeConfig(entries, ng::CoreConfigKeys());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::StatusOr<ng::Config> config = Read(ng::fuzz::Bytes(data, size));
  ng::fuzz::CheckError(config.status(), kName);
  if (!config.ok()) return 0;
  const std::string written = config->ToIni();
  const absl::StatusOr<ng::Config> again = Read(written);
  ng::fuzz::Check(again.ok(), "wrote a config that it refuses:\n" + written);
  ng::fuzz::Check(again->ToIni() == written, "wrote a config that reads differently:\n" + written);
  return 0;
}
