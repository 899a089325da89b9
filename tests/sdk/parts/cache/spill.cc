// Plain tiles16 of f32 in a file that is mapped: the system writes old pages out and reads them
// back. Any backend for tiles16 runs over it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "ng/plugin.h"
#include "page_store.h"

namespace {

using Store = parts::PageStore<parts::Float32>;

constexpr ng::OptionSpec kOptions[] = {
    {"file", ng::OptionType::kText, "", 0, 0, false, false, nullptr,
     "the file for keys and values; it is made, and has no name from then on"}};

absl::StatusOr<ng::CachePlan> Plan(const ng::PluginContext& context, const ng::CacheSpec& spec) {
  NG_RETURN_IF_ERROR(parts::CheckSpec(spec, ng::kLayoutTiles16));
  if (context.options.Text("file").empty()) {
    return ng::UsageError("cache.spill.file is empty, must name a file");
  }
  ng::CachePlan plan = Store::PlanOf(spec, ng::kLayoutTiles16);
  plan.disk_bytes = std::exchange(plan.bytes, 0);
  return plan;
}

absl::StatusOr<std::unique_ptr<ng::CacheStore>> Create(const ng::PluginContext& context,
                                                       const ng::CacheSpec& spec) {
  NG_ASSIGN_OR_RETURN(const ng::CachePlan plan, Plan(context, spec));
  const std::string path(context.options.Text("file"));
  const auto failed = [&](const char* what, int error) {
    return ng::RuntimeError(path + ": cannot " + what + ": " +
                            std::generic_category().message(error));
  };
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return failed("create it", errno);
  unlink(path.c_str());
  const auto bytes = static_cast<size_t>(plan.disk_bytes);
  const int error = posix_fallocate(file, 0, plan.disk_bytes);
  void* const memory =
      error == 0 ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  const int map_error = errno;
  close(file);
  if (error != 0) return failed("reserve it", error);
  if (memory == MAP_FAILED) return failed("map it", map_error);
  return std::make_unique<Store>(
      spec, plan,
      Store::Memory(static_cast<std::byte*>(memory), [bytes](std::byte* p) { munmap(p, bytes); }),
      Store::CountPages(spec, spec.max_tokens));
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin = ng::CachePlugin<Plan, Create>(
    "spill", "1.0.0", "keys and values in a mapped file; f32", kOptions);
