#include "core/text/sentencepiece_library.h"

#include <sentencepiece_processor.h>

#include <exception>

// Exported by the library, declared in none of the headers it installs.
namespace sentencepiece::logging {
void SetMinLogLevel(int level);
}

namespace ng {
namespace {

constexpr int kLogNothing = 4;  // above the library's FATAL

// Runs a call of the library and tells why it failed.
template <typename Call>
std::string ReasonOf(Call call) {
  try {
    const sentencepiece::util::Status status = call();
    if (status.ok()) return "";
    const std::string reason = status.error_message();
    return reason.empty() ? "the SentencePiece library gives no reason" : reason;
  } catch (const std::exception& exception) {
    return exception.what();
  }
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
  return ReasonOf([&] { return processor_->LoadFromSerializedProto(model); });
}

int32_t SentencePieceLibrary::vocab_size() const { return processor_->GetPieceSize(); }

bool SentencePieceLibrary::IsControl(int32_t id) const { return processor_->IsControl(id); }

std::string_view SentencePieceLibrary::Piece(int32_t id) const { return processor_->IdToPiece(id); }

std::string SentencePieceLibrary::Encode(std::string_view text, std::vector<int32_t>* ids) const {
  return ReasonOf([&] { return processor_->Encode(text, ids); });
}

std::string SentencePieceLibrary::Decode(std::span<const int32_t> ids, std::string* text) const {
  return ReasonOf(
      [&] { return processor_->Decode(std::vector<int>(ids.begin(), ids.end()), text); });
}

}  // namespace ng
