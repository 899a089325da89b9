// What a program says when it opens an engine (ng/engine.h), and what it is told meanwhile.
//
// Thread: the callbacks are called on the engine's.
#ifndef NG_ENGINE_OPTIONS_H_
#define NG_ENGINE_OPTIONS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ng/executor.h"
#include "ng/plugins.h"

#pragma GCC visibility push(default)
namespace ng {

// Counts the parallel regions of an engine while it is on. Each of them reads the clock twice then.
struct RegionMeter {
  bool on = false;
  int64_t regions = 0;
  std::chrono::nanoseconds inside{0};  // the time from the beginning of each to its end
};

struct Progress {
  std::string_view phase;  // "load", "prefill"
  int64_t done = 0;        // in the phase's own unit: bytes, tokens
  int64_t total = 0;
};

struct EngineOptions {
  std::string config_file;             // may be empty: defaults and overrides only
  std::vector<std::string> overrides;  // "section.key=value", the last of a key wins
  // Read often; once true, work stops at the next token (or layer, or tensor) with
  // InterruptedError or stop_reason "interrupted". May be null. Not owned.
  const std::atomic<bool>* stop = nullptr;
  std::function<void(const Progress&)> progress;  // called on the engine's thread; may be empty
  // Told what the user should know though it is no error (a key that nobody reads, fewer threads
  // than asked for): one line without its end, each once. Called on the engine's thread; may be
  // empty.
  std::function<void(std::string_view)> warning;
  // Threads to compute with, in place of the engine's own; run.threads says nothing then. For an
  // engine within a plugin (PluginContext::executor). Not owned; null: its own.
  Executor* executor = nullptr;
  // Told of the engine's parallel regions, on the engine's thread. Not owned; null: nobody is.
  RegionMeter* regions = nullptr;
  // A config.json of any family: its shape runs with weights that are made up, always the same, and
  // without a tokenizer. model.path and tokenizer.path must then be unset. Empty: a model file.
  std::string random_weights;
  // Plugins that the program brings itself, beside those in the folders: the config names them
  // alike, they pass the same handshake and have the same guards. `path` says in errors where they
  // are, and is the file that Fingerprint hashes. A kind and name that a folder offers, too, is a
  // PluginError. The descriptors and what they point to must outlive the engine.
  std::vector<LoadedPlugin> plugins = {};
  // This program can be one of several ranks (fabric.name): on all of them it makes the same calls.
  // False: a run of several ranks is a UsageError.
  bool ranks = false;
  // Above 1: such an engine only plans, for the rank that takes most of so many. Load refuses.
  int plan_ranks = 0;
};

// How much Engine::Describe says. kAll: also what becomes of each tensor.
enum class DescribeDetail { kScreen, kAll };

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_ENGINE_OPTIONS_H_
