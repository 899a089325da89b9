#include "apps/fetch/cache/digest.h"

#include <openssl/evp.h>

#include <new>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ng::fetch {

struct Digest::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  bool failed = false;
};

void Digest::Free::operator()(State* state) const {
  EVP_MD_CTX_free(state->context);
  delete state;
}

Digest::Digest(const char* name) : state_(new State) {
  const EVP_MD* const kind = EVP_get_digestbyname(name);
  if (state_->context == nullptr) throw std::bad_alloc();
  state_->failed = kind == nullptr || EVP_DigestInit_ex(state_->context, kind, nullptr) != 1;
}

Digest Digest::Sha256() { return Digest("SHA256"); }

Digest Digest::GitSha1(int64_t size) {
  Digest digest("SHA1");
  const std::string head = absl::StrCat("blob ", size);
  digest.Add({head.c_str(), head.size() + 1});
  return digest;
}

void Digest::Add(std::string_view bytes) {
  if (state_->failed) return;
  state_->failed = EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) != 1;
}

// Empty after a failure, which is nobody's hash.
std::string Digest::Hex() {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned n_bytes = 0;
  if (state_->failed || EVP_DigestFinal_ex(state_->context, bytes, &n_bytes) != 1) return {};
  std::string hex;
  for (unsigned i = 0; i < n_bytes; ++i) absl::StrAppendFormat(&hex, "%02x", bytes[i]);
  return hex;
}

}  // namespace ng::fetch
