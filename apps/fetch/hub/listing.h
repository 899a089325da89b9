// The files of a repository, as the hub lists them. Nothing in the list is trusted.
#ifndef NG_APPS_FETCH_HUB_LISTING_H_
#define NG_APPS_FETCH_HUB_LISTING_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ng/status.h"

namespace ng::fetch {

struct RepoFile {
  std::string path = {};      // in the repository: "sub/model.safetensors"
  int64_t size = -1;          // -1: the hub does not say
  std::string sha256 = {};    // of a large file; empty: likewise
  std::string git_sha1 = {};  // of another one; empty: likewise
};

struct Listing {
  std::string commit;
  std::vector<RepoFile> files;
};

// The longest list that is read.
inline constexpr int64_t kMostListingBytes = int64_t{32} << 20;

// Errors: ModelFileError that begins with `name`: it is no such list, names a file outside of the
// repository, or has too many files.
absl::StatusOr<Listing> ReadListing(std::string_view json, const std::string& name);

// The files that an index of weights in several files names, each once, in order. Errors: as above.
absl::StatusOr<std::vector<std::string>> ReadIndex(std::string_view json, const std::string& name);

// Whether it names a file in a folder for which it is meant: it is not absolute, has no "..", and
// no character that steers a terminal.
bool IsPathInside(std::string_view path);

// Whether it can be a commit, which is the name of a folder.
bool IsCommit(std::string_view text);

// Hexadecimal digits of a length, in small letters.
bool IsHex(std::string_view text, size_t length);

}  // namespace ng::fetch

#endif  // NG_APPS_FETCH_HUB_LISTING_H_
