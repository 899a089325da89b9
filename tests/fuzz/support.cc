#include "tests/fuzz/support.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

namespace ng::fuzz {

MemoryFile::MemoryFile() : fd_(memfd_create("input", MFD_CLOEXEC)) {
  Check(fd_ >= 0, "memfd_create failed");
  path_ = "/proc/self/fd/" + std::to_string(fd_);
}

MemoryFile::~MemoryFile() { close(fd_); }

void MemoryFile::Write(std::string_view bytes) {
  Check(ftruncate(fd_, 0) == 0, "ftruncate failed");
  while (!bytes.empty()) {
    const ssize_t n = write(fd_, bytes.data(), bytes.size());
    Check(n > 0, "write failed");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  Check(lseek(fd_, 0, SEEK_SET) == 0, "lseek failed");
}

void Check(bool truth, std::string_view message) {
  if (truth) return;
  std::fprintf(stderr, "broken promise: %.*s\n", static_cast<int>(message.size()), message.data());
  std::abort();
}

void CheckError(const absl::Status& status, std::string_view path) {
  if (status.ok()) return;
  const std::string message(status.message());
  Check(message.find('\n') == std::string::npos, "an error of several lines: " + message);
  Check(message.find(path) != std::string::npos,
        "an error that does not name the file: " + message);
}

namespace {

void CheckText(const Tokenizer& tokenizer, std::string_view text, bool special) {
  const EncodeOptions options = {.parse_special = special,
                                 .add_special = special && tokenizer.knows_ends()};
  for (const auto encode : {&Tokenizer::Encode, &Tokenizer::EncodeAsReference}) {
    // A vocabulary may lack a byte of the text, and says so.
    const absl::StatusOr<std::vector<int32_t>> ids = (tokenizer.*encode)(text, options);
    if (!ids.ok()) continue;
    for (const int32_t id : *ids) {
      Check(id >= 0 && id < tokenizer.vocab_size(), "an id outside the vocabulary");
      static_cast<void>(tokenizer.TokenBytes(id));
    }
    // Decoders may make too much of tokens, and say so.
    const absl::Status decoded = tokenizer.Decode(*ids).status();
    Check(decoded.ok() || ExitCode(decoded) == 2, "ids of its own that it does not decode");
  }
}

}  // namespace

void CheckText(const Tokenizer& tokenizer, std::string_view text) {
  for (const bool special : {false, true}) CheckText(tokenizer, text, special);
}

void CheckTokenizer(const Tokenizer& tokenizer) {
  // Runs of blanks, digits, a composed and a split character, an emoji, a broken byte; and so
  // little that a small vocabulary has all of it.
  for (const char* text :
       {"Hello  w\xC3\xB6rld, it's 2024!\r\n\t e\xCC\x81 \xF0\x9F\x98\x80 <s> <|x|> \xFF",
        "Hello <s><|x|>ll"}) {
    CheckText(tokenizer, text);
  }
  Check(!tokenizer.Decode(std::vector{-1}).ok(), "decodes an id outside the vocabulary");
}

}  // namespace ng::fuzz
