// Tokenizer: text -> ids -> text. One interface over every tokenizer format.
//
// An engine has its own (Engine::Encode, Engine::Decode). This is for programs that need no model.
//
// Thread: const methods may be called from any thread.
#ifndef NG_TOKENIZER_H_
#define NG_TOKENIZER_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

struct EncodeOptions {
  // Literals of special tokens in the text become the special ids. When it is off, what a user
  // types never gives a special id.
  bool parse_special = false;
  // Add the begin/end tokens that the tokenizer's own files ask for.
  bool add_special = false;
  // The text follows a special token, so the whole text does not begin here.
  bool continues = false;
  // The caller has no use for more ids than this. A result with more ids may cover only a part of
  // the text.
  int64_t most = std::numeric_limits<int64_t>::max();
  // With parse_special: in which parts of the text. [text.size()]: the literal of a special token
  // becomes its id only where none of its bytes has a 0 here. Empty: in all of the text.
  std::string_view special_at = {};
  // With special_at: tokens that count as special there, whatever their own files say. Ascending.
  std::span<const int32_t> marks = {};
};

// A token that is found in a text as it is written, before the text is split.
struct WholeToken {
  int32_t id = -1;
  std::string text;
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual int64_t vocab_size() const = 0;
  // How many tokens at the end are not the vocabulary's own: they are added to it, and a model may
  // lack their rows.
  virtual int64_t n_added() const { return 0; }
  // The most bytes of a text that one token stands for.
  virtual int64_t longest_token() const = 0;
  // Whether the tokenizer's own files say what begins and ends a text. If not, add_special is
  // refused.
  virtual bool knows_ends() const = 0;
  // Whether files beside it say what transformers does with the space before a stretch of text.
  virtual bool spaces_as_transformers() const { return false; }
  // Errors: UsageError when the text cannot be encoded.
  virtual absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text,
                                                      const EncodeOptions& options) const = 0;
  // As the reference implementation of the format encodes plain text: what `ng-tokenize` shows.
  virtual absl::StatusOr<std::vector<int32_t>> EncodeAsReference(
      std::string_view text, const EncodeOptions& options) const = 0;
  // The reference's own decoding of a whole id list: valid UTF-8, special tokens as literals.
  // Errors: UsageError for an id outside the vocabulary.
  virtual absl::StatusOr<std::string> Decode(std::span<const int32_t> ids) const = 0;
  // The bytes that one token adds to a text, for streaming; valid as long as the tokenizer. The
  // bytes of all tokens of a completion, joined, are Decode(prompt + completion) without its
  // beginning Decode(prompt), with two exceptions:
  // - Invalid UTF-8 is kept here. Decode replaces it, as the format's reference does. (For the
  //   reference, two byte tokens with a control token between them make no character.)
  // - Decode drops the space before the first word of a whole text; here it stays. This matters
  //   only where the prompt decodes to nothing (a lone <s>).
  // Control tokens add nothing. REQUIRES: 0 <= id < vocab_size().
  virtual std::string_view TokenBytes(int32_t id) const = 0;
  // The id of a special token by its literal, if the vocabulary has it.
  virtual std::optional<int32_t> SpecialId(std::string_view literal) const = 0;
  // All special tokens and, where there is one, the token for what is unknown; in any order.
  virtual std::vector<int32_t> SpecialIds() const = 0;
  // All that are found whole, the special ones and others; in any order.
  virtual std::vector<WholeToken> WholeTokens() const { return {}; }
  // A token as the tokenizer's files spell it: "Ġthe", "▁the", "<0x0A>", "<s>". Empty: no
  // token has this id. REQUIRES: 0 <= id < vocab_size().
  virtual std::string Spelling(int32_t id) const { return std::string(TokenBytes(id)); }
};

// Opens a SentencePiece .model, a tokenizer.json or nanoGPT's meta.pkl by its extension (any other
// extension means a .model), or the vocabulary of a GGUF file, or finds one of these in a model
// folder. It follows what the files beside the tokenizer say. `warning`, which may be empty, is
// told of keys that nobody knows, a line at a time. Errors: ModelFileError naming the file and what
// is wrong with it.
absl::StatusOr<std::unique_ptr<Tokenizer>> OpenTokenizer(
    const std::string& path, const std::function<void(std::string_view)>& warning = {});

// The tokens that have a name in the files that OpenTokenizer opens: {"bos_token": "<s>"}. Errors:
// ModelFileError.
absl::StatusOr<std::map<std::string, std::string>> NamedTokens(const std::string& path);

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_TOKENIZER_H_
