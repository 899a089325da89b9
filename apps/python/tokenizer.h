// A tokenizer and its chat templates, without a model: what ng/_tokenizer.py is made of.
//
// Thread: every function is called with the GIL held, and gives it back while it works on texts.
// Between two texts Ctrl-C ends it.
#ifndef NG_APPS_PYTHON_TOKENIZER_H_
#define NG_APPS_PYTHON_TOKENIZER_H_

#include <pybind11/pybind11.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/python/arrays.h"
#include "ng/chat_template.h"
#include "ng/tokenizer.h"

namespace ng::python {

class OpenedTokenizer {
 public:
  // `path`: as OpenTokenizer takes it. `warning`: called with a line.
  OpenedTokenizer(const std::string& path, ChatOptions chat, const py::function& warning);

  // As the tokenizer's reference has it. `add_special` does nothing where the files say of no
  // tokens that begin and end a text.
  std::vector<std::vector<int32_t>> Encode(const std::vector<std::string>& texts, bool add_special,
                                           bool parse_special) const;
  std::vector<std::string> Decode(const std::vector<Ids>& each, bool skip_special) const;
  // The text of a conversation, or its ids. `name`: as tokenizer.chat_template; empty: that of the
  // options.
  std::string Render(const Conversation& conversation, const std::string& name);
  std::vector<int32_t> EncodeChat(const Conversation& conversation, const std::string& name);

  int64_t vocab_size() const { return tokenizer_->vocab_size(); }
  int64_t n_added() const { return tokenizer_->n_added(); }
  std::vector<std::string> Spellings() const;  // by id
  std::vector<int32_t> SpecialIds() const;     // rising
  std::map<std::string, std::string> Names() const;

 private:
  const ChatTemplate& Template(const std::string& name);

  const std::string path_;
  const ChatOptions chat_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::map<std::string, std::unique_ptr<ChatTemplate>> templates_;
};

void AddTokenizer(py::module_& m);

}  // namespace ng::python

#endif  // NG_APPS_PYTHON_TOKENIZER_H_
