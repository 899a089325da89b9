// Probabilities as bytes on a log scale: small enough to keep every row of attention, and exact
// enough to read.
#ifndef NG_APPS_VIEW_BYTE_SCALE_H_
#define NG_APPS_VIEW_BYTE_SCALE_H_

#include <cstdint>

namespace ng::view {

// What byte 1 stands for. Byte 255 stands for 1, and each byte for the same factor more than the
// one before. What is nearer to nothing than to byte 1 is byte 0.
inline constexpr double kLeastProbability = 1e-6;
inline constexpr int kByteSteps = 255;

// The byte whose logarithm is nearest. REQUIRES: p is not NaN.
uint8_t ToByte(float p);
// What a byte stands for; 0 for byte 0.
double FromByte(uint8_t byte);
// The most that FromByte(ToByte(p)) differs from p, relative to p, for p from kLeastProbability
// to 1.
double ByteError();

}  // namespace ng::view

#endif  // NG_APPS_VIEW_BYTE_SCALE_H_
