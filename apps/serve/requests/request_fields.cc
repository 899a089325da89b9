#include "apps/serve/requests/request_fields.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "apps/serve/requests/field_readers.h"
#include "apps/serve/requests/responses_request.h"

namespace ng::serve {
namespace {

constexpr unsigned kTexts = kCompletions | kChat;  // those with a list of choices
constexpr unsigned kAnswers = kTexts | kResponses;
constexpr int kMostChoices = 128;
constexpr double kMostInt = std::numeric_limits<int32_t>::max();

bool IsOne(double value) { return value == 1.0; }
bool IsZero(double value) { return value == 0.0; }
bool IsNotAboveZero(double value) { return value <= 0.0; }

// What a stage's number is of, by name.
constexpr StageNumber kTopP = {"top_p", "p", {0, 1, /*min_open=*/true}, IsOne};
constexpr StageNumber kTopK = {"top_k", "k", {-1, kMostInt}, IsNotAboveZero, /*whole=*/true};
constexpr StageNumber kMinP = {"min_p", "p", {0, 1}, IsZero};
constexpr StageNumber kTypicalP = {"typical_p", "p", {0, 1, /*min_open=*/true}, IsOne};
constexpr StageNumber kTopNSigma = {"top_n_sigma", "n", {-1, 100}, IsNotAboveZero};
// Over all tokens in OpenAI's API, in vLLM and in transformers; llama.cpp has a window.
constexpr StageNumber OfAll(const char* stage, Fields::RealRange range, bool (*off)(double)) {
  return {.stage = stage, .option = "value", .range = range, .off = off, .added = "window=0"};
}
constexpr StageNumber kFrequency = OfAll("frequency_penalty", {-100, 100}, IsZero);
constexpr StageNumber kPresence = OfAll("presence_penalty", {-100, 100}, IsZero);
constexpr StageNumber kRepetition = OfAll("repetition_penalty", {0, 100, true}, IsOne);
constexpr StageNumber kRepeat = {"repetition_penalty", "value", {0, 100, true}, IsOne};
constexpr StageNumber kXtcProbability = {"xtc", "probability", {0, 1}, IsZero};
constexpr StageNumber kDryMultiplier = {"dry", "multiplier", {0, 100}, IsZero};
// Of a stage that is there anyway.
constexpr StageNumber Beside(const char* stage, const char* option, Fields::RealRange range,
                             bool whole = false) {
  return {.stage = stage, .option = option, .range = range, .whole = whole, .alone = false};
}

bool IsFalse(const Json& value, const Json&) { return value == false; }
bool IsTrue(const Json& value, const Json&) { return value == true; }
bool IsNone(const Json& value, const Json&) { return value.is_number() && value == 0; }
bool IsOneExactly(const Json& value, const Json&) { return value.is_number() && value == 1; }
bool IsEmpty(const Json& value, const Json&) {
  return value.is_array() ? value.empty() : value.is_string() && value == "";
}
bool IsAnyBool(const Json& value, const Json&) { return value.is_boolean(); }
bool IsAnyNumber(const Json& value, const Json&) { return value.is_number(); }
bool IsAnyInt(const Json& value, const Json&) { return value.is_number_integer(); }
bool IsAnyText(const Json& value, const Json&) { return value.is_string(); }
bool IsAnyObject(const Json& value, const Json&) { return value.is_object(); }

constexpr const char* kMustBeFalse = "must be false";
constexpr const char* kMustBeTrue = "must be true";
constexpr const char* kMustBeZero = "must be 0";
constexpr const char* kMustBeEmpty = "must be empty";
constexpr const char* kMustBeText = "must be a text";
constexpr const char* kMustBeInt = "must be an integer";

constexpr FieldRow kRows[] = {
    // What is asked.
    {"model", kAnswers, [](Fields& f, Request& r) { ReadModel(f, &r.answer); }},
    {"model", kTokenize,
     [](Fields& f, Request& r) { r.answer.model = f.Text("model").value_or(""); }},
    {"prompt", kCompletions, [](Fields& f, Request& r) { ReadPrompts(f, &r); }},
    {"messages", kChat, [](Fields& f, Request& r) { ReadMessages(f, &r.conversation); }},
    {"prompt", kTokenize, [](Fields& f, Request& r) { ReadTokenizePrompt(f, &r); }},
    {"messages", kTokenize, [](Fields& f, Request&) { f.Value("messages"); }},  // with prompt
    {"parse_special", kTokenize,
     [](Fields& f, Request& r) { r.parse_special = f.Bool("parse_special").value_or(false); }},
    {"input", kResponses, ReadInput},
    {"instructions", kResponses, [](Fields& f, Request&) { f.Value("instructions"); }},  // likewise
    {"tools", kChat | kTokenize, [](Fields& f, Request& r) { ReadTools(f, &r.conversation); }},
    {"tool_choice", kChat | kTokenize, [](Fields& f, Request&) { f.Value("tool_choice"); }},
    {"parallel_tool_calls", kChat,
     [](Fields& f, Request& r) {
       r.conversation.parallel_calls = f.Bool("parallel_tool_calls").value_or(true);
     }},
    {"chat_template_kwargs", kChat | kTokenize,
     [](Fields& f, Request& r) {
       const Json* const variables = f.Object("chat_template_kwargs");
       if (variables != nullptr) r.conversation.variables = variables->dump();
     }},
    // How long and in how many answers.
    {"max_tokens", kTexts,
     [](Fields& f, Request& r) { ReadMaxTokens(f, "max_tokens", 0, &r.answer); }},
    {"max_completion_tokens", kChat,
     [](Fields& f, Request& r) { ReadMaxTokens(f, "max_completion_tokens", 0, &r.answer); }},
    {"max_output_tokens", kResponses,
     [](Fields& f, Request& r) { ReadMaxTokens(f, "max_output_tokens", 1, &r.answer); }},
    {"n_predict", kTexts,
     [](Fields& f, Request& r) { ReadMaxTokens(f, "n_predict", -1, &r.answer); }},
    {"num_predict", kTexts,
     [](Fields& f, Request& r) { ReadMaxTokens(f, "num_predict", -2, &r.answer); }},
    {"num_ctx", kTexts,
     [](Fields& f, Request& r) {
       r.answer.num_ctx = f.Int("num_ctx", {1, std::numeric_limits<int64_t>::max()});
     }},
    {"n", kTexts,
     [](Fields& f, Request& r) {
       r.answer.n = static_cast<int>(f.Int("n", {1, kMostChoices}).value_or(1));
     }},
    {"best_of", kCompletions,
     [](Fields& f, Request& r) {
       const std::optional<int64_t> best_of = f.Int("best_of", {1, kMostChoices});
       if (best_of && *best_of != r.answer.n) {
         f.Refuse("best_of",
                  absl::StrCat("must be n = ", r.answer.n, ": none is chosen among more"));
       }
     }},
    {"stop", kTexts, [](Fields& f, Request& r) { ReadStop(f, &r.answer.sampling); }},
    {"ignore_eos", kTexts,
     [](Fields& f, Request& r) {
       r.answer.sampling.ignore_eos = f.Bool("ignore_eos").value_or(false);
     }},
    // How it is sampled.
    {"seed", kTexts,
     [](Fields& f, Request& r) {
       r.answer.sampling.seed = f.Int("seed", {0, std::numeric_limits<int64_t>::max()});
     }},
    {"temperature", kAnswers,
     [](Fields& f, Request& r) {
       r.answer.sampling.temperature = f.Real("temperature", {0, kMostTemperature});
     }},
#define NG_NUMBER(name, apis, number)                                                       \
  {                                                                                         \
    name, apis,                                                                             \
        [](Fields& f, Request& r) { ReadStageNumber(f, name, number, &r.answer.sampling); } \
  }
    NG_NUMBER("top_p", kAnswers, kTopP),
    NG_NUMBER("top_k", kTexts, kTopK),
    NG_NUMBER("min_p", kTexts, kMinP),
    NG_NUMBER("typical_p", kTexts, kTypicalP),
    NG_NUMBER("typ_p", kTexts, kTypicalP),
    NG_NUMBER("top_n_sigma", kTexts, kTopNSigma),
    NG_NUMBER("frequency_penalty", kTexts, kFrequency),
    NG_NUMBER("presence_penalty", kTexts, kPresence),
    NG_NUMBER("repetition_penalty", kTexts, kRepetition),
    NG_NUMBER("repeat_penalty", kTexts, kRepeat),
    {"repeat_last_n", kTexts,
     [](Fields& f, Request& r) {
       ReadWindow(f, "repeat_last_n", "repetition_penalty", &r.answer.sampling);
     }},
    NG_NUMBER("xtc_probability", kTexts, kXtcProbability),
    NG_NUMBER("xtc_threshold", kTexts, Beside("xtc", "threshold", {0, 1, true})),
    NG_NUMBER("dry_multiplier", kTexts, kDryMultiplier),
    NG_NUMBER("dry_base", kTexts, Beside("dry", "base", {1, 10})),
    NG_NUMBER("dry_allowed_length", kTexts, Beside("dry", "allowed", {1, kMostInt}, true)),
    {"dry_penalty_last_n", kTexts,
     [](Fields& f, Request& r) { ReadWindow(f, "dry_penalty_last_n", "dry", &r.answer.sampling); }},
    {"dry_sequence_breakers", kTexts,
     [](Fields& f, Request& r) { ReadBreakers(f, "dry_sequence_breakers", &r.answer.sampling); }},
    {"mirostat", kTexts, [](Fields& f, Request& r) { ReadMirostat(f, &r.answer.sampling); }},
    NG_NUMBER("mirostat_tau", kTexts, Beside("mirostat", "tau", {0, 100, true})),
    NG_NUMBER("mirostat_eta", kTexts, Beside("mirostat", "eta", {0, 10})),
#undef NG_NUMBER
    {"logit_bias", kTexts, [](Fields& f, Request& r) { ReadLogitBias(f, &r.answer.sampling); }},
    // What it must match.
    {"response_format", kTexts,
     [](Fields& f, Request& r) { ReadResponseFormat(f, &r.answer.sampling); }},
    {"text", kResponses, ReadForm},
    {"json_schema", kTexts,
     [](Fields& f, Request& r) { ReadSchemaField(f, "json_schema", &r.answer.sampling); }},
    {"guided_json", kTexts,
     [](Fields& f, Request& r) { ReadSchemaField(f, "guided_json", &r.answer.sampling); }},
    {"guided_regex", kTexts,
     [](Fields& f, Request& r) { ReadFormText(f, "guided_regex", "regex", &r.answer.sampling); }},
    {"guided_grammar", kTexts,
     [](Fields& f, Request& r) { ReadFormText(f, "guided_grammar", "gbnf", &r.answer.sampling); }},
    {"grammar", kTexts,
     [](Fields& f, Request& r) { ReadFormText(f, "grammar", "gbnf", &r.answer.sampling); }},
    // How it is told.
    {"stream", kTexts, [](Fields& f, Request& r) { ReadStream(f, &r.answer); }},
    {"stream_options", kTexts, [](Fields& f, Request&) { f.Value("stream_options"); }},
    {"stream", kResponses,
     [](Fields& f, Request& r) { r.answer.stream = f.Bool("stream").value_or(false); }},
    {"logprobs", kChat, [](Fields& f, Request& r) { ReadChatLogprobs(f, &r.answer); }},
    {"top_logprobs", kChat, [](Fields& f, Request&) { f.Value("top_logprobs"); }},
    {"logprobs", kCompletions, [](Fields& f, Request& r) { ReadCompletionLogprobs(f, &r.answer); }},
    {"echo", kCompletions, [](Fields& f, Request& r) { r.echo = f.Bool("echo").value_or(false); }},
    {"return_token_ids", kTexts,
     [](Fields& f, Request& r) {
       r.answer.return_token_ids = f.Bool("return_token_ids").value_or(false);
     }},

    // What changes nothing: labels, hints of how to compute, and values that say what is so anyway.
    {"user", kAnswers, nullptr, IsAnyText, kMustBeText},
    {"metadata", kAnswers, nullptr, IsAnyObject, "must be an object"},
    {"safety_identifier", kAnswers, nullptr, IsAnyText, kMustBeText},
    {"request_id", kTexts, nullptr, IsAnyText, kMustBeText},
    {"priority", kTexts, nullptr, IsAnyInt, kMustBeInt},
    {"store", kAnswers, nullptr, IsFalse, "must be false: no answer is kept"},
    {"service_tier", kAnswers, nullptr,
     [](const Json& v, const Json&) { return v == "auto" || v == "default"; },
     "must be auto or default"},
    {"prompt_cache_key", kAnswers, nullptr, IsAnyText, kMustBeText},
    {"prompt_cache_retention", kAnswers, nullptr, IsAnyText, kMustBeText},
    {"prompt_cache_options", kAnswers, nullptr, IsAnyObject, "must be an object"},
    {"prediction", kChat, nullptr, IsAnyObject, "must be an object"},
    {"modalities", kChat, nullptr,
     [](const Json& v, const Json&) { return v == Json::array({"text"}); }, "must be [\"text\"]"},
    {"verbosity", kChat, nullptr, [](const Json& v, const Json&) { return v == "medium"; },
     "must be medium"},
    {"parallel_tool_calls", kResponses, nullptr, IsAnyBool, "must be true or false"},
    {"functions", kChat, nullptr, IsEmpty, "must be empty: send tools"},
    {"function_call", kChat, nullptr,
     [](const Json& v, const Json&) { return v == "auto" || v == "none"; }, "must be auto or none"},
    {"suffix", kCompletions, nullptr, IsEmpty, kMustBeEmpty},
    {"tools", kResponses, nullptr, IsEmpty, kMustBeEmpty},
    {"tool_choice", kResponses, nullptr,
     [](const Json& v, const Json&) { return v == "auto" || v == "none"; }, "must be auto or none"},
    {"max_tool_calls", kResponses, nullptr, IsAnyInt, kMustBeInt},
    {"include", kResponses, nullptr, IsEmpty, kMustBeEmpty},
    {"background", kResponses, nullptr, IsFalse, kMustBeFalse},
    {"truncation", kResponses, nullptr, [](const Json& v, const Json&) { return v == "disabled"; },
     "must be disabled: nothing is left out"},
    {"top_logprobs", kResponses, nullptr, IsNone, kMustBeZero},
    {"cache_prompt", kTexts, nullptr, IsAnyBool, "must be true or false"},
    {"id_slot", kTexts, nullptr, IsAnyInt, kMustBeInt},
    {"n_keep", kTexts, nullptr, IsAnyInt, kMustBeInt},
    {"n_discard", kTexts, nullptr, IsAnyInt, kMustBeInt},
    {"n_indent", kTexts, nullptr, IsNone, kMustBeZero},
    {"n_probs", kTexts, nullptr, IsNone, "must be 0: send logprobs"},
    {"min_keep", kTexts, nullptr, IsNone, kMustBeZero},
    {"post_sampling_probs", kTexts, nullptr, IsFalse, kMustBeFalse},
    {"return_tokens", kTexts, nullptr, IsFalse, "must be false: send return_token_ids"},
    {"return_progress", kTexts, nullptr, IsFalse, kMustBeFalse},
    {"timings_per_token", kTexts, nullptr, IsFalse, kMustBeFalse},
    {"dynatemp_range", kTexts, nullptr, IsNone, kMustBeZero},
    {"dynatemp_exponent", kTexts, nullptr, IsAnyNumber, "must be a number"},
    {"lora", kTexts, nullptr, IsEmpty, kMustBeEmpty},
    {"keep_alive", kTexts, nullptr, [](const Json&, const Json&) { return true; }, ""},
    {"min_tokens", kTexts, nullptr, IsNone, kMustBeZero},
    {"stop_token_ids", kTexts, nullptr, IsEmpty, kMustBeEmpty},
    {"bad_words", kTexts, nullptr, IsEmpty, kMustBeEmpty},
    {"include_stop_str_in_output", kTexts, nullptr, IsFalse, kMustBeFalse},
    {"skip_special_tokens", kTexts, nullptr, IsFalse, "must be false: their text is shown"},
    {"detokenize", kTexts, nullptr, IsTrue, kMustBeTrue},
    {"length_penalty", kTexts, nullptr, IsOneExactly, "must be 1"},
    {"use_beam_search", kTexts, nullptr, IsFalse, kMustBeFalse},
    {"early_stopping", kTexts, nullptr, IsFalse, kMustBeFalse},
    {"guided_decoding_backend", kTexts, nullptr, IsAnyText, kMustBeText},
    {"add_generation_prompt", kChat, nullptr, IsTrue, kMustBeTrue},
    {"continue_final_message", kChat, nullptr, IsFalse, kMustBeFalse},
    {"add_special_tokens", kChat, nullptr, IsFalse, "must be false: the template writes them"},
    {"echo", kChat, nullptr, IsFalse, kMustBeFalse},

    // What is refused with another way to the same.
    {"reasoning_effort", kChat, nullptr, nullptr,
     "send chat_template_kwargs where the model's template reads it"},
    {"samplers", kTexts, nullptr, nullptr, "the order of the stages is that of sampler.chain"},
    {"guided_choice", kTexts, nullptr, nullptr, "send guided_json with an enum"},
    {"previous_response_id", kResponses, nullptr, nullptr,
     "no answer is kept: send its messages again"},
};

}  // namespace

std::span<const FieldRow> FieldRows() { return kRows; }

void ReadFields(Api api, Fields& fields, Request* request) {
  for (const FieldRow& row : kRows) {
    if ((row.apis & api) == 0) continue;
    if (row.read != nullptr) {
      row.read(fields, *request);
      continue;
    }
    const Json* const value = fields.Value(row.name);
    if (value == nullptr) continue;
    if (row.inert == nullptr) {
      fields.RefuseField(row.name, row.words);
    } else if (row.inert(*value, fields.object())) {
      request->inert.emplace_back(row.name);
    } else {
      fields.Refuse(row.name, row.words);
    }
  }
}

}  // namespace ng::serve
