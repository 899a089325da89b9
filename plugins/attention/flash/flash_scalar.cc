#include "plugins/attention/flash/flash_kernel-inl.h"

namespace ng {

const FlashKernel& ScalarFlashKernel() { return Flash<scalar::Vec16, 4, 1>::kKernel; }

}  // namespace ng
