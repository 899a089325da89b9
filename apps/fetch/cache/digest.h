// The hashes that a hub knows files by.
#ifndef NG_APPS_FETCH_CACHE_DIGEST_H_
#define NG_APPS_FETCH_CACHE_DIGEST_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace ng::fetch {

// Of bytes that come in pieces. Throws bad_alloc where there is no memory.
class Digest {
 public:
  // Of a large file (LFS).
  static Digest Sha256();
  // Of another one: what git calls a file of `size` bytes.
  static Digest GitSha1(int64_t size);

  void Add(std::string_view bytes);
  // In hexadecimal digits. REQUIRES: the last call.
  std::string Hex();

 private:
  struct State;
  struct Free {
    void operator()(State* state) const;
  };
  explicit Digest(const char* name);

  std::unique_ptr<State, Free> state_;
};

}  // namespace ng::fetch

#endif  // NG_APPS_FETCH_CACHE_DIGEST_H_
