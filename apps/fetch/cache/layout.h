// Where Hugging Face's cache has what: models--ORG--NAME with blobs/ETAG, the files of a commit as
// links into them, snapshots/COMMIT/PATH, and refs/REVISION, which names a commit.
//
// Source: huggingface_hub, "Understand caching" and file_download.py.
#ifndef NG_APPS_FETCH_CACHE_LAYOUT_H_
#define NG_APPS_FETCH_CACHE_LAYOUT_H_

#include <cstdint>
#include <string>

#include "ng/status.h"

namespace ng::fetch {

// The name of a blob, of a header ETag: without quotes and W/. Errors: ModelFileError: it can be no
// name of a file.
absl::StatusOr<std::string> EtagOf(const std::string& header);

// The places of one repository. Every path, commit and etag that is given has been checked.
class RepoCache {
 public:
  RepoCache(const std::string& cache, const std::string& repository);

  const std::string& folder() const { return folder_; }
  std::string Blob(const std::string& etag) const;
  std::string Partial(const std::string& etag) const;
  std::string Lock(const std::string& etag) const;
  std::string Snapshot(const std::string& commit) const;
  std::string File(const std::string& commit, const std::string& path) const;

  // Makes the folders of blobs and locks. Errors: OutputError.
  absl::Status MakeFolders() const;
  // Shows a blob as a file of a commit. Errors: OutputError.
  absl::Status Link(const std::string& commit, const std::string& path,
                    const std::string& etag) const;
  // Notes the commit of a revision, unless the revision is the commit. Errors: OutputError.
  absl::Status WriteRef(const std::string& revision, const std::string& commit) const;

 private:
  std::string name_;   // "models--ORG--NAME"
  std::string locks_;  // a folder for all of the repository
  std::string folder_;
};

// The bytes of the file that a path leads to; -1: there is none.
int64_t SizeOfFile(const std::string& path);

// What is free where a folder is, or will be, for this user. Errors: OutputError.
absl::StatusOr<int64_t> FreeBytes(const std::string& folder);

}  // namespace ng::fetch

#endif  // NG_APPS_FETCH_CACHE_LAYOUT_H_
