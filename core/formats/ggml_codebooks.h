// The codebooks of GGUF's IQ types: which groups of magnitudes a few bits stand for. Facts of the
// format (the grids of ggml-common.h), made by tests/data/gguf/make_codebooks.py.
#ifndef NG_CORE_FORMATS_GGML_CODEBOOKS_H_
#define NG_CORE_FORMATS_GGML_CODEBOOKS_H_

#include <array>
#include <cstdint>

namespace ng {

// Eight values, 2 bits each, the first one lowest: which of three magnitudes it has; of kIq1Book,
// which of -1, 0 and 1 it is.
extern const std::array<uint16_t, 256> kIq2XxsBook;
extern const std::array<uint16_t, 512> kIq2XsBook;
extern const std::array<uint16_t, 1024> kIq2SBook;
extern const std::array<uint16_t, 2048> kIq1Book;

// Four values, 3 bits each: which of eight magnitudes.
extern const std::array<uint16_t, 256> kIq3XxsBook;
extern const std::array<uint16_t, 512> kIq3SBook;

}  // namespace ng

#endif  // NG_CORE_FORMATS_GGML_CODEBOOKS_H_
