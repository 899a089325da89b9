#include "core/plugin/library.h"

#include <dlfcn.h>
#include <immintrin.h>
#include <sys/mman.h>

// Boost.DLL is header-only over the standard library's paths.
#define BOOST_DLL_USE_STD_FS
#include <boost/dll/runtime_symbol_info.hpp>
#include <boost/dll/shared_library.hpp>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/plugin/elf_extent.h"

namespace ng {
namespace {

namespace dll = boost::dll;
namespace fs = std::filesystem;

constexpr char kSymbol[] = "ng_plugin";

// Libraries opened so far, by real path. Leaked on purpose: code of a plugin may run until the
// process ends, so no destructor may unmap it.
struct Registry {
  std::mutex mutex;
  std::map<std::string, dll::shared_library> libraries;
};

Registry& OpenedLibraries() {
  static auto& registry = *new Registry;
  return registry;
}

// A library linked with -ffast-math sets flush-to-zero in its initialisers, which would change
// every result of the thread that opened it.
class MxcsrKeeper {
 public:
  MxcsrKeeper() : saved_(_mm_getcsr()) {}
  ~MxcsrKeeper() { _mm_setcsr(saved_); }
  MxcsrKeeper(const MxcsrKeeper&) = delete;
  MxcsrKeeper& operator=(const MxcsrKeeper&) = delete;

 private:
  const unsigned saved_;
};

absl::Status Broken(std::string_view path, absl::string_view why) {
  return PluginError(
      absl::StrCat("plugin ", absl::string_view(path.data(), path.size()), ": ", why));
}

// The error code of a failed load is the same for every cause; dlerror says which it was.
std::string LoadFailure(std::string_view path) {
  const char* text = dlerror();
  if (text == nullptr) return "cannot be loaded";
  std::string_view cause = text;
  if (cause.starts_with(path)) cause.remove_prefix(path.size());
  if (cause.starts_with(": ")) cause.remove_prefix(2);
  return "cannot be loaded: " + std::string(cause);
}

// Whether there are addresses for a library of so many bytes; why loading one fails is not said.
bool CanMap(uintmax_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
  return memory != MAP_FAILED && munmap(memory, bytes) == 0;
}

absl::StatusOr<dll::shared_library> Load(const std::string& path) {
  const absl::Status complete = CheckElfExtent(path);
  if (!complete.ok()) return Broken(path, complete.message());
  const MxcsrKeeper keeper;
  dll::shared_library library;
  std::error_code error;
  library.load(path, error, dll::load_mode::rtld_now | dll::load_mode::rtld_local);
  if (error) {
    const absl::Status failed = Broken(path, LoadFailure(path));
    constexpr uintmax_t kBeside = uintmax_t{1} << 20;  // the loader's own
    std::error_code ignored;
    if (CanMap(2 * fs::file_size(path, ignored) + kBeside)) return failed;
    return LimitError(absl::StrCat(failed.message(), "; there is no memory for it"));
  }
  return library;
}

}  // namespace

absl::StatusOr<const PluginDescriptor*> OpenPluginLibrary(const std::string& path) {
  std::error_code error;
  const std::string real = fs::canonical(path, error);
  if (error == std::errc::not_enough_memory) return LimitError("out of memory");
  if (error) return Broken(path, error.message());
  if (!fs::is_regular_file(real, error)) return Broken(path, "not a regular file");

  Registry& registry = OpenedLibraries();
  const std::lock_guard lock(registry.mutex);
  auto found = registry.libraries.find(real);
  if (found == registry.libraries.end()) {
    NG_ASSIGN_OR_RETURN(dll::shared_library library, Load(real));
    found = registry.libraries.emplace(real, std::move(library)).first;
  }
  const dll::shared_library& library = found->second;
  if (!library.has(kSymbol)) {
    return Broken(real, absl::StrCat("not an ng plugin: no symbol '", kSymbol, "'"));
  }
  return &library.get<const PluginDescriptor>(kSymbol);
}

absl::StatusOr<std::string> OwnPluginDirectory() {
  std::error_code error;
  const fs::path library = fs::canonical(dll::this_line_location(error), error);
  if (error == std::errc::not_enough_memory) return LimitError("out of memory");
  if (error) return RuntimeError("cannot find the file of libng_core.so: " + error.message());
  return (library.parent_path() / "ng" / "plugins").string();
}

}  // namespace ng
