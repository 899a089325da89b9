// What the keys and values of a text depend on besides its ids: the fields of a cache snapshot. A
// run may take a snapshot only where all of them are its own (G1: then every bit is, too).
//
//   program      ng's version and build: kernels may add in another order in another one
//   shape        layers, kv heads and head size
//   model.weights  what the matrices are held as
//   arithmetic   name and version (ng/isa.h), not the level: levels of one give the same bits
//   attention    the backend, its version and options: its outputs feed the layers above it
//   cache.codec_k, cache.codec_v
//   tokenizer    a hash of the bytes of every token, or "none". It sees another vocabulary. It does
//                not see how a text is split into tokens: that changes ids, which are compared.
//   probes       those that edit a step, with version, options and the bytes of the files that they
//                read; or "none". One that only looks is not among them.
//   model        a hash of everything in the model's metadata that the decoder uses, of what each
//                matrix is held as, and of all bytes of all tensors that it uses, as they are read
//
// What does not change a bit is not among them: threads, chunks, the batch, the store and its
// pages, the sampler, the names of tensors and files. Nor is it among them whether attention sees
// through the model's sliding window or the run must end within it: within it both give the same
// bits, and a file that goes beyond it is refused where a run must not.
#ifndef NG_CORE_RUNTIME_PLAN_CACHE_IDENTITY_H_
#define NG_CORE_RUNTIME_PLAN_CACHE_IDENTITY_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/runtime/assembly/assembly.h"
#include "core/snapshot/cache_file.h"

namespace ng {

// weights_hash: ModelWeights::hash; without it (nothing is loaded) the field "model" is empty.
std::vector<CacheField> CacheIdentity(const Assembly& assembly,
                                      std::optional<uint64_t> weights_hash);

// The parts of it that other descriptions of a run have too.
std::string TokenizerText(const Assembly& assembly);        // a hash, or "none"
uint64_t HashOfSpec(const ModelSpec& spec, uint64_t seed);  // of every field

}  // namespace ng

#endif  // NG_CORE_RUNTIME_PLAN_CACHE_IDENTITY_H_
