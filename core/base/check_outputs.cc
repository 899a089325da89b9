#include <sys/stat.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/output_file.h"
#include "ng/files.h"

namespace ng {
namespace {

struct Placed {
  const char* name;
  OutputPlace place;
};

// The standard streams that the caller has sent into a file.
std::vector<Placed> StandardStreams() {
  std::vector<Placed> streams;
  for (const auto& [fd, name] : {std::pair{STDOUT_FILENO, "stdout"}, {STDERR_FILENO, "stderr"}}) {
    struct stat status {};
    if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) continue;
    OutputPlace place;
    place.file = FileId(status);
    streams.push_back({name, std::move(place)});
  }
  return streams;
}

}  // namespace

absl::Status CheckOutputs(std::span<const NamedOutput> outputs, const InputLog& inputs) {
  std::vector<Placed> others = StandardStreams();
  for (const auto& [option, path] : outputs) {
    if (path.empty()) continue;
    NG_ASSIGN_OR_RETURN(OutputPlace place, FindOutputPlace(path));
    const std::string* input = place.file ? inputs.Find(*place.file) : nullptr;
    if (input != nullptr) {
      return UsageError(absl::StrCat(option, " would overwrite an input of this run: ", path,
                                     *input == path ? "" : absl::StrCat(" is ", *input)));
    }
    for (const Placed& other : others) {
      if (!IsSameFile(other.place, place)) continue;
      return UsageError(absl::StrCat(other.name, " and ", option, " name one file: ", path));
    }
    NG_RETURN_IF_ERROR(CheckWritable(path, place));
    others.push_back({option, std::move(place)});
  }
  return absl::OkStatus();
}

}  // namespace ng
