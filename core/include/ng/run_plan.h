// What a run takes, in bytes and in multiply-adds, known before anything is loaded.
#ifndef NG_RUN_PLAN_H_
#define NG_RUN_PLAN_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ng/cache_store.h"
#include "ng/kv_view.h"
#include "ng/request.h"
#include "ng/status.h"

#pragma GCC visibility push(default)
namespace ng {

// What a run must have room for.
struct RunNeeds {
  int64_t max_tokens = 0;  // prompt + max_new of the longest request
  int max_sequences = 1;
  // GenerateOptions::capture_logits will be set, or the points `norm` or `logits` be captured or
  // looked at, or LogitRows::kAll asked for.
  bool prompt_logits = false;
  // Tokens of the longest prompt, fed to one sequence at a time; 0: as many as max_tokens.
  int64_t max_prompt = 0;
  bool snapshots = false;  // of the cache will be loaded or saved: Load then hashes the weights
  bool identity = false;   // Engine::Identity will be asked for: the same
  bool prompt_logprobs = false;  // GenerateRequest::prompt_top_logprobs will be set
  // Weights may be read in the first step (model.load), and what is wrong with them be said there.
  bool read_in_step = false;
};
// A part of what a run is (Engine::Identity).
struct IdentityField {
  std::string name;  // "model", "run.isa"
  std::string value;
};

// What these requests need when they run together.
RunNeeds Needs(std::span<const GenerateRequest> requests);

// Layers in which a query sees as many cached tokens.
struct CacheReads {
  int64_t window = 0;           // the most of them; 0: all
  int64_t bytes_per_token = 0;  // keys and values of one, in these layers
  // Of the keys that a query sees it reads so many of each kv head at most; 0: all.
  int64_t most_keys = 0;
  // What of bytes_per_token is bounds, by which it chooses them (layout "tiles16_bounds").
  int64_t bounds_per_token = 0;
};
// What the step that comes to `length` tokens of one sequence reads of the cache.
struct BytesRead {
  int64_t keys_and_values = 0;
  int64_t bounds = 0;
  int64_t all = 0;  // that would be read if no key were passed over

  int64_t bytes() const { return keys_and_values + bounds; }
};
BytesRead ReadAt(std::span<const CacheReads> reads, int64_t length);

// What the steps of a loaded model must read and compute, from its sizes alone: what a measured
// time is held against.
struct StepCost {
  std::string_view weights;           // the type most are held as: "f32", "bf16", ...; static text
  int64_t weight_bytes = 0;           // read by every step; of experts, those of one row
  int64_t cache_bytes_per_token = 0;  // keys and values of one cached token, in all layers
  std::vector<CacheReads> cache_reads;  // the same by windows
  int64_t state_bytes = 0;              // a sequence's, which a step reads and writes
  int64_t row_multiply_adds = 0;        // in the layers' matrices and states, for each row
  int64_t logit_multiply_adds = 0;      // in the head, for each row that has logits
  int64_t key_multiply_adds = 0;        // in all layers, for each key that a query sees
};

// What the weights take, packed as the kernels read them.
struct WeightSizes {
  int64_t embedding_bytes = 0;
  int64_t head_bytes = 0;    // 0: the head is the embedding
  int64_t layer_bytes = 0;   // the layers' matrices
  int64_t vector_bytes = 0;  // norms, biases, learned positions, factors of RoPE

  int64_t matrix_bytes() const;
  int64_t bytes() const;  // in all
};

// Layers of which the cache holds the same tokens.
struct HeldLayers {
  int n_layers = 0;
  int64_t window = 0;  // what a query sees at most; 0: all is held
  int64_t tokens = 0;  // of a sequence that are held at one time
};
// "22 layers hold the last 1023 tokens, for a window of 512"
std::string HeldLine(const HeldLayers& layers);
// "with room for 12 checkpoints of texts, for requests that go on with them"
std::string CheckpointsLine(int checkpoints);
// "bounds of keys take 192 of a token's 6592 bytes; the step to 8000 tokens reads 6.554 of 51.200
// MB of keys and values, at most 1024 tokens of each kv head, and 1.536 MB of bounds". Empty: there
// are no bounds.
std::string ReadsLine(std::span<const CacheReads> reads, int64_t length);
// "a sequence holds at most 1152 tokens: others leave at multiples of 128". REQUIRES: slots > 0.
std::string SlotsLine(const CachePlan& cache);

// What a run takes, known before anything is loaded: what Load reserves and checks. Tensors that a
// run keeps on request are not in it.
struct RunPlan {
  int64_t max_tokens = 0;  // that each sequence has room for
  int max_sequences = 0;   // open at the same time
  Codec codec_k = Codec::kF32;
  Codec codec_v = Codec::kF32;
  WeightSizes weights;
  // Of a quantised checkpoint lines: its format, the bits of a weight in the file and in memory,
  // what the format would round and a run does not.
  std::string quantised;
  CachePlan cache;                 // what the store says that it will reserve
  std::vector<HeldLayers> held;    // where layers hold no more than a window, else empty
  int64_t state_bytes = 0;         // where the model keeps a state, and of checkpoints
  int checkpoints = 0;             // of texts: room for their windows and states is in the above
  int64_t drafter_bytes = 0;       // what the drafter reserves
  int64_t adapter_bytes = 0;       // what model.adapters add to the weights
  int64_t load_scratch_bytes = 0;  // while weights are read; given back when all of them are
  bool read_in_step = false;       // by the first step, so together with what a step takes
  int64_t activation_bytes = 0;    // buffers of the largest step, attention's scratch, rotations
  int64_t program_bytes = 0;       // resident by now: code, plugins, tokenizer, metadata
  int64_t available_bytes = 0;     // what this machine and the process's cgroup still give
  StepCost step;
  // Of this rank among so many (fabric.name): weights, cache and activations above are its own.
  int rank = 0;
  int ranks = 1;
  bool by_layers = false;            // fabric.split: it has some layers, not a part of each
  int64_t gathered_row_bytes = 0;    // that all ranks together give for each row of a step
  int64_t gathered_logit_bytes = 0;  // and for each row that has logits
  int64_t gathered_step_bytes = 0;   // and for a step, however many rows it has
  int64_t gathered_piece_bytes = 0;  // and for each piece that a step by layers is cut into
  int64_t gathers = 0;               // messages that a step of one row waits for in turn
  // Where it does not fit: what would make it fit, computed, or that nothing does.
  std::string remedy;

  // The peak on top of program_bytes. A cache is reserved first and used after the load, so its
  // memory and the load's scratch are not there at the same time.
  int64_t needed_bytes() const;
};
// Errors: LimitError with the bytes of each part, the bytes available and the remedy, when
// needed_bytes are more.
absl::Status CheckMemory(const RunPlan& plan);

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_RUN_PLAN_H_
