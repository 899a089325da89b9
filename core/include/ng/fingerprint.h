// What a run is made of beside its config and its ids: what a record of the run holds, and what is
// compared when it is run again.
#ifndef NG_FINGERPRINT_H_
#define NG_FINGERPRINT_H_

#include <string>
#include <string_view>
#include <vector>

#pragma GCC visibility push(default)
namespace ng {

// A hash as it is written here: 16 hexadecimal digits. It finds accidents and other versions; it
// does not protect from somebody who makes bytes to fit a hash.
std::string HashText(std::string_view bytes);

struct PluginFingerprint {
  std::string kind;
  std::string name;
  std::string version;
  std::string hash;  // of the library's bytes

  bool operator==(const PluginFingerprint&) const = default;
};

struct RunFingerprint {
  std::string program;     // ng's version and build
  std::string sdk;         // the version of the SDK
  std::string isa;         // the instruction set level
  std::string arithmetic;  // its arithmetic, with the version
  // A hash of what the decoder knows of the model and of all bytes of the tensors that it uses, as
  // the file has them: what they are held as is not part of it.
  std::string model;
  std::string tokenizer;  // a hash of the bytes of every token, or "none"
  // What edits the steps: each probe that does, with its options and a hash of each file that it
  // read. "none": nothing.
  std::string edits;
  // Attention, cache, the sampler's stages and the probes in the order of their chains, the
  // drafter, then those that these use.
  std::vector<PluginFingerprint> plugins;
};

}  // namespace ng
#pragma GCC visibility pop

#endif  // NG_FINGERPRINT_H_
