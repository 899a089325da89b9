#include "core/text/sentencepiece/sentencepiece_library.h"

#include <sentencepiece_processor.h>

#include <exception>
#include <new>

#include "ng/memory_reserve.h"

// Exported by the library, declared in none of the headers it installs.
namespace sentencepiece::logging {
void SetMinLogLevel(int level);
}

namespace ng {
namespace {

constexpr int kLogNothing = 4;  // above the library's FATAL

template <typename Call>
std::string ReasonOfStatus(Call call) {
  try {
    const sentencepiece::util::Status status = call();
    if (status.ok()) return "";
    const std::string reason = status.error_message();
    return reason.empty() ? "the SentencePiece library gives no reason" : reason;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& exception) {
    return exception.what();
  }
}

// More memory than the library takes for each byte of a model or a text, and for an empty one. It
// is only reserved and never written.
constexpr size_t kBytesPerByte = 320;
constexpr size_t kLeastReserve = size_t{1} << 20;

// Runs a call of the library, which is given `n_bytes` bytes, and returns why it failed. When an
// allocation fails in the library, protobuf would end the process. So it gets the reserve, and the
// call counts as failed. Throws bad_alloc, but never from within the library.
template <typename Call>
std::string ReasonOf(size_t n_bytes, Call call) {
  const MemoryReserve reserve(kLeastReserve + kBytesPerByte * n_bytes,
                              MemoryReserve::For::kEverything);
  std::string reason = ReasonOfStatus(call);
  if (reserve.used()) throw std::bad_alloc();
  return reason;
}

}  // namespace

SentencePieceLibrary::SentencePieceLibrary()
    : processor_(std::make_unique<sentencepiece::SentencePieceProcessor>()) {
  sentencepiece::logging::SetMinLogLevel(kLogNothing);
}
SentencePieceLibrary::SentencePieceLibrary(SentencePieceLibrary&&) noexcept = default;
SentencePieceLibrary& SentencePieceLibrary::operator=(SentencePieceLibrary&&) noexcept = default;
SentencePieceLibrary::~SentencePieceLibrary() = default;

std::string SentencePieceLibrary::Load(std::string_view model) {
  return ReasonOf(model.size(), [&] { return processor_->LoadFromSerializedProto(model); });
}

int32_t SentencePieceLibrary::vocab_size() const { return processor_->GetPieceSize(); }

bool SentencePieceLibrary::IsControl(int32_t id) const { return processor_->IsControl(id); }

std::string_view SentencePieceLibrary::Piece(int32_t id) const { return processor_->IdToPiece(id); }

std::string SentencePieceLibrary::Encode(std::string_view text, std::vector<int32_t>* ids) const {
  return ReasonOf(text.size(), [&] { return processor_->Encode(text, ids); });
}

std::string SentencePieceLibrary::Decode(std::span<const int32_t> ids, std::string* text) const {
  const std::vector<int> copy(ids.begin(), ids.end());
  return ReasonOf(ids.size(), [&] { return processor_->Decode(copy, text); });
}

}  // namespace ng
