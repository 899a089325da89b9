// What a hub says, and what is fetched of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/fetch/hub/choice.h"
#include "apps/fetch/hub/listing.h"
#include "apps/fetch/hub/refusal.h"
#include "apps/fetch/hub/urls.h"

namespace ng::fetch {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kCommit(40, 'a');

std::string ListOf(const std::string& siblings, const std::string& commit = kCommit) {
  return absl::StrCat(R"({"id": "o/n", "sha": ")", commit, R"(", "siblings": [)", siblings, "]}");
}

std::string Fault(const std::string& json) {
  const absl::StatusOr<Listing> listing = ReadListing(json, "o/n");
  return listing.ok() ? "" : std::string(listing.status().message());
}

TEST(HubListing, HasSizesAndHashesOfSmallAndLargeFiles) {
  const absl::StatusOr<Listing> listing = ReadListing(
      ListOf(absl::StrCat(R"({"rfilename": "a.json", "size": 5, "blobId": ")", std::string(40, 'b'),
                          R"("}, {"rfilename": "x/b.gguf", "size": 7, "blobId": ")",
                          std::string(40, 'c'), R"(", "lfs": {"sha256": ")", std::string(64, 'd'),
                          R"(", "size": 7}}, {"rfilename": "c"})")),
      "o/n");
  ASSERT_TRUE(listing.ok()) << listing.status();
  EXPECT_EQ(listing->commit, kCommit);
  ASSERT_EQ(listing->files.size(), 3U);
  EXPECT_EQ(listing->files[0].git_sha1, std::string(40, 'b'));
  EXPECT_EQ(listing->files[0].size, 5);
  // Of a large file git knows a pointer alone.
  EXPECT_EQ(listing->files[1].git_sha1, "");
  EXPECT_EQ(listing->files[1].sha256, std::string(64, 'd'));
  EXPECT_EQ(listing->files[2].size, -1);
}

TEST(HubListing, RefusesWhatIsNoList) {
  for (const char* const name :
       {"../x", "/etc/x", "a//b", "a/../../b", "", "a\\u0000b", "a/.", "a\\nb", "a\\\\b", ".."}) {
    EXPECT_THAT(Fault(ListOf(absl::StrCat(R"({"rfilename": ")", name, R"("})"))),
                HasSubstr("which is none of a repository"))
        << name;
  }
  EXPECT_THAT(Fault(ListOf(absl::StrCat(R"({"rfilename": ")", std::string(300, 'x'), R"("})"))),
              HasSubstr("which is none of a repository"));
  EXPECT_THAT(Fault(ListOf("3")), HasSubstr("which is none of a repository"));
  EXPECT_THAT(Fault(ListOf(R"({"rfilename": "a", "size": -1})")), HasSubstr("size = -1"));
  EXPECT_THAT(Fault(ListOf(R"({"rfilename": "a", "size": 1e30})")), HasSubstr("size = 1e+30"));
  EXPECT_THAT(Fault(ListOf(R"({"rfilename": "a", "blobId": "../x"})")), HasSubstr("blobId"));
  EXPECT_THAT(Fault(ListOf(R"({"rfilename": "a", "size": 1, "lfs": {"size": 2}})")),
              HasSubstr("two sizes"));
  EXPECT_THAT(Fault(ListOf("", "../../x")), HasSubstr("must be a commit"));
  EXPECT_THAT(Fault("{}"), HasSubstr("is no list"));
  EXPECT_THAT(Fault("[1"), StartsWith("o/n"));
  EXPECT_THAT(Fault(std::string(100, '[') + std::string(100, ']')), StartsWith("o/n"));
  std::string many;
  for (int i = 0; i <= 100000; ++i) absl::StrAppend(&many, i == 0 ? "" : ",", "{}");
  EXPECT_THAT(Fault(ListOf(many)), HasSubstr("must be at most 100000"));
}

Listing With(const std::vector<std::string>& paths) {
  Listing listing;
  for (const std::string& path : paths) listing.files.push_back({.path = path, .size = 1});
  return listing;
}

// The files that are chosen, or why none are.
std::string Chosen(const std::vector<std::string>& paths, const std::string& tag = "",
                   const std::vector<std::string>& indexed = {},
                   const std::vector<std::string>& patterns = {}) {
  const absl::StatusOr<std::vector<RepoFile>> files =
      ChooseFiles(With(paths), {"o/n", tag, patterns}, indexed);
  if (!files.ok()) return std::string(files.status().message());
  return absl::StrJoin(*files, " ",
                       [](std::string* out, const RepoFile& file) { out->append(file.path); });
}

TEST(HubChoice, IsWhatARunReads) {
  EXPECT_EQ(Chosen({"README.md", "config.json", "tokenizer.json", "model.safetensors",
                    "consolidated.safetensors", "pytorch_model.bin", "onnx/model.safetensors"}),
            "config.json model.safetensors tokenizer.json");
  EXPECT_EQ(Chosen({"config.json", "only.safetensors", "chat_template.jinja"}),
            "chat_template.jinja config.json only.safetensors");
  const std::vector<std::string> parts = {"config.json", "model.safetensors.index.json",
                                          "a.safetensors", "b.safetensors", "c.safetensors"};
  EXPECT_EQ(IndexToRead(With(parts), {"o/n", "", {}})->path, "model.safetensors.index.json");
  EXPECT_EQ(Chosen(parts, "", {"a.safetensors", "c.safetensors"}),
            "a.safetensors c.safetensors config.json model.safetensors.index.json");
  EXPECT_THAT(Chosen(parts, "", {"d.safetensors"}), HasSubstr("d.safetensors is a part"));
  EXPECT_EQ(Chosen({"adapter_config.json", "adapter_model.safetensors", "README.md"}),
            "adapter_config.json adapter_model.safetensors");
  EXPECT_THAT(Chosen({"config.json", "a.safetensors", "b.safetensors"}),
              HasSubstr("has 2 .safetensors files and no index"));
  EXPECT_THAT(Chosen({"config.json", "pytorch_model.bin"}), HasSubstr("may hold code"));
  EXPECT_THAT(Chosen({"README.md"}), HasSubstr("neither config.json"));
}

TEST(HubChoice, IsTheGgufFileThatTheTagNames) {
  const std::vector<std::string> ggufs = {"n-Q4_K_M.gguf", "n-Q8_0-00001-of-00002.gguf",
                                          "n-Q8_0-00002-of-00002.gguf", "mmproj-F16.gguf",
                                          "README.md"};
  EXPECT_EQ(Chosen(ggufs, "q4_k_m"), "n-Q4_K_M.gguf");
  EXPECT_EQ(Chosen(ggufs, "n-Q4_K_M.gguf"), "n-Q4_K_M.gguf");
  EXPECT_EQ(Chosen(ggufs, "Q8_0"), "n-Q8_0-00001-of-00002.gguf n-Q8_0-00002-of-00002.gguf");
  EXPECT_THAT(Chosen(ggufs), AllOf(HasSubstr("has several GGUF files"), HasSubstr("o/n:Q4_K_M"),
                                   HasSubstr("o/n:Q8_0")));
  EXPECT_THAT(Chosen(ggufs, "Q5_K"), HasSubstr("there is no such file, but: o/n:Q4_K_M"));
  EXPECT_EQ(Chosen({"n-Q4_K_M.gguf", "config.json"}), "n-Q4_K_M.gguf");
  EXPECT_THAT(Chosen({"n-Q8_0-00001-of-00002.gguf"}, "Q8_0"),
              HasSubstr("n-Q8_0-00002-of-00002.gguf is a part of the model and is not there"));
  EXPECT_THAT(Chosen({"config.json", "model.safetensors"}, "Q8_0"), HasSubstr("no GGUF file"));
  // The folder is meant before a GGUF file, as by a run.
  EXPECT_EQ(Chosen({"config.json", "model.safetensors", "n.gguf"}),
            "config.json model.safetensors");
}

TEST(HubChoice, IsWhatThePatternsSay) {
  EXPECT_EQ(Chosen({"a.json", "b/c.json", "d.md"}, "", {}, {"*.json"}), "a.json b/c.json");
  EXPECT_THAT(Chosen({"a.json"}, "", {}, {"*.json", "*.md"}), HasSubstr("--include *.md"));
}

TEST(HubUrls, AreOfOneOriginOrLeadSomewhere) {
  EXPECT_EQ(FileUrl("https://h", "o/n", "main", "a b/c#d.json"),
            "https://h/o/n/resolve/main/a%20b/c%23d.json");
  EXPECT_EQ(ListingUrl("https://h", "o/n", "refs/pr/1"),
            "https://h/api/models/o/n/revision/refs%2Fpr%2F1?blobs=true");
  EXPECT_EQ(OriginOf("https://H.example/x"), "https://h.example:443");
  EXPECT_EQ(OriginOf("http://h:80/x"), OriginOf("http://h/y"));
  EXPECT_NE(OriginOf("http://h:81/x"), OriginOf("http://h/y"));
  EXPECT_EQ(OriginOf("file:///etc/passwd"), "");
  EXPECT_EQ(Redirected("https://h/a/b", "/c").value(), "https://h/c");
  EXPECT_EQ(Redirected("https://h/a/b", "https://i/c").value(), "https://i/c");
  EXPECT_THAT(std::string(Redirected("https://h/a", "http://h/a").status().message()),
              HasSubstr("is not encrypted"));
  EXPECT_THAT(std::string(Redirected("http://h/a", "file:///etc/x").status().message()),
              HasSubstr("is no address"));
}

TEST(HubRefusal, SaysWhatToDoAndWhetherToAskAgain) {
  const auto said = [](int status, const char* code, bool token) {
    HttpAnswer answer;
    answer.status = status;
    answer.error_code = code;
    return std::string(RefusalOf(answer, {"o/n", "h", token}).message());
  };
  EXPECT_THAT(said(401, "", false), HasSubstr("then set HF_TOKEN"));
  EXPECT_THAT(said(401, "", true), HasSubstr("the token is not valid"));
  EXPECT_THAT(said(403, "GatedRepo", true), HasSubstr("ask for access"));
  EXPECT_THAT(said(404, "RevisionNotFound", false), HasSubstr("no such revision"));
  HttpAnswer answer;
  EXPECT_TRUE(IsPassing(answer));
  for (const int status : {429, 500, 502, 503, 504}) {
    answer.status = status;
    EXPECT_TRUE(IsPassing(answer)) << status;
  }
  for (const int status : {200, 400, 401, 403, 404, 410}) {
    answer.status = status;
    EXPECT_FALSE(IsPassing(answer)) << status;
  }
}

}  // namespace
}  // namespace ng::fetch
