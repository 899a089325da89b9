// Exceptions to errors. Of our own code only a plugin's guard throws, but an allocation can fail
// anywhere.
#ifndef NG_CORE_RUNTIME_LOOP_CAUGHT_H_
#define NG_CORE_RUNTIME_LOOP_CAUGHT_H_

#include <exception>
#include <new>

#include "absl/strings/str_cat.h"
#include "core/plugin/loader.h"
#include "ng/status.h"

namespace ng {

// Returns what `call` returns, an absl::Status or a StatusOr; of an exception, the error that it
// stands for.
template <typename Call>
auto Caught(Call&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return LimitError("out of memory");
  } catch (const PluginFault& fault) {
    return fault.status();
  } catch (const std::exception& error) {
    return RuntimeError(absl::StrCat("unexpected exception: ", error.what()));
  }
}

}  // namespace ng

#endif  // NG_CORE_RUNTIME_LOOP_CAUGHT_H_
