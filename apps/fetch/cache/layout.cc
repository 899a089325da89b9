#include "apps/fetch/cache/layout.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "ng/files.h"

namespace ng::fetch {
namespace {

namespace fs = std::filesystem;

absl::Status CannotMake(const std::string& path, int error) {
  return OutputError(absl::StrCat(path, ": cannot make it: ", std::strerror(error)));
}

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  return error ? CannotMake(path, error.value()) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> EtagOf(const std::string& header) {
  constexpr size_t kLongest = 128;
  constexpr std::string_view kBeside = "-_.";
  std::string etag = header;
  if (etag.starts_with("W/")) etag.erase(0, 2);
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') {
    etag = etag.substr(1, etag.size() - 2);
  }
  const bool plain = !etag.empty() && etag.size() <= kLongest && etag.front() != '.' &&
                     std::ranges::all_of(etag, [&](char c) {
                       return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                              kBeside.find(c) != kBeside.npos;
                     });
  if (plain) return etag;
  return ModelFileError(
      absl::StrCat("ETag = ", header.substr(0, kLongest), ", which can be no file's name"));
}

RepoCache::RepoCache(const std::string& cache, const std::string& repository)
    : name_("models--" + absl::StrReplaceAll(repository, {{"/", "--"}})),
      locks_(absl::StrCat(cache, "/.locks/", name_)),
      folder_(absl::StrCat(cache, "/", name_)) {}

std::string RepoCache::Blob(const std::string& etag) const {
  return absl::StrCat(folder_, "/blobs/", etag);
}
std::string RepoCache::Partial(const std::string& etag) const { return Blob(etag) + ".incomplete"; }
std::string RepoCache::Lock(const std::string& etag) const {
  return absl::StrCat(locks_, "/", etag, ".lock");
}
std::string RepoCache::Snapshot(const std::string& commit) const {
  return absl::StrCat(folder_, "/snapshots/", commit);
}
std::string RepoCache::File(const std::string& commit, const std::string& path) const {
  return absl::StrCat(Snapshot(commit), "/", path);
}

absl::Status RepoCache::MakeFolders() const {
  NG_RETURN_IF_ERROR(MakeFolder(locks_));
  return MakeFolder(folder_ + "/blobs");
}

absl::Status RepoCache::Link(const std::string& commit, const std::string& path,
                             const std::string& etag) const {
  const std::string link = File(commit, path);
  std::string target = absl::StrCat("../../blobs/", etag);
  for (int64_t i = std::ranges::count(path, '/'); i > 0; --i) target.insert(0, "../");
  NG_RETURN_IF_ERROR(MakeFolder(fs::path(link).parent_path().string()));
  if (::symlink(target.c_str(), link.c_str()) == 0) return absl::OkStatus();
  if (errno != EEXIST) return CannotMake(link, errno);
  std::error_code error;
  if (fs::read_symlink(link, error) == target) return absl::OkStatus();
  // What leads elsewhere is replaced at once.
  const std::string beside = absl::StrCat(Blob(etag), ".link.", ::getpid());
  ::unlink(beside.c_str());
  if (::symlink(target.c_str(), beside.c_str()) != 0) return CannotMake(beside, errno);
  if (::rename(beside.c_str(), link.c_str()) == 0) return absl::OkStatus();
  const int reason = errno;
  ::unlink(beside.c_str());
  return CannotMake(link, reason);
}

absl::Status RepoCache::WriteRef(const std::string& revision, const std::string& commit) const {
  if (revision == commit) return absl::OkStatus();
  const std::string ref = absl::StrCat(folder_, "/refs/", revision);
  NG_RETURN_IF_ERROR(MakeFolder(fs::path(ref).parent_path().string()));
  NG_ASSIGN_OR_RETURN(AtomicFileWriter file, AtomicFileWriter::Create(ref));
  NG_RETURN_IF_ERROR(file.Write(commit));
  return file.Commit();
}

int64_t SizeOfFile(const std::string& path) {
  struct stat status {};
  const bool there = ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
  return there ? status.st_size : -1;
}

absl::StatusOr<int64_t> FreeBytes(const std::string& folder) {
  fs::path at = folder;
  std::error_code error;
  while (!fs::exists(at, error) && at.has_parent_path() && at != at.parent_path()) {
    at = at.parent_path();
  }
  if (at.empty()) at = ".";
  struct statvfs system {};
  if (::statvfs(at.c_str(), &system) != 0) {
    return OutputError(absl::StrCat(at.string(), ": cannot look at it: ", std::strerror(errno)));
  }
  return static_cast<int64_t>(system.f_bavail) * static_cast<int64_t>(system.f_frsize);
}

}  // namespace ng::fetch
