#include "apps/fetch/hub/listing.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "apps/common/json.h"

namespace ng::fetch {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 64;
constexpr int64_t kMostBytes = int64_t{1} << 50;  // of a file

std::string TextAt(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// -1 where the key is absent. Errors: it is there and no size.
absl::StatusOr<int64_t> SizeAt(const Json& object, const std::string& of) {
  const auto found = object.find("size");
  if (found == object.end() || found->is_null()) return -1;
  const bool is_size = found->is_number_unsigned() && found->get<uint64_t>() <= kMostBytes;
  if (is_size) return found->get<int64_t>();
  return ModelFileError(absl::StrCat(of, ": size = ", ShownJson(*found),
                                     ", must be a number of bytes, at most ", kMostBytes));
}

// A hash, or nothing where the key is absent. Errors: it is there and no hash.
absl::StatusOr<std::string> HashAt(const Json& object, const char* key, size_t length,
                                   const std::string& of) {
  std::string hash = TextAt(object, key);
  if (hash.empty() || IsHex(hash, length)) return hash;
  return ModelFileError(absl::StrCat(of, ": ", key, " = ", ShownJson(Json(hash)), ", must be ",
                                     length, " hexadecimal digits"));
}

absl::StatusOr<RepoFile> ReadFile(const Json& entry, const std::string& name) {
  constexpr size_t kSha1 = 40;
  constexpr size_t kSha256 = 64;
  RepoFile file;
  if (entry.is_object()) file.path = TextAt(entry, "rfilename");
  if (!IsPathInside(file.path)) {
    return ModelFileError(absl::StrCat(name, ": names a file ", ShownJson(Json(file.path)),
                                       ", which is none of a repository; nothing is fetched"));
  }
  const std::string of = absl::StrCat(name, ": ", file.path);
  NG_ASSIGN_OR_RETURN(file.size, SizeAt(entry, of));
  const auto lfs = entry.find("lfs");
  if (lfs == entry.end() || !lfs->is_object()) {
    NG_ASSIGN_OR_RETURN(file.git_sha1, HashAt(entry, "blobId", kSha1, of));
    return file;
  }
  NG_ASSIGN_OR_RETURN(file.sha256, HashAt(*lfs, "sha256", kSha256, of));
  NG_ASSIGN_OR_RETURN(const int64_t size, SizeAt(*lfs, of));
  if (file.size >= 0 && size >= 0 && size != file.size) {
    return ModelFileError(absl::StrCat(of, ": has two sizes, ", file.size, " and ", size));
  }
  file.size = std::max(file.size, size);
  return file;
}

}  // namespace

bool IsHex(std::string_view text, size_t length) {
  return text.size() == length && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool IsCommit(std::string_view text) {
  constexpr size_t kSha1 = 40;
  constexpr size_t kSha256 = 64;
  return IsHex(text, kSha1) || IsHex(text, kSha256);
}

bool IsPathInside(std::string_view path) {
  constexpr size_t kLongest = 1000;
  constexpr size_t kLongestName = 200;
  constexpr unsigned char kDelete = 0x7F;
  if (path.empty() || path.size() > kLongest) return false;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < ' ' || byte == kDelete || c == '\\') return false;
  }
  const std::vector<std::string> names =
      absl::StrSplit(absl::string_view(path.data(), path.size()), '/');
  return std::ranges::all_of(names, [](const std::string& name) {
    return !name.empty() && name != "." && name != ".." && name.size() <= kLongestName;
  });
}

absl::StatusOr<Listing> ReadListing(std::string_view json, const std::string& name) {
  constexpr size_t kMostFiles = 100000;
  NG_ASSIGN_OR_RETURN(const Json read, ParseUserJson(json, name, kMaxDepth));
  const auto files = read.is_object() ? read.find("siblings") : read.end();
  if (!read.is_object() || files == read.end() || !files->is_array()) {
    return ModelFileError(name + ": is no list of a repository's files (siblings)");
  }
  if (files->size() > kMostFiles) {
    return ModelFileError(
        absl::StrCat(name, ": has ", files->size(), " files, must be at most ", kMostFiles));
  }
  Listing listing;
  listing.commit = TextAt(read, "sha");
  if (!IsCommit(listing.commit)) {
    return ModelFileError(
        absl::StrCat(name, ": sha = ", ShownJson(Json(listing.commit)), ", must be a commit"));
  }
  std::set<std::string> seen;
  for (const Json& entry : *files) {
    NG_ASSIGN_OR_RETURN(RepoFile file, ReadFile(entry, name));
    if (seen.insert(file.path).second) listing.files.push_back(std::move(file));
  }
  return listing;
}

absl::StatusOr<std::vector<std::string>> ReadIndex(std::string_view json, const std::string& name) {
  NG_ASSIGN_OR_RETURN(const Json read, ParseUserJson(json, name, kMaxDepth));
  const auto map = read.is_object() ? read.find("weight_map") : read.end();
  if (!read.is_object() || map == read.end() || !map->is_object()) {
    return ModelFileError(name + ": has no weight_map");
  }
  std::set<std::string> files;
  for (const Json& file : *map) {
    if (!file.is_string() || !IsPathInside(file.get<std::string>())) {
      return ModelFileError(absl::StrCat(name, ": names a file ", ShownJson(file),
                                         ", which is none of a repository"));
    }
    files.insert(file.get<std::string>());
  }
  return std::vector<std::string>(files.begin(), files.end());
}

}  // namespace ng::fetch
