#include "core/model/names/hub_cache.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/file.h"
#include "core/model/names/folder_models.h"

namespace ng {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";
constexpr const char* kMain = "main";
constexpr int kRepositoryDepth = 3;  // of folders in a repository
constexpr size_t kShownCommit = 8;   // letters of a commit that tell it from others

// The names of what is in a folder, in order.
std::vector<std::string> NamesIn(const fs::path& folder, std::error_code& error) {
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    names.push_back(at->path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

// Adds the commits that the files below refs name, by the names of these files: "main", "pr/1".
void AddRefs(const fs::path& folder, const std::string& prefix, int depth,
             std::map<std::string, std::string>* refs) {
  constexpr int64_t kLongest = 1000;
  std::error_code error;
  for (const std::string& name : NamesIn(folder, error)) {
    const fs::path path = folder / name;
    if (fs::is_directory(path, error)) {
      if (depth > 0) AddRefs(path, absl::StrCat(prefix, name, "/"), depth - 1, refs);
    } else if (const absl::StatusOr<std::string> text = ReadWholeFile(path.string(), kLongest);
               text.ok()) {
      refs->emplace(prefix + name, absl::StripAsciiWhitespace(*text));
    }
  }
}

struct Repository {
  std::string base;
  fs::path folder;
  std::map<std::string, std::string> refs;
  std::vector<std::string> commits;

  // Whether it is the one that counts where no revision is named.
  bool IsMain(const std::string& commit) const {
    const auto main = refs.find(kMain);
    return main == refs.end() ? commits.size() == 1 : main->second == commit;
  }
  std::vector<std::string> BranchesOf(const std::string& commit) const {
    std::vector<std::string> branches;
    for (const auto& [name, named] : refs) {
      if (named == commit) branches.push_back(name);
    }
    return branches;
  }
};

FoundModel Broken(const Repository& repository, std::string fault) {
  FoundModel model;
  model.base = repository.base;
  model.shown.path = repository.folder.string();
  model.shown.fault = std::move(fault);
  return model;
}

void AddModels(const Repository& repository, std::vector<FoundModel>* models) {
  for (const std::string& commit : repository.commits) {
    const fs::path snapshot = repository.folder / "snapshots" / commit;
    std::vector<FoundModel> in_commit = ModelsIn(snapshot.string(), kRepositoryDepth);
    for (FoundModel& model : in_commit) {
      // Folders in a repository are no part of a base.
      const std::string folder = std::exchange(model.base, repository.base);
      if (model.file.empty()) model.tag = folder;
      model.branches = repository.BranchesOf(commit);
      model.commit = commit;
      if (repository.IsMain(commit)) continue;
      model.revision =
          model.branches.empty() ? commit.substr(0, kShownCommit) : model.branches.front();
    }
    TellApart(&in_commit);
    std::ranges::move(in_commit, std::back_inserter(*models));
  }
}

}  // namespace

std::vector<FoundModel> ModelsOfHubCache(const std::string& folder) {
  std::vector<FoundModel> models;
  std::error_code error;
  for (const std::string& name : NamesIn(folder, error)) {
    if (!name.starts_with(kPrefix)) continue;
    Repository repository;
    repository.base = absl::StrReplaceAll(name.substr(kPrefix.size()), {{"--", "/"}});
    repository.folder = fs::path(folder) / name;
    AddRefs(repository.folder / "refs", "", kRepositoryDepth, &repository.refs);
    std::error_code unread;
    repository.commits = NamesIn(repository.folder / "snapshots", unread);
    AddModels(repository, &models);
    const auto main = repository.refs.find(kMain);
    if (repository.commits.empty()) {
      const bool denied = unread == std::errc::permission_denied;
      models.push_back(
          Broken(repository, denied ? unread.message() : "no snapshot of it is there"));
    } else if (main != repository.refs.end() &&
               std::ranges::count(repository.commits, main->second) == 0) {
      models.push_back(Broken(repository, absl::StrCat("refs/main names the snapshot ",
                                                       main->second, ", which is not there")));
    }
  }
  return models;
}

}  // namespace ng
