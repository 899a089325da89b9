// Keys and values in a file that is mapped: the system writes old pages out and reads them back.
// Any codec, any backend for tiles16, snapshots.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "ng/plugin.h"
#include "ng/tile_store.h"

namespace {

constexpr ng::OptionSpec kOptions[] = {ng::WithExample(
    ng::TextOption("file", "",
                   "the file for keys and values; it is made, and has no name from then on"),
    "spilled")};

// The shape of a contiguous store whose bytes are a file's.
absl::StatusOr<ng::PageShape> ShapeOf(const ng::PluginContext& context, const ng::CacheSpec& spec) {
  if (context.options.Text("file").empty()) {
    return ng::UsageError("cache.spill.file is empty, must name a file");
  }
  NG_ASSIGN_OR_RETURN(ng::PageShape shape, ng::MakePageShape(spec));
  shape.plan.disk_bytes = std::exchange(shape.plan.bytes, 0);
  return shape;
}

absl::StatusOr<std::shared_ptr<std::byte>> MapFile(const std::string& path, int64_t n_bytes) {
  const auto failed = [&](const char* what, int error) {
    return ng::RuntimeError(path + ": cannot " + what + ": " +
                            std::generic_category().message(error));
  };
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (file < 0) return failed("create it", errno);
  unlink(path.c_str());
  const auto bytes = static_cast<size_t>(n_bytes);
  const int error = posix_fallocate(file, 0, n_bytes);
  void* const memory =
      error == 0 ? mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  const int map_error = errno;
  close(file);
  if (error != 0) return failed("reserve it", error);
  if (memory == MAP_FAILED) return failed("map it", map_error);
  return std::shared_ptr<std::byte>(static_cast<std::byte*>(memory),
                                    [bytes](std::byte* p) { munmap(p, bytes); });
}

absl::StatusOr<ng::CachePlan> Plan(const ng::PluginContext& context, const ng::CacheSpec& spec) {
  NG_ASSIGN_OR_RETURN(const ng::PageShape shape, ShapeOf(context, spec));
  return shape.plan;
}

absl::StatusOr<std::unique_ptr<ng::CacheStore>> Create(const ng::PluginContext& context,
                                                       const ng::CacheSpec& spec) {
  NG_ASSIGN_OR_RETURN(const ng::PageShape shape, ShapeOf(context, spec));
  NG_ASSIGN_OR_RETURN(std::shared_ptr<std::byte> memory,
                      MapFile(std::string(context.options.Text("file")), shape.plan.disk_bytes));
  return std::make_unique<ng::ContiguousTileStore>(context, spec, shape, std::move(memory));
}

}  // namespace

extern "C" NG_EXPORT constinit const ng::PluginDescriptor ng_plugin =
    ng::CachePlugin<Plan, Create>("spill", "1.0.0", "keys and values in a mapped file", kOptions);
