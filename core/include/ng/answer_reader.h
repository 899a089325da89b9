// AnswerReader: the tokens of an answer to what the model said, thought and called.
//
// A chat template says how its model writes calls of tools and thoughts (ng/chat_template.h makes
// readers). A reader takes the answer token by token. It gives pieces that add up to the same
// whole, wherever the tokens cut the text. It loses nothing: what looked like the beginning of a
// call and is none comes as content. Spaces around the marks of calls and thoughts belong to the
// marks.
//
// Thread: one thread at a time.
#ifndef NG_ANSWER_READER_H_
#define NG_ANSWER_READER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace ng {

// A piece of an answer, cut between characters.
struct AnswerDelta {
  enum class Kind {
    kContent,
    kReasoning,
    kCall,       // a call begins: `text` is its name
    kArguments,  // more of the JSON text of its arguments, an object
  };
  Kind kind = Kind::kContent;
  std::string text = {};
  int call = 0;         // of kCall and kArguments: which one, from 0
  std::string id = {};  // of kCall: as the model wrote it before the arguments; empty: it did not
};

class AnswerReader {
 public:
  virtual ~AnswerReader() = default;

  // The next token and its text; of a special token its literal. Not the one that ends the answer.
  // An id below 0: a part of a token's text.
  virtual void Push(int32_t id, std::string_view bytes) = 0;
  // The answer has ended.
  virtual void Finish() = 0;
  // Whether nothing but content can come: the text of the tokens as it is.
  virtual bool is_plain() const = 0;
  // What has become known since the last time.
  virtual std::vector<AnswerDelta> Take() = 0;
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_ANSWER_READER_H_
