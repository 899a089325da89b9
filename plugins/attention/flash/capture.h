// Finding the probability rows that were asked for, in the sorted list of an AttentionRun.
#ifndef NG_PLUGINS_ATTENTION_FLASH_CAPTURE_H_
#define NG_PLUGINS_ATTENTION_FLASH_CAPTURE_H_

#include <cstdint>
#include <span>

#include "ng/attention_backend.h"

namespace ng {

// Those of one query and head; several when a caller asked twice.
std::span<const ProbabilityRow> FindCaptures(std::span<const ProbabilityRow> sorted,
                                             int32_t sequence, int64_t pos, int32_t head);

}  // namespace ng

#endif  // NG_PLUGINS_ATTENTION_FLASH_CAPTURE_H_
