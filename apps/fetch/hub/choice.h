// Which files of a repository are fetched: those that ng reads.
#ifndef NG_APPS_FETCH_HUB_CHOICE_H_
#define NG_APPS_FETCH_HUB_CHOICE_H_

#include <string>
#include <vector>

#include "apps/fetch/hub/listing.h"
#include "ng/status.h"

namespace ng::fetch {

struct Wanted {
  std::string repository;
  std::string tag;                    // which GGUF file; empty: not said
  std::vector<std::string> patterns;  // of paths, in place of the choice; none: not said
};

// The index of weights in several files, which must be read before the choice; null: none is there,
// or nothing of it is wanted.
const RepoFile* IndexToRead(const Listing& listing, const Wanted& wanted);

// The files, in the order of the list. `indexed`: what the index names. Errors: UsageError: several
// GGUF files and no tag, or a pattern that no file matches; ModelFileError: there is nothing that
// ng reads, or no file of this tag, or a file is missing.
absl::StatusOr<std::vector<RepoFile>> ChooseFiles(const Listing& listing, const Wanted& wanted,
                                                  const std::vector<std::string>& indexed);

}  // namespace ng::fetch

#endif  // NG_APPS_FETCH_HUB_CHOICE_H_
