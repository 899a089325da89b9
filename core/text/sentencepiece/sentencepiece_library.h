// The SentencePiece library behind a plain interface.
//
// Its header and Abseil's do not compile in one translation unit (both define absl::string_view),
// so this header names neither, and only its .cc includes the library's header. The library prints
// nothing here, and no exception leaves these functions.
//
// Thread: const methods may be called from any thread.
#ifndef NG_CORE_TEXT_SENTENCEPIECE_SENTENCEPIECE_LIBRARY_H_
#define NG_CORE_TEXT_SENTENCEPIECE_SENTENCEPIECE_LIBRARY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sentencepiece {
class SentencePieceProcessor;
}

namespace ng {

// Functions that can fail return the reason of the failure, or an empty text.
class SentencePieceLibrary {
 public:
  SentencePieceLibrary();
  SentencePieceLibrary(SentencePieceLibrary&&) noexcept;
  SentencePieceLibrary& operator=(SentencePieceLibrary&&) noexcept;
  ~SentencePieceLibrary();

  // REQUIRES: called once, before all other functions.
  [[nodiscard]] std::string Load(std::string_view model);

  int32_t vocab_size() const;
  // REQUIRES: 0 <= id < vocab_size().
  bool IsControl(int32_t id) const;
  std::string_view Piece(int32_t id) const;

  [[nodiscard]] std::string Encode(std::string_view text, std::vector<int32_t>* ids) const;
  // REQUIRES: all ids are in the vocabulary.
  [[nodiscard]] std::string Decode(std::span<const int32_t> ids, std::string* text) const;

 private:
  std::unique_ptr<sentencepiece::SentencePieceProcessor> processor_;
};

}  // namespace ng

#endif  // NG_CORE_TEXT_SENTENCEPIECE_SENTENCEPIECE_LIBRARY_H_
