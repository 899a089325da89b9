#include "apps/serve/requests/request_fields.h"

#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/serve/requests/chat_messages.h"
#include "apps/serve/requests/field_readers.h"
#include "apps/serve/requests/messages_request.h"
#include "apps/serve/requests/ollama_request.h"
#include "apps/serve/requests/responses_request.h"

namespace ng::serve {
namespace {

constexpr unsigned kTexts = kCompletions | kChat;  // those with a list of choices
constexpr unsigned kAnswers = kTexts | kResponses | kMessages;
constexpr unsigned kBlocks = kMessages | kCountTokens;
constexpr unsigned kOllama = kOllamaChat | kOllamaGenerate;
constexpr unsigned kSampled = kAnswers | kOllamaOptions;
constexpr unsigned kTalks = kChat | kResponses | kMessages;
// Those that are asked of a model by its template.
constexpr unsigned kTemplated = kTalks | kTokenize | kCountTokens;
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

// Whether the last message is continued, where the request says so itself.
void ReadContinue(Fields& fields, Request& request) {
  const std::optional<bool> goes_on = fields.Bool("continue_final_message");
  if (goes_on.value_or(false) && !request.conversation.goes_on) {
    fields.Refuse("continue_final_message", "needs a last message of the assistant's with a text");
  }
  if (goes_on) request.conversation.goes_on = *goes_on;
}
// An answer is asked for, or begun.
void ReadAsks(Fields& fields, Request& request) {
  const bool asks = fields.Bool("add_generation_prompt").value_or(true);
  if (!asks && !request.conversation.goes_on) {
    fields.Refuse("add_generation_prompt", "must be true unless the last message is continued");
  }
}

bool IsFalse(const Json& value, const Json&) { return value == false; }
bool IsTrue(const Json& value, const Json&) { return value == true; }
bool IsNone(const Json& value, const Json&) { return value.is_number() && value == 0; }
bool IsOneExactly(const Json& value, const Json&) { return value.is_number() && value == 1; }
bool IsEmpty(const Json& value, const Json&) {
  return value.is_array() ? value.empty()
                          : value.is_string() && value.get_ref<const std::string&>().empty();
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
    {"model", kAnswers | kCountTokens, [](Fields& f, Request& r) { ReadModel(f, &r.answer); }},
    {"model", kTokenize,
     [](Fields& f, Request& r) { r.answer.model = f.Text("model").value_or(""); }},
    {"model", kOllama, [](Fields& f, Request& r) { ReadTaggedModel(f, "model", r); }},
    {"model", kOllamaShow,
     [](Fields& f, Request& r) {
       const bool older = f.Value("model") == nullptr && f.Value("name") != nullptr;
       ReadTaggedModel(f, older ? "name" : "model", r);
     }},
    {"name", kOllamaShow, [](Fields& f, Request&) { f.Value("name"); }},  // with model
    {"messages", kOllamaChat, ReadOllamaMessages},
    {"tools", kOllamaChat, ReadOllamaTools},
    {"prompt", kOllamaGenerate, ReadOllamaPrompt},
    {"system", kOllamaGenerate, [](Fields& f, Request&) { f.Value("system"); }},  // with prompt
    {"raw", kOllamaGenerate, [](Fields& f, Request&) { f.Value("raw"); }},        // likewise
    {"think", kOllama, ReadThink},
    {"format", kOllama, ReadOllamaFormat},
    {"options", kOllama, ReadOptions},
    {"stream", kOllama,
     [](Fields& f, Request& r) { r.answer.stream = f.Bool("stream").value_or(true); }},
    {"prompt", kCompletions, [](Fields& f, Request& r) { ReadPrompts(f, &r); }},
    {"messages", kChat, [](Fields& f, Request& r) { ReadMessages(f, &r.conversation); }},
    {"prompt", kTokenize, [](Fields& f, Request& r) { ReadTokenizePrompt(f, &r); }},
    {"messages", kTokenize, [](Fields& f, Request&) { f.Value("messages"); }},  // with prompt
    {"parse_special", kTokenize,
     [](Fields& f, Request& r) { r.parse_special = f.Bool("parse_special").value_or(false); }},
    {"input", kResponses, ReadInput},
    {"instructions", kResponses, [](Fields& f, Request&) { f.Value("instructions"); }},  // likewise
    {"previous_response_id", kResponses,
     [](Fields& f, Request& r) {
       r.conversation.previous = f.Text("previous_response_id").value_or("");
     }},
    {"store", kResponses, [](Fields& f, Request& r) { r.store = f.Bool("store").value_or(true); }},
    {"thread", kMessages, ReadThread},  // before messages and tools
    {"messages", kBlocks, ReadBlockMessages},
    {"system", kBlocks, [](Fields& f, Request&) { f.Value("system"); }},  // with messages
    {"tools", kBlocks, ReadBlockTools},
    {"tool_choice", kBlocks, [](Fields& f, Request&) { f.Value("tool_choice"); }},
    {"tools", kResponses, ReadFlatTools},
    {"tool_choice", kResponses, [](Fields& f, Request&) { f.Value("tool_choice"); }},
    {"tools", kChat | kTokenize, [](Fields& f, Request& r) { ReadTools(f, &r.conversation); }},
    {"tool_choice", kChat | kTokenize, [](Fields& f, Request&) { f.Value("tool_choice"); }},
    {"parallel_tool_calls", kChat | kResponses,
     [](Fields& f, Request& r) {
       r.conversation.parallel_calls = f.Bool("parallel_tool_calls").value_or(true);
     }},
    {"continue_final_message", kChat | kTokenize, ReadContinue},
    {"add_generation_prompt", kChat | kTokenize, ReadAsks},
    // Switches of the template; what is said last holds.
    {"reasoning_effort", kChat | kTokenize,
     [](Fields& f, Request& r) { ReadEffort(f, "reasoning_effort", &r.conversation); }},
    {"reasoning", kChat | kResponses, ReadReasoning},
    {"thinking", kChat | kBlocks, ReadThinkingField},
#define NG_BUDGET(name)                                                               \
  {                                                                                   \
    name, kSampled, [](Fields& f, Request& r) { ReadThoughtBudget(f, name, -1, &r); } \
  }
    NG_BUDGET("thinking_budget"),
    NG_BUDGET("thinking_budget_tokens"),
    NG_BUDGET("thinking_token_budget"),
    NG_BUDGET("reasoning_budget"),
#undef NG_BUDGET
    {"output_config", kBlocks, ReadOutputConfig},
    {"enable_thinking", kTemplated,
     [](Fields& f, Request& r) {
       const std::optional<bool> thinks = f.Bool("enable_thinking");
       if (thinks) SetThinking(*thinks, &r.conversation);
     }},
    {"chat_template_kwargs", kTemplated,
     [](Fields& f, Request& r) {
       const Json* const variables = f.Object("chat_template_kwargs");
       if (variables == nullptr) return;
       const Json switches = std::exchange(r.conversation.variables, *variables);
       for (const auto& [name, value] : switches.items()) {
         if (!variables->contains(name)) r.conversation.variables[name] = value;
       }
     }},
    // How long and in how many answers.
    {"max_tokens", kTexts | kMessages,
     [](Fields& f, Request& r) { ReadMaxTokens(f, "max_tokens", 0, &r.answer); }},
    {"max_completion_tokens", kChat,
     [](Fields& f, Request& r) { ReadMaxTokens(f, "max_completion_tokens", 0, &r.answer); }},
    {"max_output_tokens", kResponses,
     [](Fields& f, Request& r) { ReadMaxTokens(f, "max_output_tokens", 1, &r.answer); }},
    {"n_predict", kTexts,
     [](Fields& f, Request& r) { ReadMaxTokens(f, "n_predict", -1, &r.answer); }},
    {"num_predict", kTexts | kOllamaOptions,
     [](Fields& f, Request& r) { ReadMaxTokens(f, "num_predict", -2, &r.answer); }},
    {"num_ctx", kTexts | kOllamaOptions,
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
    {"stop", kTexts | kOllamaOptions,
     [](Fields& f, Request& r) { ReadStop(f, "stop", &r.answer.sampling); }},
    {"stop_sequences", kMessages,
     [](Fields& f, Request& r) { ReadStop(f, "stop_sequences", &r.answer.sampling); }},
    {"ignore_eos", kSampled,
     [](Fields& f, Request& r) {
       r.answer.sampling.ignore_eos = f.Bool("ignore_eos").value_or(false);
     }},
    // How it is sampled.
    {"seed", kSampled,
     [](Fields& f, Request& r) {
       r.answer.sampling.seed = f.Int("seed", {0, std::numeric_limits<int64_t>::max()});
     }},
    {"temperature", kSampled,
     [](Fields& f, Request& r) {
       r.answer.sampling.temperature = f.Real("temperature", {0, kMostTemperature});
     }},
#define NG_NUMBER(name, apis, number)                                                       \
  {                                                                                         \
    name, apis,                                                                             \
        [](Fields& f, Request& r) { ReadStageNumber(f, name, number, &r.answer.sampling); } \
  }
    NG_NUMBER("top_p", kSampled, kTopP),
    NG_NUMBER("top_k", kSampled, kTopK),
    NG_NUMBER("min_p", kSampled, kMinP),
    NG_NUMBER("typical_p", kSampled, kTypicalP),
    NG_NUMBER("typ_p", kSampled, kTypicalP),
    NG_NUMBER("top_n_sigma", kSampled, kTopNSigma),
    NG_NUMBER("frequency_penalty", kSampled, kFrequency),
    NG_NUMBER("presence_penalty", kSampled, kPresence),
    NG_NUMBER("repetition_penalty", kSampled, kRepetition),
    NG_NUMBER("repeat_penalty", kSampled, kRepeat),
    {"repeat_last_n", kSampled,
     [](Fields& f, Request& r) {
       ReadWindow(f, "repeat_last_n", "repetition_penalty", &r.answer.sampling);
     }},
    NG_NUMBER("xtc_probability", kSampled, kXtcProbability),
    NG_NUMBER("xtc_threshold", kSampled, Beside("xtc", "threshold", {0, 1, true})),
    NG_NUMBER("dry_multiplier", kSampled, kDryMultiplier),
    NG_NUMBER("dry_base", kSampled, Beside("dry", "base", {1, 10})),
    NG_NUMBER("dry_allowed_length", kSampled, Beside("dry", "allowed", {1, kMostInt}, true)),
    {"dry_penalty_last_n", kSampled,
     [](Fields& f, Request& r) { ReadWindow(f, "dry_penalty_last_n", "dry", &r.answer.sampling); }},
    {"dry_sequence_breakers", kSampled,
     [](Fields& f, Request& r) { ReadBreakers(f, "dry_sequence_breakers", &r.answer.sampling); }},
    {"mirostat", kSampled, [](Fields& f, Request& r) { ReadMirostat(f, &r.answer.sampling); }},
    NG_NUMBER("mirostat_tau", kSampled, Beside("mirostat", "tau", {0, 100, true})),
    NG_NUMBER("mirostat_eta", kSampled, Beside("mirostat", "eta", {0, 10})),
#undef NG_NUMBER
    {"logit_bias", kSampled, [](Fields& f, Request& r) { ReadLogitBias(f, &r.answer.sampling); }},
    // What it must match.
    {"response_format", kAnswers,
     [](Fields& f, Request& r) { ReadResponseFormat(f, &r.answer.sampling); }},
    {"text", kResponses, ReadForm},
    {"output_format", kMessages,
     [](Fields& f, Request& r) { ReadOutputFormat(f, "output_format", "output_format.", r); }},
    {"json_schema", kSampled,
     [](Fields& f, Request& r) { ReadSchemaField(f, "json_schema", &r.answer.sampling); }},
    {"guided_json", kSampled,
     [](Fields& f, Request& r) { ReadSchemaField(f, "guided_json", &r.answer.sampling); }},
    {"guided_regex", kSampled,
     [](Fields& f, Request& r) { ReadFormText(f, "guided_regex", "regex", &r.answer.sampling); }},
    {"guided_grammar", kSampled,
     [](Fields& f, Request& r) { ReadFormText(f, "guided_grammar", "gbnf", &r.answer.sampling); }},
    {"grammar", kSampled,
     [](Fields& f, Request& r) { ReadFormText(f, "grammar", "gbnf", &r.answer.sampling); }},
    // How it is told.
    {"stream", kTexts, [](Fields& f, Request& r) { ReadStream(f, &r.answer); }},
    {"stream_options", kTexts, [](Fields& f, Request&) { f.Value("stream_options"); }},
    {"stream", kResponses | kMessages,
     [](Fields& f, Request& r) { r.answer.stream = f.Bool("stream").value_or(false); }},
    {"logprobs", kChat, [](Fields& f, Request& r) { ReadChatLogprobs(f, &r.answer); }},
    {"top_logprobs", kChat, [](Fields& f, Request&) { f.Value("top_logprobs"); }},
    {"logprobs", kCompletions, [](Fields& f, Request& r) { ReadCompletionLogprobs(f, &r.answer); }},
    {"echo", kCompletions, [](Fields& f, Request& r) { r.echo = f.Bool("echo").value_or(false); }},
    {"return_token_ids", kTexts,
     [](Fields& f,
        Request& r) { r.answer.return_token_ids = f.Bool("return_token_ids").value_or(false); }},

    // What changes nothing: labels, hints of how to compute, and values that say what is so anyway.
    {"user", kTexts | kResponses, nullptr, IsAnyText, kMustBeText},
    {"metadata", kAnswers | kCountTokens, nullptr, IsAnyObject, "must be an object"},
    {"safety_identifier", kTexts | kResponses, nullptr, IsAnyText, kMustBeText},
    {"request_id", kTexts, nullptr, IsAnyText, kMustBeText},
    {"priority", kTexts, nullptr, IsAnyInt, kMustBeInt},
    {"store", kTexts, nullptr, IsFalse, "must be false: no answer is kept"},
    {"service_tier", kAnswers | kCountTokens, nullptr,
     [](const Json& v,
        const Json&) { return v == "auto" || v == "default" || v == "standard_only"; },
     "must be auto, default or standard_only"},
    {"cache_control", kBlocks, nullptr, IsAnyObject, "must be an object"},
    {"inference_geo", kBlocks, nullptr, IsAnyText, kMustBeText},
    {"diagnostics", kMessages, nullptr, IsAnyObject, "must be an object"},
    {"speed", kBlocks, nullptr, [](const Json& v, const Json&) { return v == "standard"; },
     "must be standard"},
    {"fallbacks", kMessages, nullptr,
     [](const Json& v, const Json&) { return v == "default" || v.empty(); },
     "must be default or empty: there is one model"},
    {"mcp_servers", kBlocks, nullptr, IsEmpty, kMustBeEmpty},
    {"context_management", kBlocks, nullptr,
     [](const Json& v, const Json&) { return ManagesNothing(v); },
     "must have no edits but those that keep all"},
    {"prompt_cache_key", kTexts | kResponses, nullptr, IsAnyText, kMustBeText},
    {"prompt_cache_retention", kTexts | kResponses, nullptr, IsAnyText, kMustBeText},
    {"prompt_cache_options", kTexts | kResponses, nullptr, IsAnyObject, "must be an object"},
    {"prediction", kChat, nullptr, IsAnyObject, "must be an object"},
    {"modalities", kChat, nullptr,
     [](const Json& v, const Json&) { return v == Json::array({"text"}); }, "must be [\"text\"]"},
    {"verbosity", kChat, nullptr, [](const Json& v, const Json&) { return v == "medium"; },
     "must be medium"},
    {"functions", kChat, nullptr, IsEmpty, "must be empty: send tools"},
    {"function_call", kChat, nullptr,
     [](const Json& v, const Json&) { return v == "auto" || v == "none"; }, "must be auto or none"},
    {"suffix", kCompletions | kOllamaGenerate, nullptr, IsEmpty, kMustBeEmpty},
    {"images", kOllamaGenerate, nullptr, IsEmpty, "must be empty: none is read"},
    {"template", kOllamaGenerate, nullptr, IsEmpty, "must be empty: the model has its own"},
    {"context", kOllamaGenerate, nullptr, IsEmpty, "must be empty: send messages to /api/chat"},
    {"logprobs", kOllama, nullptr, IsFalse, kMustBeFalse},
    {"top_logprobs", kOllama, nullptr, IsNone, kMustBeZero},
    {"truncate", kOllama, nullptr, IsFalse, "must be false: nothing is left out"},
    {"shift", kOllama, nullptr, IsFalse, "must be false: nothing is left out"},
    {"verbose", kOllamaShow, nullptr, IsAnyBool, "must be true or false"},
    {"num_keep", kOllamaOptions, nullptr, IsAnyInt, kMustBeInt},
    {"num_batch", kOllamaOptions, nullptr, IsAnyInt, kMustBeInt},
    {"num_gpu", kOllamaOptions, nullptr, IsAnyInt, kMustBeInt},
    {"main_gpu", kOllamaOptions, nullptr, IsAnyInt, kMustBeInt},
    {"num_thread", kOllamaOptions, nullptr, IsAnyInt, kMustBeInt},
    {"use_mmap", kOllamaOptions, nullptr, IsAnyBool, "must be true or false"},
    {"use_mlock", kOllamaOptions, nullptr, IsAnyBool, "must be true or false"},
    {"numa", kOllamaOptions, nullptr, IsAnyBool, "must be true or false"},
    {"low_vram", kOllamaOptions, nullptr, IsAnyBool, "must be true or false"},
    {"f16_kv", kOllamaOptions, nullptr, IsAnyBool, "must be true or false"},
    {"penalize_newline", kOllamaOptions, nullptr, IsTrue, kMustBeTrue},
    {"tfs_z", kOllamaOptions, nullptr, IsOneExactly, "must be 1"},
    {"max_tool_calls", kResponses, nullptr, IsAnyInt, kMustBeInt},
    {"include", kResponses, nullptr, [](const Json& v, const Json&) { return AsksForEncrypted(v); },
     "must be empty, or [\"reasoning.encrypted_content\"]: thoughts come as they are"},
    {"background", kResponses, nullptr, IsFalse, kMustBeFalse},
    {"stream_options", kResponses, nullptr,
     [](const Json& v,
        const Json&) { return v == Json::object() || v == Json({{"include_obfuscation", false}}); },
     "must have no include_obfuscation"},
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
    {"keep_alive", kTexts | kOllama, nullptr, [](const Json&, const Json&) { return true; }, ""},
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
    {"add_special_tokens", kChat, nullptr, IsFalse, "must be false: the template writes them"},
    {"echo", kChat, nullptr, IsFalse, kMustBeFalse},

    // What is refused with another way to the same.
    {"samplers", kTexts, nullptr, nullptr, "the order of the stages is that of sampler.chain"},
    {"guided_choice", kTexts, nullptr, nullptr, "send guided_json with an enum"},
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
