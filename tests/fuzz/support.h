// What the fuzz targets share. A broken promise ends the process, which libFuzzer reports with the
// input.
#ifndef NG_TESTS_FUZZ_SUPPORT_H_
#define NG_TESTS_FUZZ_SUPPORT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "ng/status.h"
#include "ng/tokenizer.h"

namespace ng::fuzz {

inline std::string_view Bytes(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// A file that lies in memory, for what is read by its path.
class MemoryFile {
 public:
  MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile();

  void Write(std::string_view bytes);  // in place of what was there
  const std::string& path() const { return path_; }

 private:
  int fd_ = -1;
  std::string path_;
};

// Ends the process with `message` unless `truth`.
void Check(bool truth, std::string_view message);

// An error, if there is one, is one line that names the file.
void CheckError(const absl::Status& status, std::string_view path);

// Encodes a text and decodes what came out: ids of the vocabulary, and back.
void CheckText(const Tokenizer& tokenizer, std::string_view text);
// The same with short texts.
void CheckTokenizer(const Tokenizer& tokenizer);

}  // namespace ng::fuzz

#endif  // NG_TESTS_FUZZ_SUPPORT_H_
