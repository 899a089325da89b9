#include "apps/serve/settings.h"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace ng::serve {
namespace {

// The model's folder or file, without what says which kind of file it is.
std::string ModelName(const Config& config) {
  const std::string& given = config.Text("serve.model");
  if (!given.empty()) return given;
  const std::filesystem::path path(config.Text("model.path"));
  const std::filesystem::path name = path.has_filename() ? path : path.parent_path();
  return name.extension() == ".gguf" ? name.stem().string() : name.filename().string();
}

bool CanBeInHeader(const std::string& key) {
  return std::ranges::all_of(key, [](char c) { return c > ' ' && c < '\x7f'; });
}

}  // namespace

std::string AdapterIn(const std::string& model, const Settings& settings) {
  return model == settings.model ? std::string() : model.substr(settings.model.size() + 1);
}

absl::StatusOr<Settings> ReadSettings(const Config& config) {
  Settings settings;
  const std::string& host = config.Text("serve.host");
  settings.key = config.Text("serve.key");
  boost::system::error_code error;
  const auto address =
      boost::asio::ip::make_address(host == "localhost" ? "127.0.0.1" : host, error);
  if (error) {
    return UsageError(absl::StrCat(config.Describe("serve.host"), " = ", host,
                                   ", must be an address in digits, such as 127.0.0.1 or ::1"));
  }
  if (!address.is_loopback() && settings.key.empty()) {
    return UsageError(absl::StrCat(config.Describe("serve.host"), " = ", host,
                                   " can be reached by others; set serve.key too, or listen on "
                                   "127.0.0.1"));
  }
  if (!CanBeInHeader(settings.key)) {
    return UsageError(config.Describe("serve.key") +
                      " holds a blank or another character that a header does not, must be "
                      "letters, digits and signs");
  }
  settings.address = address.to_string();
  settings.paths = DiskPaths(config);
  settings.port = static_cast<int>(config.Int("serve.port"));
  for (std::string& name : config.Names("serve.names")) {
    settings.names.push_back(absl::AsciiStrToLower(name));
  }
  settings.model = ModelName(config);
  settings.models = {settings.model};
  for (const std::string& adapter : config.Names("model.named_adapters")) {
    settings.models.push_back(
        absl::StrCat(settings.model, ":", adapter.substr(0, adapter.find('='))));
  }
  settings.max_queued = static_cast<int>(config.Int("serve.max_queued"));
  const std::string& log = config.Text("serve.log");
  const bool shown = log == "auto" ? isatty(STDERR_FILENO) != 0 : log != "off";
  settings.log = !shown          ? Settings::Log::kNone
                 : log == "json" ? Settings::Log::kJson
                                 : Settings::Log::kText;
  settings.views = static_cast<size_t>(config.Int("serve.views"));
  settings.answer = std::chrono::seconds(config.Int("serve.answer_seconds"));
  settings.alive = std::chrono::seconds(config.Int("serve.alive_seconds"));
  settings.responses = static_cast<int>(config.Int("serve.responses"));
  settings.http = {.max_body_bytes = config.Int("serve.max_body_bytes"),
                   .max_connections = config.Int("serve.max_connections"),
                   .read = std::chrono::seconds(config.Int("serve.read_seconds")),
                   .write = std::chrono::seconds(config.Int("serve.write_seconds")),
                   .idle = std::chrono::seconds(config.Int("serve.idle_seconds"))};
  return settings;
}

}  // namespace ng::serve
