#include "apps/python/tokenizer.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "apps/python/errors.h"
#include "apps/python/turns.h"

namespace ng::python {
namespace {

// What `work` makes of each item, without the GIL.
template <class Item, class Work>
auto OfEach(const std::vector<Item>& items, Work&& work) {
  std::vector<typename decltype(work(items.front()))::value_type> made;
  made.reserve(items.size());
  StayIfPythonEnds();
  for (const Item& item : items) {
    auto one = [&] {
      const WithoutGil free;
      return work(item);
    }();
    StayIfPythonEnds();
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    made.push_back(Value(std::move(one)));
  }
  return made;
}

}  // namespace

OpenedTokenizer::OpenedTokenizer(const std::string& path, ChatOptions chat,
                                 const py::function& warning)
    : path_(path), chat_(std::move(chat)) {
  std::vector<std::string> lines;
  StayIfPythonEnds();
  absl::StatusOr<std::unique_ptr<Tokenizer>> opened = [&] {
    const WithoutGil free;
    return OpenTokenizer(path_, [&](std::string_view line) { lines.emplace_back(line); });
  }();
  StayIfPythonEnds();
  tokenizer_ = Value(std::move(opened));
  for (const std::string& line : lines) warning(line);
}

std::vector<std::vector<int32_t>> OpenedTokenizer::Encode(const std::vector<std::string>& texts,
                                                          bool add_special,
                                                          bool parse_special) const {
  EncodeOptions options;
  options.parse_special = parse_special;
  options.add_special = add_special && tokenizer_->knows_ends();
  return OfEach(
      texts, [&](const std::string& text) { return tokenizer_->EncodeAsReference(text, options); });
}

std::vector<std::string> OpenedTokenizer::Decode(const std::vector<Ids>& each,
                                                 bool skip_special) const {
  const std::vector<int32_t> special = skip_special ? SpecialIds() : std::vector<int32_t>();
  std::vector<std::vector<int32_t>> shown;
  for (const Ids& ids : each) {
    shown.push_back(VectorOf(ids));
    std::erase_if(shown.back(),
                  [&](int32_t id) { return std::ranges::binary_search(special, id); });
  }
  return OfEach(shown, [&](const std::vector<int32_t>& ids) { return tokenizer_->Decode(ids); });
}

const ChatTemplate& OpenedTokenizer::Template(const std::string& name) {
  std::unique_ptr<ChatTemplate>& known = templates_[name];
  if (known != nullptr) return *known;
  ChatOptions options = chat_;
  if (!name.empty()) options.chat_template = name;
  known = Value(OpenChatTemplate(path_, *tokenizer_, options));
  return *known;
}

std::string OpenedTokenizer::Render(const Conversation& conversation, const std::string& name) {
  return Value(Template(name).Render(conversation));
}

std::vector<int32_t> OpenedTokenizer::EncodeChat(const Conversation& conversation,
                                                 const std::string& name) {
  const ChatTemplate& chat = Template(name);
  return OfEach(std::vector{&conversation},
                [&](const Conversation* of) { return chat.Encode(*of); })
      .front();
}

std::vector<std::string> OpenedTokenizer::Spellings() const {
  std::vector<std::string> spellings;
  spellings.reserve(static_cast<size_t>(vocab_size()));
  for (int64_t id = 0; id < vocab_size(); ++id) {
    spellings.push_back(tokenizer_->Spelling(static_cast<int32_t>(id)));
  }
  return spellings;
}

std::vector<int32_t> OpenedTokenizer::SpecialIds() const {
  std::vector<int32_t> ids = tokenizer_->SpecialIds();
  std::ranges::sort(ids);
  return ids;
}

std::map<std::string, std::string> OpenedTokenizer::Names() const {
  return Value(NamedTokens(path_));
}

void AddTokenizer(py::module_& m) {
  py::class_<Conversation>(m, "Conversation")
      .def(py::init([](std::string messages, std::string tools, std::string variables, bool asks,
                       bool goes_on) {
        return Conversation{std::move(messages), std::move(tools), asks, std::move(variables),
                            goes_on};
      }));
  using Variables = std::vector<std::pair<std::string, std::string>>;
  py::class_<OpenedTokenizer>(m, "Tokenizer")
      .def(py::init([](const std::string& path, const std::string& chat_template,
                       const Variables& variables, const std::string& system,
                       const std::string& date, const py::function& warning) {
        return std::make_unique<OpenedTokenizer>(
            path, ChatOptions{chat_template, variables, system, date}, warning);
      }))
      .def("encode", &OpenedTokenizer::Encode)
      .def("decode", &OpenedTokenizer::Decode)
      .def("render", &OpenedTokenizer::Render)
      .def("encode_chat", &OpenedTokenizer::EncodeChat)
      .def("vocab_size", &OpenedTokenizer::vocab_size)
      .def("n_added", &OpenedTokenizer::n_added)
      .def("spellings", &OpenedTokenizer::Spellings)
      .def("special_ids", &OpenedTokenizer::SpecialIds)
      .def("names", &OpenedTokenizer::Names);
}

}  // namespace ng::python
